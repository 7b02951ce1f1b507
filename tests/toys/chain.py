"""A chain of nodes that is split over chips: stages, a partition, a model and its bound."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import Solution, Solving
from hwsim.explanation import ChipUse, Partition
from hwsim.mappings import choice_columns, independent_sample
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
from hwsim.space import Space
from hwsim.stages import Pipeline

NODES, CHIPS = 6, 3


class Trying(Solving):
    """A solve that tries every mapping, one a call of `work`, the dearest first."""

    def __init__(self, every: Mapping16, costs: Floats) -> None:
        self._every, self._costs, self._tried = every, costs, 0

    def work(self, seconds: float) -> None:
        self._tried = min(self._tried + 1, len(self._every))

    @property
    def best(self) -> Mapping16 | None:
        return self._every[-self._tried :][0] if self._tried else None

    @property
    def cost(self) -> float:
        return float(self._costs[-self._tried]) if self._tried else float("inf")

    @property
    def bound(self) -> Bound:
        share = self._tried / len(self._every)
        return Bound(share * float(self._costs[0]), np.inf, "a share of the least cost", 0.0)

    @property
    def done(self) -> bool:
        return self._tried == len(self._every)


class ToyChain:
    """A cost of the busiest chip's load, and a little for each chip in use; a chip that falls is raised."""

    def __init__(self) -> None:
        self.load = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 2.0])
        self.about = About(
            "toy-chain", "toy", "none", baseline_name="the toy", evaluated="splits", place="chip"
        )
        edges = np.array([range(NODES - 1), range(1, NODES)], np.int64)
        self.space = Space(
            [f"n{i}" for i in range(NODES)],
            ["chip"],
            np.full((NODES, 1), CHIPS, np.int16),
            pipeline=Pipeline(self.load, edges),
        )
        columns = choice_columns(self.space.choice_rank, self.space.initial)
        x = np.concatenate([self.load[:, None], columns], axis=1)
        self.observation = Observation(x.astype(np.float32), edges)
        first = self.space.initial
        self.baseline = Baseline(first, float(self._costs(first[None])[0]), "one chip")
        self._proved = UNPROVED

    def _costs(self, mapping: Mapping16) -> Floats:
        busy = (self.load[:, None] * (mapping == np.arange(CHIPS))).sum(axis=1)
        return busy.max(axis=1) + 0.1 * (busy > 0).sum(axis=1)

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        risen, ran = self.repair(mapping, key), np.ones(len(mapping), np.bool_)
        share = (risen != mapping).mean(axis=(1, 2))
        return Evaluation.of_costs(self._costs(risen), self.baseline.cost, ran, risen, share)

    def sample(self, probabilities: NDArray[np.floating[Any]] | None, key: Keys) -> Mapping16:
        return np.maximum.accumulate(independent_sample(self.space, probabilities, key), axis=1)

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        self.space.check(mapping, key)
        return np.maximum.accumulate(mapping, axis=1)

    def move(self, mapping: Mapping16, key: np.uint64) -> Mapping16:
        changed = mapping.copy()
        changed[int(key) % NODES, 0] = int(key) // NODES % CHIPS
        return changed

    def judge(self, mapping: Mapping16) -> list[Violation]:
        falls = [n for n in range(1, NODES) if mapping[n, 0] < mapping[n - 1, 0]]
        return [
            Violation("order", f"n{n}", float(mapping[n - 1, 0]), float(mapping[n, 0]), "") for n in falls
        ]

    explained = Partition

    def explain(self, mapping: Mapping16) -> Partition:
        place = self.repair(mapping[None], np.zeros(1, np.uint64))[0, :, 0]
        busy = [float(self.load[place == chip].sum()) for chip in range(CHIPS)]
        chips = [ChipUse(str(c), int((place == c).sum()), busy[c], 0, 0, 0.0, 0) for c in range(CHIPS)]
        slowest = f"chip {int(np.argmax(busy))}"
        return Partition(tuple(chips), max(busy), slowest, 0, len(set(place.tolist())))

    def solving(self, seed: int, threads: int, start: Mapping16 | None) -> Trying:
        every, costs = self._all()
        order = np.argsort(costs, kind="stable")
        return Trying(every[order], costs[order])

    def prove(self, bound: Bound) -> None:
        self._proved = bound

    def solve(self, time_limit_s: float, seed: int, start: Mapping16 | None = None) -> Solution:
        best, cost = self._best()
        return Solution(best, cost, self.bound(time_limit_s))

    def model_cost(self, mapping: Mapping16) -> float:
        return float(self._costs(self.repair(mapping[None], np.zeros(1, np.uint64)))[0])

    def best_known(self) -> tuple[Mapping16 | None, str]:
        return self._best()[0], "the best of all"

    def bound(self, time_limit_s: float) -> Bound:
        return Bound(self._best()[1], np.inf, "all were tried", 0.0) if time_limit_s > 0 else self._proved

    def _best(self) -> tuple[Mapping16, float]:
        every, costs = self._all()
        return every[costs.argmin()], float(costs.min())

    def _all(self) -> tuple[Mapping16, Floats]:
        every = np.array(list(combinations_with_replacement(range(CHIPS), NODES)), np.int16)[:, :, None]
        return every, self._costs(every)

    def files(self) -> Mapping[str, str]:
        return {"workload.json": str(self.load.tolist())}

    def fingerprint(self) -> str:
        return hashlib.sha256(self.load.tobytes()).hexdigest()
