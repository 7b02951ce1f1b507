"""Intra-operator sharding as a problem: one strategy per node, within a limit of memory over time.

Source: the contest on intra-operator parallelism of ASPLOS / EuroSys 2025, whose rules these are.

Deviations:
- Rewards are squared speedups over the baseline, as of every problem here; the contest scores an instance by the best
  cost of all teams / cost.
- A choice with a forbidden cost (10^17 or more) is not valid; the contest counts it at that cost.
- A cost of 0 counts as 1, so that speedups are finite.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl_shard import judge
from egrl_shard.baseline import RULE, choose, is_valid
from egrl_shard.cost import totals
from egrl_shard.judge import exact_cost
from egrl_shard.load import packed
from egrl_shard.moves import moved
from egrl_shard.observation import SCHEMA_VERSION, edge_index, features
from egrl_shard.repair import repaired
from egrl_shard.sharding import Sharding, held_over_time
from egrl_shard.solving import ShardSolving
from egrl_shard.tables import build_tables
from hwsim.capabilities import Occupancy, Solution
from hwsim.explanation import Breakdown, Holder, Payer
from hwsim.mappings import choice_columns
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

SHOWN = 10
"""Nodes that are named of each kind."""


def explain(sharding: Sharding, choice: NDArray[np.int16]) -> Breakdown:
    """The breakdown of a choice int16 [N]."""
    s = sharding
    at = s.first[:-1] + choice
    a, b = s.edge_nodes[:, 0], s.edge_nodes[:, 1]
    paid = s.edge_cost[s.edge_first[:-1] + choice[a].astype(np.int64) * s.strategies[b] + choice[b]]
    own, used = s.cost[at], s.usage[at]
    # As float64, which ranks well enough: sums of forbidden costs do not fit int64.
    near = np.bincount(a, paid, minlength=len(s)) + np.bincount(b, paid, minlength=len(s))
    dearest = np.argsort(-(own + near / 2), kind="stable")[:SHOWN].tolist()
    times, held = held_over_time(s, used)
    peak = int(held.argmax()) if len(held) else 0
    time = int(times[peak]) if len(held) else 0
    there = (s.start <= time) & (time < s.end)
    largest = np.argsort(np.where(there, -used, 1), kind="stable")[: min(SHOWN, int(there.sum()))].tolist()
    total, of_nodes = exact_cost(s, choice.tolist()), sum(own.tolist())
    return Breakdown(
        total,
        {"strategies": of_nodes, "edges": total - of_nodes},
        tuple(Payer(str(n), str(choice[n]), int(own[n]), float(near[n])) for n in dearest),
        s.limit,
        int(held[peak]) if len(held) else 0,
        time,
        tuple(Holder(str(n), str(choice[n]), int(used[n]), int(s.start[n]), int(s.end[n])) for n in largest),
    )


SIMULATOR_VERSION = 1
"""Goes up with every change to which choices are valid or what they cost."""
UNIT = "cost units"
MESH = "mesh"
"""What the accelerators are called; the instance has their costs and limit, so that there is no chip to choose."""
THREADS = 2
"""Threads of the solver if the caller does not say."""


@dataclass(frozen=True)
class ShardConfig:
    """Settings of the problem."""

    invalid: Annotated[
        Literal["repair", "penalise"],
        Doc(
            'if a choice is not valid, "repair" judges the repaired one; "penalise" gives it reward -epsilon'
        ),
    ] = "repair"


class Shard:
    """Choose a strategy for each node of an instance.

    mapping   int16 [N, 1]: the strategy of each node; decisions are never dead
    cost      sum over nodes and edges, whole numbers of the instance (a sum above 2^53 is rounded as float64)
    reward    (baseline cost / cost)^2 if it ran; -epsilon if it did not
    valid     nothing forbidden is taken, and the limit is kept at all times
    epsilon   the share of the nodes that repair changed; if nothing ran, how much is broken

    Attributes:
        sharding: the instance.
        observation: what policies see.
    """

    def __init__(self, sharding: Sharding, config: ShardConfig | None = None) -> None:
        """Build tables and baseline.

        Raises:
            InputError: a setting is unknown.
        """
        self.config = config or ShardConfig()
        if self.config.invalid not in ("repair", "penalise"):
            raise InputError(f"problem.invalid: expected repair or penalise, found {self.config.invalid!r}")
        self.sharding = sharding
        self.tables = build_tables(sharding)
        self.about = About(
            "shard",
            sharding.name,
            MESH,
            UNIT,
            baseline_name="the baseline",
            evaluated="choices",
            step="change of the nodes in use",
        )
        counts = sharding.strategies.astype(np.int16)[:, None]
        self.space = Space([str(n) for n in range(len(sharding))], ("strategy",), counts)
        columns = choice_columns(self.space.choice_rank, self.space.initial)
        x = np.concatenate([features(sharding), columns], axis=1)
        self.observation = Observation(x, edge_index(sharding), SCHEMA_VERSION)
        chosen = choose(self.tables)
        valid = bool(is_valid(self.tables, chosen[None])[0])
        self._gives_way = valid
        rule = RULE if valid else f"{RULE}; it is not valid, since no valid one was found so"
        self.baseline = Baseline(chosen[:, None], float(self._costs(chosen[None])[0]), rule)
        self._proved = UNPROVED

    def _costs(self, choice: NDArray[np.int16]) -> NDArray[np.float64]:
        """Costs float64 [B] of choices [B, N], forbidden ones left out; at least 1."""
        return np.maximum(totals(self.tables, choice)[0], 1).astype(np.float64)

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Judge mappings int16 [B, N, 1]. Nothing is random: keys are ignored.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        proposed = np.ascontiguousarray(mapping[:, :, 0])
        cost, forbidden, peak = totals(self.tables, proposed)
        ran = (forbidden == 0) & (peak <= self.tables.limit)
        choice, share = proposed, np.zeros(len(cost))
        if self.config.invalid == "repair" and not ran.all():
            choice = proposed.copy()
            broken = np.flatnonzero(~ran)
            choice[broken] = self._repaired(proposed[broken])
            cost[broken], forbidden[broken], peak[broken] = totals(self.tables, choice[broken])
            ran = (forbidden == 0) & (peak <= self.tables.limit)
            share = (choice != proposed).mean(axis=1)
        share = np.where(ran, share, self._broken(forbidden, peak))
        costs = np.maximum(cost, 1).astype(np.float64)
        return Evaluation.of_costs(costs, self.baseline.cost, ran, choice[:, :, None], share)

    def _broken(self, forbidden: NDArray[np.int64], peak: NDArray[np.int64]) -> NDArray[np.float64]:
        """The violation, 0..1 [B]: the share of costs that are forbidden, or of the peak above the limit."""
        taken = forbidden / (len(self.sharding) + len(self.sharding.edge_nodes))
        above = np.maximum(peak - self.tables.limit, 0) / np.maximum(peak, 1)
        return np.maximum(taken, above)

    def _repaired(self, choice: NDArray[np.int16]) -> NDArray[np.int16]:
        return repaired(self.tables, choice, self.baseline.mapping[:, 0].copy(), self._gives_way)

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """Mappings [B, N, 1] made valid (`egrl_shard/repair.py`); with `invalid = "penalise"` they stay as they are.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        if self.config.invalid == "penalise":
            return mapping.copy()
        return self._repaired(np.ascontiguousarray(mapping[:, :, 0]))[:, :, None]

    def move(self, mapping: Mapping16, key: np.uint64) -> Mapping16:
        """One mapping int16 [N, 1] after a node took another strategy and its neighbours answered."""
        return moved(self.tables, np.ascontiguousarray(mapping[:, 0]), key)[:, None]

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every rule that one mapping [N, 1] breaks, by code that shares nothing with the kernels."""
        return judge.judge(self.sharding, mapping[:, 0].tolist())

    explained = Breakdown

    def explain(self, mapping: Mapping16) -> Breakdown:
        """Cost and memory of the judged mapping int16 [N, 1], by node.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        choice = self.repair(mapping[None], np.zeros(1, np.uint64))[0, :, 0]
        return explain(self.sharding, choice)

    def occupancy(self, mapping: Mapping16) -> Occupancy:
        """What all nodes together use under one mapping int16 [N, 1] as it stands; a step begins where the nodes in use
        change.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping[None], np.zeros(1, np.uint64))
        used = self.sharding.usage[self.sharding.first[:-1] + mapping[:, 0]]
        _, held = held_over_time(self.sharding, used)
        held = held if len(held) else np.zeros(1, np.int64)
        return Occupancy(("memory",), held[:, None, None], np.array([self.sharding.limit], np.int64))

    def plan_text(self, mapping: Mapping16) -> str:
        """The strategies of one mapping int16 [N, 1] as a JSON list, as the contest asks for them."""
        return json.dumps(mapping[:, 0].tolist())

    def read_plan(self, text: str, where: str) -> Mapping16:
        """int16 [N, 1] of such a list. InputError if it is none of this instance."""
        try:
            choice = json.loads(text)
        except (ValueError, RecursionError):
            choice = None
        counts = self.sharding.strategies
        if not isinstance(choice, list) or len(choice) != len(counts):
            raise InputError(
                f"{where}: expected a JSON list of {len(counts)} strategies, found {text[:60]!r}"
            )
        for node, (strategy, count) in enumerate(zip(choice, counts.tolist(), strict=True)):
            if type(strategy) is not int or not 0 <= strategy < count:
                raise InputError(
                    f"{where}: node {node}: expected a strategy in 0..{count - 1}, found {strategy!r:.60}"
                )
        return np.array(choice, np.int16)[:, None]

    def solving(self, seed: int, threads: int = THREADS, start: Mapping16 | None = None) -> ShardSolving:
        """The exact solver at its beginning, which knows `start` int16 [N, 1] if that is valid."""
        known = None if start is None else np.ascontiguousarray(start[:, 0])
        if known is not None and not is_valid(self.tables, known[None])[0]:
            known = None
        return ShardSolving(self.sharding, seed, threads, known)

    def prove(self, bound: Bound) -> None:
        """Remember a bound, if it is the highest so far."""
        if bound.cost > self._proved.cost:
            self._proved = bound

    def solve(self, time_limit_s: float, seed: int, start: Mapping16 | None = None) -> Solution:
        """The exact solver's solution and bound within about the limit, from the baseline or a better `start`."""
        better = start is not None and self.model_cost(start) < self.baseline.cost
        solving = self.solving(seed, start=start if better else self.baseline.mapping)
        solving.work(time_limit_s)
        self.prove(solving.bound)
        best, cost = solving.best, solving.cost
        if best is None or cost > self.baseline.cost:
            best, cost = self.baseline.mapping, self.baseline.cost
        return Solution(best, cost, solving.bound, solving.done)

    def model_cost(self, mapping: Mapping16) -> float:
        """The cost of what is judged for one mapping int16 [N, 1]; infinite if that is not valid."""
        found = self.evaluate(mapping[None], np.zeros(1, np.uint64))
        return float(np.nan_to_num(found.cost[0], nan=math.inf))

    def bound(self, time_limit_s: float) -> Bound:
        """The highest bound that this problem's solves have proved, or what one of that time proves."""
        if time_limit_s > 0 and self._proved.cost <= 0:
            self.solve(time_limit_s, 0)
        return self._proved

    def files(self) -> dict[str, bytes]:
        """The instance, packed."""
        return {"workload.json.gz": packed(self.sharding)}

    def fingerprint(self) -> str:
        """Hex digest of simulator version, instance and settings."""
        s = self.sharding
        digest = hashlib.sha256(
            json.dumps(
                [
                    SIMULATOR_VERSION,
                    asdict(self.config),
                    s.name,
                    s.limit,
                    self.baseline.mapping[:, 0].tolist(),
                ]
            ).encode()
        )
        for array in (s.start, s.end, s.first, s.cost, s.usage, s.edge_nodes, s.edge_first, s.edge_cost):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()
