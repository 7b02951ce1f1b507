"""Memory placement of a network's tensors on an NNP-I-like chip, as a `hwsim.problem.Problem`.

Source: EGRL paper, section 3 (state, actions, rewards) and algorithm 1.

Deviations: with `invalid = "repair"` (the default) the rectified map runs and is rewarded, so that every proposal is
measured. `"penalise"` is the paper's rule: if any tensor had to move, nothing runs and the reward is -epsilon.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from hwsim.capabilities import Lifetime, Occupancy, Parts, Solution
from hwsim.explanation import OpTimes
from hwsim.keys import derive, normals
from hwsim.mappings import choice_columns
from hwsim.nnpi.chip import Chip, chip_file
from hwsim.nnpi.latency import SIMULATOR_VERSION, profiles, trace_latency
from hwsim.nnpi.placer import DEFAULT_RULE, RULES, NnpiPlacer, compile_map, rule_named
from hwsim.nnpi.rectify import epsilon, rectify
from hwsim.nnpi.tables import Tables, build_tables
from hwsim.pins import pins_of
from hwsim.problem import (
    UNPROVED,
    About,
    Baseline,
    Bound,
    Evaluation,
    Keys,
    Mapping16,
    Observation,
    Violation,
)
from hwsim.space import Space
from workloads.errors import InputError
from workloads.features import SCHEMA_VERSION, edge_index, static_features
from workloads.serialize import to_json
from workloads.workload import Workload

if TYPE_CHECKING:
    from hwsim.family import Effects, Estimate, Family

POLISH_STEPS, POLISH_RESTARTS = 600_000, 3
"""Proposals of the local search that follows a solve, and its annealings."""
POLISH_SHARE = 0.3
"""The share of the time limit that is kept for this search."""
NEAR_STEPS, NEAR_WORK = (300_000, 300_000), 120_000_000
"""Proposals of each annealing from a given start; and proposals times ops at most, some seconds."""

HEADS = ("weight", "activation")
_NOISE_STREAM = 0x6E6F697365
_PROFILE_STREAM = 0x70726F66696C65


@dataclass(frozen=True)
class NnpiConfig:
    """Settings of the problem."""

    invalid: Annotated[
        Literal["repair", "penalise"],
        Doc(
            'if a map does not fit, "repair" runs the rectified map; "penalise" runs nothing, reward -epsilon'
        ),
    ] = "repair"
    baseline: Annotated[str, Doc("the compiler rule that speedups are relative to, one of `rules.RULES`")] = (
        DEFAULT_RULE
    )
    profile_noise: Annotated[
        float,
        Doc(
            "relative standard deviation of the noise that a profile adds to the time of each op, beside the chip's own"
            " noise; 0: none"
        ),
        Ge(0.0),
    ] = 0.0
    pins: Annotated[
        list[str],
        Doc("tensors that stay in a memory or lie together, bytes that stay free; as --pin (`hwsim.pins`)"),
    ] = field(default_factory=list)


def _maps_of_rules(tables: Tables) -> dict[str, Mapping16]:
    """The map int16 [N, 2] that each of the compiler's rules makes, by the rule's name."""
    return {name: compile_map(tables, rule) for name, rule in RULES.items()}


class NnpiProblem:
    """Place each op's weight and activation in one of the chip's memories.

    mapping   int16 [N, 2]: memory of the weight, memory of the activation; 0 = slowest; -1 = no such tensor
    cost      seconds of one inference (batch and precision as the workload and the chip say)
    reward    (baseline cost / cost)^2 if it ran; -epsilon if it did not (`invalid = "penalise"`)
    valid     at every step, what is pinned or live in a memory fits in it

    >>> problem = NnpiProblem(load("resnet50"), load_chip("nnpi"))
    >>> problem.evaluate(problem.space.initial[None], np.zeros(1, np.uint64)).speedup
    """

    def __init__(self, workload: Workload, chip: Chip, config: NnpiConfig | None = None) -> None:
        """Build the tables and compile the baseline.

        Raises:
            InputError: `baseline` or `invalid` is unknown, pins are none or have no room, or the slowest memory cannot
                hold the workload.
        """
        self.config = config or NnpiConfig()
        if self.config.invalid not in ("repair", "penalise"):
            raise InputError(f"problem.invalid: expected repair or penalise, found {self.config.invalid!r}")
        rule = rule_named(self.config.baseline)
        self._workload, self._chip = workload, chip
        sizes = np.array([(op.weight_bytes, op.output_bytes) for op in workload]) > 0
        pins = pins_of(
            self.config.pins,
            [op.name for op in workload],
            HEADS,
            chip.memory_names,
            sizes,
            [f"{what}={where}" for what, where in chip.pins.items()],
        )
        self.tables = build_tables(workload, chip, pins)

        self.about = About(
            "nnpi",
            workload.name,
            chip.name,
            baseline_name="the compiler",
            evaluated="inferences",
            place="memory",
            step="op",
            stands_for="a compiler",
            model_error=chip.prediction.get("held_out_error", 0.0),
            uncounted="; ".join(workload.remarks),
            widths=_widths(workload, chip),
        )
        self.parts = Parts.of_nodes([op.name for op in workload], [op.kind for op in workload])
        size_bytes = np.stack([self.tables.weight_bytes, self.tables.activation_bytes], axis=1)
        self.space = Space(
            [op.name for op in workload],
            HEADS,
            np.full(size_bytes.shape, len(chip.memories), np.int16),
            [chip.memory_names] * 2,
            size_bytes,
            pins=pins,
        )
        x = np.concatenate(
            [static_features(workload), choice_columns(self.space.choice_rank, self.space.initial)], axis=1
        )
        self.observation = Observation(x.astype(np.float32), edge_index(workload), SCHEMA_VERSION)
        compiled = compile_map(self.tables, rule)
        self.baseline = Baseline(
            compiled,
            trace_latency(self.tables, compiled)[0],
            rule.name,
            rules=partial(_maps_of_rules, self.tables),
        )

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Measure mappings int16 [B, N, 2]; if the chip's noise is on, keys uint64 [B] decide it.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        proposed = np.ascontiguousarray(self.space.canonical(mapping))
        rectified, moved = rectify(self.tables, proposed)
        share = epsilon(self.tables, moved)
        noise, own = normals(derive(key, _NOISE_STREAM)), derive(key, _PROFILE_STREAM)
        cost, parts = profiles(self.tables, rectified, noise, self.config.profile_noise, own)
        runs = (moved == 0) | (self.config.invalid == "repair")
        judged = np.where(runs[:, None, None], rectified, proposed)
        return Evaluation.of_costs(cost, self.baseline.cost, runs, judged, share, parts=parts)

    def rectify(self, mapping: Mapping16) -> Mapping16:
        """The maps that run for mappings int16 [B, N, 2], after rectifying.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, np.zeros(len(mapping), np.uint64))
        rectified: Mapping16 = rectify(self.tables, np.ascontiguousarray(self.space.canonical(mapping)))[0]
        return rectified

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every constraint that one mapping [N, 2] breaks, by code that shares nothing with `evaluate`."""
        from hwsim.nnpi.judge import judge  # a search asks for it at its end

        widths = self._chip.element_bytes
        pins, fixed, together = self.space.pins, {}, []
        if pins is not None:
            fixed = {(n, h): int(pins.fixed[n, h]) for n, h in np.argwhere(pins.fixed >= 0).tolist()}
            together = [[divmod(at, len(HEADS)) for at in unit] for unit in pins.together]
        return judge(
            self._workload, self.memories(), widths.weight, widths.activation, mapping, fixed, together
        )

    explained = OpTimes

    def explain(self, mapping: Mapping16) -> OpTimes:
        """Op by op, the noise-free inference of what the compiler makes of one mapping int16 [N, 2].

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        from hwsim.nnpi.explain import explain

        return explain(self.tables, self.rectify(mapping[None])[0], self.space.nodes, self.space.labels[0])

    def occupancy(self, mapping: Mapping16) -> Occupancy:
        """What one mapping int16 [N, 2], as it stands, puts into each memory while each op runs: nothing is moved.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping[None], np.zeros(1, np.uint64))
        from hwsim.nnpi.explain import occupancy

        return occupancy(self.tables, self.space.canonical(mapping), self.space.labels[0])

    def memories(self) -> tuple[tuple[str, int], ...]:
        """Name of the memories, and bytes that tensors may take there, slowest first."""
        free = {} if self.space.pins is None else self.space.pins.free_bytes
        return tuple(
            (memory.name, memory.available_bytes - free.get(memory.name, 0)) for memory in self._chip.memories
        )

    def lifetimes(self, mapping: Mapping16) -> list[Lifetime]:
        """In which memory, and when, one mapping int16 [N, 2], as it stands, holds each tensor; a step is an op.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping[None], np.zeros(1, np.uint64))
        from hwsim.nnpi.explain import lifetimes

        return lifetimes(self.tables, self.space.canonical(mapping), self.space.nodes, self.space.heads)

    def bound(self, time_limit_s: float) -> Bound:
        """The bound that ships for this workload and chip; if there is none, that of a solve of `time_limit_s`."""
        from hwsim.nnpi.best_known import proved

        known = proved(self._noise_free())
        if known is not None:
            return known
        if time_limit_s <= 0:
            return UNPROVED
        if self._of_all is not None:
            return self._of_all.bound
        from hwsim.nnpi.exact.solve import solve

        return solve(self._noise_free(), time_limit_s=time_limit_s).as_bound()

    def solve(self, time_limit_s: float, seed: int, start: Mapping16 | None = None) -> Solution:
        """A bound and a first map by linear programming, then local search on the latency model.

        If there are few mappings, all of them are tried instead. From a `start` on there is no branch and cut: the
        linear relaxation and a fixed number of proposals take some seconds.
        """
        if self._of_all is not None:
            return self._of_all
        if start is not None:
            return self._solved_near(start, time_limit_s, seed)
        from hwsim.nnpi.annealing import anneal
        from hwsim.nnpi.exact.solve import ROUNDING, solve

        tables, begun = self._noise_free(), time.monotonic()
        found = solve(tables, time_limit_s=(1 - POLISH_SHARE) * time_limit_s)
        left_s = max(POLISH_SHARE * time_limit_s, time_limit_s - (time.monotonic() - begun))
        first = found.mapping
        if first is None or found.model_cost_s > self.baseline.cost:
            first = self.baseline.mapping
        bound = self._better(found.as_bound())
        mapping, cost = anneal(
            tables,
            first,
            steps=POLISH_STEPS,
            seconds=left_s,
            key=seed % 2**64,
            restarts=POLISH_RESTARTS,
            enough_s=bound.cost * (1.0 + 2 * ROUNDING),
        )
        return Solution(mapping, cost, bound, complete=False)

    def _solved_near(self, start: Mapping16, time_limit_s: float, seed: int) -> Solution:
        """The best of the start, the baseline and the rounded relaxation, improved by local search."""
        from hwsim.nnpi.annealing import HOT, anneal
        from hwsim.nnpi.exact.solve import RELAXED, ROUNDING, solve

        tables, until = self._noise_free(), time.monotonic() + time_limit_s
        found = solve(tables, time_limit_s=(1 - POLISH_SHARE) * time_limit_s, branch=False)
        bound, complete = self._better(found.as_bound()), found.status == RELAXED
        candidates = [self.baseline.mapping, self.rectify(start[None])[0]]
        candidates += [] if found.mapping is None else [found.mapping]
        costs = [trace_latency(tables, mapping)[0] for mapping in candidates]
        cost = min(costs)
        mapping = candidates[costs.index(cost)]
        for run, steps in enumerate(NEAR_STEPS):
            if cost <= bound.cost * (1.0 + 2 * ROUNDING):
                break
            if time.monotonic() >= until:
                complete = False
                break
            steps = max(1, min(steps, NEAR_WORK // len(mapping)))
            hot, key = HOT * 0.5 ** (run + 1), int(derive(np.array([seed % 2**64], np.uint64), run)[0])
            enough_s = bound.cost * (1.0 + 2 * ROUNDING)
            mapping, cost = anneal(tables, mapping, steps=steps, key=key, hot=hot, enough_s=enough_s)
        return Solution(mapping, cost, bound, complete)

    def _better(self, bound: Bound) -> Bound:
        """The bound, or the one known before where that is higher."""
        before = self.bound(0)
        return before if before.cost > bound.cost else bound

    @cached_property
    def _of_all(self) -> Solution | None:
        """The fastest of all mappings; None if there are too many to try."""
        from hwsim.nnpi.exact.solve import ROUNDING, fastest_of_all

        begun, found = time.monotonic(), fastest_of_all(self._noise_free())
        if found is None:
            return None
        mapping, cost, count = found
        proof = f"all {count:,} mappings were tried"
        bound = Bound(cost * (1.0 - ROUNDING), math.inf, proof, time.monotonic() - begun)
        return Solution(mapping, cost, bound)

    def model_cost(self, mapping: Mapping16) -> float:
        """Noise-free latency (s) of what the compiler makes of one mapping int16 [N, 2]."""
        return trace_latency(self.tables, self.rectify(mapping[None])[0])[0]

    def best_known(self) -> tuple[Mapping16 | None, str]:
        """The best mapping that ships with the package; if it cannot be compared, None and the reason."""
        from hwsim.nnpi.best_known import BestKnown, find

        found = find(self._workload, self._chip)
        if isinstance(found, BestKnown) and self.judge(found.mapping):
            return None, "a best mapping is known, but it does not keep the pins"
        if isinstance(found, BestKnown):
            return found.mapping, ""
        return None, "" if found is None else str(found)

    def _noise_free(self) -> Tables:
        return self.tables._replace(sigma=0.0)

    @cached_property
    def placer(self) -> NnpiPlacer:
        """Places weights and activations by score."""
        return NnpiPlacer(self.tables)

    @cached_property
    def family(self) -> Family:
        """The models around the chip file, from which measurements on a board choose."""
        from hwsim.nnpi.family.family import NnpiFamily

        return NnpiFamily(self._noise_free(), self._workload, self._chip.memory_names)

    @property
    def describable(self) -> Sequence[str]:
        """The effects that a chip file can have."""
        from hwsim.nnpi.family.terms import EFFECTS

        return EFFECTS

    def described(
        self, estimates: Mapping[str, Estimate], effects: Effects, name: str
    ) -> tuple[NnpiProblem, str]:
        """See `hwsim.family.HasFamily`; the text is a chip file."""
        from hwsim.nnpi.family.terms import fitted

        chip, text = fitted(self._chip, estimates, effects, name)
        return NnpiProblem(self._workload, chip, self.config), text

    def fingerprint(self) -> str:
        """Hex digest of simulator version, chip, workload and settings."""
        settings = asdict(self.config)
        if not self.config.profile_noise:  # as before there was this setting
            del settings["profile_noise"]
        if not self.config.pins:
            del settings["pins"]
        parts = {"version": SIMULATOR_VERSION, "config": settings, "files": dict(self.files())}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def files(self) -> dict[str, str]:
        """The workload and the chip as text."""
        return {"workload.json": to_json(self._workload), "chip.toml": chip_file(self._chip)}


def _widths(workload: Workload, chip: Chip) -> str:
    """How wide the chip counts the numbers of a network that has others; "" where they are the same."""
    own, counted = workload.element_bytes, chip.element_bytes
    if (own.weight, own.activation) == (counted.weight, counted.activation):
        return ""
    return (
        f"bytes a weight and an activation: {own.weight:g} and {own.activation:g} in {workload.name}, counted as"
        f" {counted.weight:g} and {counted.activation:g} (element_bytes of {chip.name})"
    )
