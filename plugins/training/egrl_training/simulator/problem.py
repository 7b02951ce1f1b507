"""Training within a limit of memory as a problem: which values are kept for the backward pass, and where.

Source: activation checkpointing as PyTorch's AOTAutograd runs it (`torch/_functorch/partitioners.py`): a joint graph of
forward and backward pass, a set of values that are saved, and whatever else the backward pass needs computed again.

Deviations: the limit is one of bytes at the fullest moment, not of the bytes that are saved.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le, Lt
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl_training.simulator.baseline import choose, plans_of_rules
from egrl_training.simulator.device import LEAST_COPY_S, MAX_BYTES, Device, device_file, load_device
from egrl_training.simulator.exact.solve import plan
from egrl_training.simulator.explain import CHOICES, explain
from egrl_training.simulator.family.family import TrainingFamily
from egrl_training.simulator.judge import Host, judge
from egrl_training.simulator.observation import edge_index, features, schema
from egrl_training.simulator.repair import fitted
from egrl_training.simulator.sections import ALL, BEST, sections
from egrl_training.simulator.simulate import KEEP, VERSION, Trace, canonical, runs_of, simulate, trace
from egrl_training.simulator.tables import build_tables
from egrl_training.steps.load import packed
from egrl_training.steps.step import TrainingStep
from hwsim.capabilities import Occupancy, Solution
from hwsim.explanation import Breakdown
from hwsim.family import Effects, Estimate
from hwsim.mappings import choice_columns
from hwsim.problem import (
    UNPROVED,
    About,
    Baseline,
    Bound,
    Evaluation,
    Floats,
    Keys,
    Mapping16,
    Observation,
    Violation,
)
from hwsim.sections import Section
from hwsim.space import Space
from workloads.errors import InputError
from workloads.text import size_text

HEAD = "storage"


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of the problem."""

    limit_bytes: Annotated[
        int, Ge(0), Lt(MAX_BYTES), Doc("the most bytes in memory at any moment; 0: what the device has")
    ] = 0
    fraction: Annotated[
        float,
        Ge(0.0),
        Le(1.0),
        Doc("the limit as a share of the peak of keeping every value; 0: what the device has"),
    ] = 0.0
    reserved_bytes: Annotated[
        int,
        Ge(0),
        Lt(MAX_BYTES),
        Doc("bytes in memory beside the step all the time, such as the state of an optimizer"),
    ] = 0
    invalid: Annotated[
        Literal["repair", "penalise"],
        Doc(
            'if a plan is above the limit, "repair" judges the repaired one; "penalise" gives it reward -epsilon'
        ),
    ] = "repair"
    gap: Annotated[
        float, Ge(0.0), Le(1.0), Doc("a solve ends once its best plan is within this share of the bound")
    ] = 1e-6


class TrainingProblem:
    """Keep or recompute each value that the backward pass of a training step may need, or keep it on the host.

    mapping   int16 [N, 1]: for each of `step.candidates` 0 = recompute, 1 = keep or, if the device has rates of copies
              to a host, 2 = offload. A `keep` or `offload` that nothing needs is judged as recompute
    cost      seconds of all ops that run, forward and backward, and of waiting for copies; of a second run as the
              device says
    reward    (baseline cost / cost)^2; -epsilon if it did not run
    valid     at no moment are more bytes in memory than the limit
    epsilon   the share of the bytes with a decision that repair changed; if nothing ran, the excess over the peak

    What runs. Ops that only make views are free, and whoever reads a view reads its storage. Parameters and inputs are
    always there. The forward pass runs its ops in order. In the backward pass, before each op, whatever of its inputs
    is missing is computed by its maker; what those makers miss, too; all of them in the order of the step, each op at
    most once in the whole pass. The same happens after the last op for the values that the pass returns. A needed value
    is *saved* if its choice is keep or offload, if its maker must not run twice, or if it has no bytes; else its maker
    runs again.
    Ops of phase `either` run in the forward pass if something saved needs them, in the backward pass as above.

    What is in memory. In each pass a storage lives from the op that makes it to the last op that reads it. What is
    saved also lives on to the end of the forward pass and to its last reader in the backward pass, outputs and
    gradients to the end of the step, parameters and inputs during all of it, tangents from the start of the backward
    pass to their last reader. While an op runs, its inputs, its outputs and its scratch are in memory together. If an
    op runs again for one output, the others are made, too; those that are saved already are copies, and are freed at
    once.

    What goes to the host. Results of the step stay on the device, and so does what is copied in less than the device's
    `least_copy_s`. There is one queue per direction; ops run meanwhile.
    - Forward: copies are made in the order of the last runs of the pass that make or read the values; if these are the
      same, in the order of the step. A copy takes bytes / rate, and begins when that run and the copy before it have
      ended. The value is in memory until the first later run that begins when the copy has ended, or later; without
      one, to the end of the pass, which waits for the last copy.
    - Backward: copies are made in the order of the first runs that read the values; if these are the same, in the order
      of the step. They are planned from the last to the first, by the times of the pass without waits: a copy should
      end when its first reader begins, or when the copy after it should begin, if that is earlier. It is issued before
      the last run, up to its first reader, that begins no later than the copy should; if there is none, before the
      first run of the pass. From that run on the value is in memory, to its last reader.
    - Waits: a copy begins when the run before the one that issues it has ended and so has the copy before it; a value's
      first reader waits for its copy. What is in memory when does not depend on waits.

    Attributes:
        step: the training step.
        tables: what kernels read.
        limit_bytes: the most bytes at any moment.
        keep_all: seconds and peak bytes of keeping every value.
    """

    explained = Breakdown

    def __init__(
        self, step: TrainingStep, device: Device | None = None, config: TrainingConfig | None = None
    ) -> None:
        """Build tables and baseline; without a device, it is `half`.

        Raises:
            InputError: nothing is to be decided, two limits are given, or no plan within the limit was found.
        """
        self.config = config or TrainingConfig()
        self.step, self._device = step, device or load_device("half")
        if not step.candidates:
            raise InputError(f"{step.name}: expected a value that may be kept or computed again, found none")
        device = self._device
        rates = device.to_host_Bps, device.from_host_Bps
        self.tables = build_tables(
            step, self.config.reserved_bytes, device.seconds, device.again, rates, device.least_copy_s
        )
        host = Host(*rates, device.least_copy_s, device.seconds, device.again)
        self._host = host if min(rates) > 0 else None
        seconds, peak = simulate(self.tables, np.full((1, len(step.candidates)), KEEP, np.int16))
        self.keep_all = float(seconds[0]), int(peak[0])
        self.limit_bytes = self._limit()
        self.about = About(
            "training",
            step.name,
            self._named(),
            baseline_name="the best rule",
            evaluated="plans",
            place="memory",
            step="run of an op",
            model_error=self._device.prediction.get("held_out_error", 0.0),
        )
        size = np.array([step.values[number].size_bytes for number in step.candidates], np.int64)
        choices = np.full((len(size), 1), 2, np.int16)
        if self.tables.to_host_s.any():
            decided = np.flatnonzero(self.tables.decision >= 0)
            choices[self.tables.decision[decided], 0] += self.tables.to_host_s[decided] > 0
        most = int(choices.max())
        self.space = Space(
            [step.values[number].name for number in step.candidates],
            (HEAD,),
            choices,
            (CHOICES[:most],),
            size[:, None],
            np.array([[0, 1, 0.5][:most]], np.float32),
        )
        chosen = choose(step, self.tables, self.limit_bytes)
        rules = partial(plans_of_rules, step, self.tables, self.limit_bytes)
        self.baseline = Baseline(chosen.plan[:, None], chosen.seconds, chosen.rule, rules=rules)
        self._proved = UNPROVED

    def _named(self) -> str:
        """The device, with the memory where a setting says how much that is: a share is of no device in particular."""
        device = self._device
        if not self.config.limit_bytes and not self.config.fraction:
            return device.name
        return f"{'a device' if device.memory_fraction else device.name} with {size_text(self.limit_bytes)}"

    def _limit(self) -> int:
        config, device = self.config, self._device
        if config.limit_bytes and config.fraction:
            raise InputError(
                f"problem.limit_bytes, problem.fraction: expected one of them, found {config.limit_bytes} and"
                f" {config.fraction:g}"
            )
        if config.limit_bytes:
            return config.limit_bytes
        fraction = config.fraction or (0.0 if device.memory_bytes else device.memory_fraction)
        return max(1, int(fraction * self.keep_all[1])) if fraction else device.memory_bytes

    @cached_property
    def observation(self) -> Observation:
        """What policies see."""
        columns = choice_columns(self.space.choice_rank, self.space.initial)
        x = np.concatenate([features(self.step, self.tables, self.limit_bytes), columns], axis=1)
        return Observation(x, edge_index(self.tables), schema(self.tables))

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Judge mappings int16 [B, N, 1]. Nothing is random: keys are ignored.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        plans = canonical(self.tables, np.ascontiguousarray(mapping[:, :, 0]))
        judged = self._fitted(plans)
        seconds, peak = simulate(self.tables, judged)
        ran = peak <= self.limit_bytes
        moved = (judged != plans) @ self.space.size_bytes[:, 0] / self.space.size_bytes.sum()
        share = np.where(ran, moved, 1 - self.limit_bytes / np.maximum(peak, 1))
        return Evaluation.of_costs(seconds, self.baseline.cost, ran, judged[:, :, None], share)

    def _fitted(self, plans: NDArray[np.int16]) -> NDArray[np.int16]:
        """Canonical plans int16 [B, N] made to fit, if settings say so; those that fit stay as they are."""
        if self.config.invalid == "penalise":
            return plans
        fits = np.ascontiguousarray(self.baseline.mapping[:, 0])
        out, changed = fitted(self.tables, plans, self.limit_bytes, fits)
        out[changed] = canonical(self.tables, out[changed])
        return out

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """Mappings [B, N, 1] made to fit (`egrl_training/simulator/repair.py`) and canonical.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        return self._fitted(canonical(self.tables, np.ascontiguousarray(mapping[:, :, 0])))[:, :, None]

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every rule that one mapping [N, 1] breaks, by code that shares nothing with the kernels."""
        plan = [int(choice) for choice in mapping[:, 0]]
        return judge(self.step, self.limit_bytes, self.config.reserved_bytes, plan, self._host)

    def explain(self, mapping: Mapping16) -> Breakdown:
        """Where time and memory of what is judged for one mapping int16 [N, 1] go.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        plan = np.ascontiguousarray(self.repair(mapping[None], np.zeros(1, np.uint64))[0, :, 0])
        return explain(self.step, self.tables, plan, self.limit_bytes)

    def trace(self, mapping: Mapping16) -> Trace:
        """Run by run what happens under one mapping int16 [N, 1] as it stands."""
        return trace(self.tables, np.ascontiguousarray(mapping[:, 0]))

    def sections(self, mapping: Mapping16) -> list[Section]:
        """What one mapping int16 [N, 1] saves and costs beside keeping every value and beside the baseline.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping[None], np.zeros(1, np.uint64))
        everything = np.full_like(mapping, KEEP)
        plans = {ALL: everything, self.about.baseline_name: self.baseline.mapping, BEST: mapping}
        traces = {label: self.trace(each) for label, each in plans.items()}
        return sections(self.step, self.tables, traces, self.limit_bytes)

    def saved(self, mapping: Mapping16) -> Sequence[int]:
        """Positions in `step.values` of what is kept for the backward pass under one mapping int16 [N, 1] as it stands.

        What must not run twice and what has no bytes is among them if the pass needs it.
        """
        runs = runs_of(self.tables, np.ascontiguousarray(mapping[:, 0]))
        return [int(number) for number in self.tables.storage[runs.saved]]

    def peak_bytes(self, mapping: Mapping16) -> NDArray[np.int64]:
        """int64 [B], the most bytes at any moment under mappings int16 [B, N, 1] as they stand."""
        peak: NDArray[np.int64] = simulate(self.tables, np.ascontiguousarray(mapping[:, :, 0]))[1]
        return peak

    def occupancy(self, mapping: Mapping16) -> Occupancy:
        """What is in memory during each run under one mapping int16 [N, 1] as it stands.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping[None], np.zeros(1, np.uint64))
        held = self.trace(mapping).held_bytes
        return Occupancy(("device",), held[:, None, None], np.array([self.limit_bytes], np.int64))

    def solve(self, time_limit_s: float, seed: int, start: Mapping16 | None = None) -> Solution:
        """What the exact solver finds and proves within about the limit, from the baseline on or a better `start`."""
        first = self.baseline.mapping
        if start is not None and self.model_cost(start) < self.baseline.cost:
            first = start
        found = plan(self.tables, self.limit_bytes, first[:, 0], time_limit_s, seed, self.config.gap)
        if found.bound.cost > self._proved.cost:
            self._proved = found.bound
        return found

    def bound(self, time_limit_s: float) -> Bound:
        """The highest bound that this problem's solves have proved, or what one of that time proves."""
        if time_limit_s > 0 and self._proved.cost <= 0:
            self.solve(time_limit_s, 0)
        return self._proved

    def model_cost(self, mapping: Mapping16) -> float:
        """The cost of what is judged for one mapping int16 [N, 1]; infinite if that does not fit."""
        found: Floats = self.evaluate(mapping[None], np.zeros(1, np.uint64)).cost
        return float(np.nan_to_num(found[0], nan=math.inf))

    @cached_property
    def family(self) -> TrainingFamily:
        """Models of what the step may really take and need."""
        return TrainingFamily(self.step, self.tables, self.limit_bytes)

    @property
    def describable(self) -> Sequence[str]:
        """No effects."""
        return ()

    def described(
        self, estimates: Mapping[str, Estimate], effects: Effects, name: str
    ) -> tuple[TrainingProblem, str]:
        """See `hwsim.family.HasFamily`; the text is a device file. The limit in bytes stays."""
        device, text = self.family.described(self._device, estimates, name)
        config = replace(self.config, limit_bytes=self.limit_bytes, fraction=0.0)
        return TrainingProblem(self.step, device, config), text

    def files(self) -> dict[str, str | bytes]:
        """The step, packed, and the device."""
        return {"workload.json.gz": packed(self.step), "chip.toml": device_file(self._device)}

    def fingerprint(self) -> str:
        """Hex digest of simulator version, step, limit and settings."""
        device = [self._device.seconds, self._device.again]
        if self.tables.to_host_s.any():
            host = {"to": self._device.to_host_Bps, "from": self._device.from_host_Bps}
            if self._device.least_copy_s != LEAST_COPY_S:
                host["least_copy_s"] = self._device.least_copy_s
            device.append(host)
        head = [VERSION, asdict(self.config), device, self.limit_bytes, self.baseline.mapping[:, 0].tolist()]
        return hashlib.sha256(json.dumps(head).encode() + packed(self.step)).hexdigest()
