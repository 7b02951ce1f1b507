"""Local moves on a mapping, along the execution order.

A *flip* gives one decision another of its choices; a *swap* exchanges the choices of two decisions of one head;
a *block* gives a run of neighbouring decisions of one head the same choice (neighbouring tensors like the same
memory: EGRL, section 5, on contiguity). Decisions with a single choice never move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Mapping16 = NDArray[np.int16]
TRIES = 20


@dataclass(frozen=True)
class MovesConfig:
    """Settings of local moves (own choices; docs/egrl.md has the experiments).

    Attributes:
        flip, swap, block: relative frequencies.
        near: share of swaps whose partner lies close by in execution order (geometric distance, mean 4).
        length: mean number of decisions in a block.
        extra: mean number of moves beyond the first (Poisson).
    """

    flip: float = 0.3
    swap: float = 0.6
    block: float = 0.1
    near: float = 0.5
    length: float = 5.0
    extra: float = 1.0

    def __post_init__(self) -> None:
        if min(self.flip, self.swap, self.block) < 0 or not self.flip + self.swap + self.block > 0:
            raise ValueError("flip, swap, block: expected frequencies >= 0 that are not all 0")
        if not 0 <= self.near <= 1 or not self.length >= 1 or not 0 <= self.extra <= 100:
            raise ValueError("moves: expected near in 0..1, length >= 1 and extra in 0..100")


class Moves:
    """Random moves for one problem."""

    def __init__(
        self, num_choices: NDArray[np.int16], live: NDArray[np.bool_], config: MovesConfig | None = None
    ) -> None:
        """For decisions int16 [N, H] and which of them exist, bool [N, H]."""
        self.config = config or MovesConfig()
        free = live & (num_choices > 1)
        self._num_choices = num_choices
        self._peers: list[NDArray[np.int64]] = [np.flatnonzero(free[:, h]) for h in range(free.shape[1])]
        self._nodes, self._heads = np.nonzero(free)
        shares = np.array([self.config.flip, self.config.swap, self.config.block])
        self._flip_below, self._swap_below, _ = (np.cumsum(shares) / shares.sum()).tolist()

    def propose(self, mapping: Mapping16, rng: np.random.Generator) -> Mapping16:
        """A copy of int16 [N, H] after 1 + Poisson(extra) moves."""
        changed = mapping.copy()
        if len(self._nodes) == 0:
            return changed
        for _ in range(1 + int(rng.poisson(self.config.extra))):
            if not any(self._move(changed, rng) for _ in range(TRIES)):
                self._flip(changed, *self._any(rng), rng)
        return changed

    def _any(self, rng: np.random.Generator) -> tuple[int, int]:
        at = int(rng.integers(len(self._nodes)))
        return int(self._nodes[at]), int(self._heads[at])

    def _move(self, mapping: Mapping16, rng: np.random.Generator) -> bool:
        """One move in place; False where it would change nothing or is not possible."""
        kind = rng.random()
        node, head = self._any(rng)
        if kind < self._flip_below:
            return self._flip(mapping, node, head, rng)
        if kind < self._swap_below:
            return self._swap(mapping, node, head, rng)
        return self._block(mapping, node, head, rng)

    def _flip(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        choices, old = int(self._num_choices[node, head]), int(mapping[node, head])
        if old < 0:
            mapping[node, head] = rng.integers(choices)
        else:
            mapping[node, head] = (old + rng.integers(1, choices)) % choices
        return True

    def _swap(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        peers = self._peers[head]
        if rng.random() < self.config.near:
            step = int(rng.geometric(0.25)) * (1 if rng.random() < 0.5 else -1)
            place = int(np.searchsorted(peers, node)) + step
            if not 0 <= place < len(peers):
                return False
            other = int(peers[place])
        else:
            other = int(peers[rng.integers(len(peers))])
        a, b = int(mapping[node, head]), int(mapping[other, head])
        limits = self._num_choices
        if a == b or min(a, b) < 0 or a >= limits[other, head] or b >= limits[node, head]:
            return False
        mapping[node, head], mapping[other, head] = b, a
        return True

    def _block(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        place = int(np.searchsorted(self._peers[head], node))
        run = self._peers[head][place : place + int(rng.geometric(1 / self.config.length))]
        choice = int(rng.integers(self._num_choices[node, head]))
        run = run[(self._num_choices[run, head] > choice) & (mapping[run, head] >= 0)]
        if (mapping[run, head] == choice).all():
            return False
        mapping[run, head] = choice
        return True
