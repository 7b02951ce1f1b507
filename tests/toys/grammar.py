"""A derivation graph with shared vertices and dead ends, whose plans have different lengths, as a problem."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.keys import derive
from hwsim.mappings import independent_sample
from hwsim.problem import About, Baseline, Evaluation, Floats, Keys, Mapping16, Violation
from hwsim.space import Space, check_keys
from hwsim.stepwise import Derivation

Parts = tuple[int, ...]


class Splits(Derivation):
    """Ways to write a number as a sum of parts 2..5; a vertex is the sorted parts taken so far.

    Taking 2 then 3 leads to the same vertex as 3 then 2; a rest of 1 is a dead end.
    """

    root: Hashable = ()

    def __init__(self, number: int) -> None:
        self.number = number

    def successors(self, vertex: Hashable) -> Sequence[Parts]:
        parts = _parts(vertex)
        rest = self.number - sum(parts)
        return [tuple(sorted((*parts, part))) for part in range(2, min(5, rest) + 1)]

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        parts = _parts(vertex)
        if sum(parts) != self.number:
            return None
        row = np.full((self.number // 2, 1), -1, np.int16)
        row[: len(parts), 0] = np.array(parts) - 2
        return row


def _parts(vertex: Hashable) -> Parts:
    assert isinstance(vertex, tuple)
    return vertex


class ToyGrammar:
    """Split a number into parts; a plan [number // 2, 1] holds part - 2 in rising order, then -1."""

    def __init__(self, number: int = 17) -> None:
        self.number = number
        self.derivation = Splits(self.number)
        rows = self.number // 2
        name = "toy-grammar" if number == 17 else f"toy-grammar-{number}"
        self.about = About(name, "toy", "none", alike=False)
        first = self._walk([0] * rows)
        self.space = Space(
            [f"n{i}" for i in range(rows)], ["h0"], np.full((rows, 1), 4, np.int16), initial=first
        )
        self.baseline = Baseline(first, float(self._costs(first[None])[0]), "initial")

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Every plan that `repair` makes runs."""
        settled, ran = self.repair(mapping, key), np.ones(len(mapping), np.bool_)
        return Evaluation.of_costs(self._costs(settled), self.baseline.cost, ran, settled, np.zeros(len(ran)))

    def sample(self, probabilities: NDArray[np.floating[Any]] | None, key: Keys) -> Mapping16:
        """Draw every part by itself, and settle what they are."""
        return self._settled(independent_sample(self.space, probabilities, derive(key, 5)))

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """The plans that take at each step the wished part or the nearest one that leads somewhere."""
        rows = self.number // 2
        if (
            mapping.dtype != np.int16
            or mapping.shape[1:] != (rows, 1)
            or mapping.max(initial=0) > 3
            or mapping.min(initial=0) < -1
        ):
            raise ValueError(
                f"mapping: expected int16 [B, {rows}, 1] of -1..3, received {mapping.dtype} {mapping.shape}"
            )
        check_keys(key, len(mapping))
        return self._settled(mapping)

    def _settled(self, mapping: Mapping16) -> Mapping16:
        return np.stack([self._walk(row[:, 0].tolist()) for row in mapping])

    def _walk(self, wishes: list[int]) -> Mapping16:
        """Derive a complete plan, taking at each step the wished part or the nearest one that leads somewhere."""
        vertex = self.derivation.root
        for wish in [*wishes, *([0] * len(wishes))]:
            plan = self.derivation.mapping(vertex)
            if plan is not None:
                return plan
            rest = self.number - sum(_parts(vertex))
            open_parts = [part for part in range(2, min(5, rest) + 1) if rest - part != 1]
            part = min(open_parts, key=lambda p: (abs(p - 2 - max(wish, 0)), p))
            vertex = tuple(sorted((*_parts(vertex), part)))
        raise AssertionError("a walk of 2 N steps is always complete")

    def _costs(self, mapping: Mapping16) -> Floats:
        price = np.array([2.0, 2.5, 5.0, 4.5])
        plans = [row[row >= 0] for row in mapping[:, :, 0]]
        return np.array([math.fsum(price[plan]) + 0.1 * len(plan) ** 2 for plan in plans])

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Parts that are more or less than the number."""
        total = float((mapping[mapping >= 0] + 2).sum())
        if total == self.number and (np.diff(mapping[mapping >= 0]) >= 0).all():
            return []
        return [Violation("parts", "the plan", total, float(self.number), "")]

    def fingerprint(self) -> str:
        """Of the number."""
        return hashlib.sha256(repr((self.about.name, self.number)).encode()).hexdigest()
