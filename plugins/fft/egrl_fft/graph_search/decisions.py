"""Any problem as a derivation: its decisions are made one by one, and a vertex is a set of decisions made.

Decisions are ordered by falling size, so that the first bandits place the most bytes, or in the order of the nodes, as
in a game. Dead decisions are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Mapping16, Problem
from hwsim.stepwise import Derivation

WIDTH = 2
"""Bytes of a choice in a vertex."""


class Decisions(Derivation):
    """A problem's mappings as a tree; a vertex is bytes, two a decision.

    Attributes:
        counts: int64 [D], how many choices each decision has.
    """

    def __init__(self, problem: Problem, order: Literal["size", "nodes"]) -> None:
        live = np.argwhere(problem.space.live)
        if order == "size":
            live = live[np.argsort(-problem.space.size_bytes[live[:, 0], live[:, 1]], kind="stable")]
        self._at = live
        self.counts = problem.space.num_choices[live[:, 0], live[:, 1]].astype(np.int64)
        self._shape = problem.space.shape
        self.root: Hashable = b""

    def successors(self, vertex: Hashable) -> Sequence[bytes]:
        """A vertex for each choice of the next decision; none after the last."""
        made = _bytes(vertex)
        depth = len(made) // WIDTH
        if depth == len(self._at):
            return ()
        return [made + choice.to_bytes(WIDTH, "little") for choice in range(int(self.counts[depth]))]

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        """int16 [N, H] after the last decision; None before."""
        made = _bytes(vertex)
        return self._write(made) if len(made) == WIDTH * len(self._at) else None

    def completion(self, vertex: Hashable, rng: np.random.Generator) -> Mapping16 | None:
        """int16 [N, H] with the decisions that are left drawn uniformly."""
        made = _bytes(vertex)
        left = self.counts[len(made) // WIDTH :]
        return self._write(made + rng.integers(0, left).astype("<u2").tobytes())

    def drawn(
        self, vertex: Hashable, probabilities: NDArray[np.float64], rng: np.random.Generator
    ) -> Mapping16 | None:
        """int16 [N, H] with the decisions that are left drawn from float64 [D, C]."""
        made = _bytes(vertex)
        left = slice(len(made) // WIDTH, None)
        below = np.cumsum(probabilities[left], axis=1)
        choices = (below <= rng.random((len(below), 1))).sum(axis=1)
        return self._write(made + np.minimum(choices, self.counts[left] - 1).astype("<u2").tobytes())

    def chosen(self, mapping: Mapping16) -> NDArray[np.int64]:
        """int64 [D], the choices of one mapping [N, H]."""
        return mapping[self._at[:, 0], self._at[:, 1]].astype(np.int64)

    def _write(self, made: bytes) -> Mapping16:
        found = np.full(self._shape, -1, np.int16)
        found[self._at[:, 0], self._at[:, 1]] = np.frombuffer(made, "<u2")
        return found


def _bytes(vertex: Hashable) -> bytes:
    assert isinstance(vertex, bytes)
    return vertex
