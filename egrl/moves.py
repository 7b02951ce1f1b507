"""Local moves on a mapping: flips and swaps along the execution order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Mapping16, Problem

NEAR = 0.5
"""Share of swaps whose partner lies close by in execution order (distance geometric with mean 4)."""


class Moves:
    """Random moves for one problem.

    A *flip* gives one decision another of its choices; a *swap* exchanges the choices of two decisions of the
    same head. Decisions with a single choice never move.
    """

    def __init__(self, problem: Problem) -> None:
        free = (problem.size_bytes > 0) & (problem.num_choices > 1)
        self._num_choices = problem.num_choices
        self._free: list[NDArray[np.int64]] = [np.flatnonzero(free[:, h]) for h in range(free.shape[1])]
        self._heads = np.array([h for h, nodes in enumerate(self._free) for _ in nodes])
        self._nodes = np.concatenate([*self._free, np.zeros(0, dtype=np.int64)])

    def propose(self, mapping: Mapping16, mean_extra: float, rng: np.random.Generator) -> Mapping16:
        """A copy of int16 [N, H] with 1 + Poisson(mean_extra) moves, half flips and half swaps."""
        changed = mapping.copy()
        if len(self._nodes) == 0:
            return changed
        for _ in range(1 + int(rng.poisson(mean_extra))):
            if rng.random() < 0.5 or not self.swap(changed, rng):
                self.flip(changed, rng)
        return changed

    def flip(self, mapping: Mapping16, rng: np.random.Generator) -> None:
        """Flip a random decision in place; an unused one gets any of its choices."""
        at = int(rng.integers(len(self._nodes)))
        node, head = int(self._nodes[at]), int(self._heads[at])
        choices, old = int(self._num_choices[node, head]), int(mapping[node, head])
        if old < 0:
            mapping[node, head] = rng.integers(choices)
        else:
            mapping[node, head] = (old + rng.integers(1, choices)) % choices

    def swap(self, mapping: Mapping16, rng: np.random.Generator) -> bool:
        """Swap two random decisions in place; False where they hold the same or may not hold each other's."""
        at = int(rng.integers(len(self._nodes)))
        node, head = int(self._nodes[at]), int(self._heads[at])
        peers = self._free[head]
        if rng.random() < NEAR:
            place = int(np.searchsorted(peers, node))
            step = int(rng.geometric(0.25)) * (1 if rng.random() < 0.5 else -1)
            other = int(peers[min(max(place + step, 0), len(peers) - 1)])
        else:
            other = int(peers[rng.integers(len(peers))])
        a, b = int(mapping[node, head]), int(mapping[other, head])
        limits = self._num_choices
        if a == b or min(a, b) < 0 or a >= limits[other, head] or b >= limits[node, head]:
            return False
        mapping[node, head], mapping[other, head] = b, a
        return True
