"""Islands of mappings that have run: chromosomes search locally, each island in a basin of its own.

Sources: (mu + lambda) selection as in DEAP's eaMuPlusLambda, apart on each island; Whitley et al., "The island model
genetic algorithm" (1999), for keeping basins apart. One pool for all would soon be full of neighbours of the best
mapping. What a new walk of the networks finds is worse until local moves have improved it, and would never have
children.

An island's pool holds the best of what ran there, each as a chromosome anchored on it; of individuals with equal
fitness only the newest, so that the pool drifts along plateaus and does not fill with copies. The first island
belongs to the start; with every walk of the networks a new one opens, which takes all of that walk's mappings. Children
come from the best island (a share of `exploit`) or from the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from population.genome import Individual, members_from_arrays, members_to_arrays


def survivors(pool: Sequence[Individual], room: int) -> list[Individual]:
    """The best `room` of a pool, best first; of equal fitness only the newest (greatest id)."""
    found: dict[float, Individual] = {}
    for individual in sorted(pool, key=lambda m: (-m.score, -m.id)):
        if np.isfinite(individual.score):
            found.setdefault(individual.score, individual)
    return list(found.values())[:room]


@dataclass
class Island:
    """A pool of measured chromosomes, best first."""

    number: int
    pool: list[Individual] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Fitness of its best; -inf while it is empty."""
        return self.pool[0].score if self.pool else -np.inf


class Islands:
    """All islands, oldest first; there is always one."""

    def __init__(self, size: int, count: int, exploit: float) -> None:
        """`size` individuals an island, `count` islands at most, `exploit` the share of the best island's children."""
        self._size, self._count, self._exploit = size, count, exploit
        self._islands = [Island(0)]
        self._opened = 1

    @property
    def newest(self) -> int:
        """The newest island's number."""
        return self._islands[-1].number

    def individuals(self) -> list[Individual]:
        """Everyone, island by island."""
        return [m for island in self._islands for m in island.pool]

    def open(self) -> None:
        """Open a new island; of too many the one with the worst best is removed, but never the best or the newest.

        Where only one is allowed it stays, and none is opened.
        """
        if self._count == 1:
            return
        self._islands.append(Island(self._opened))
        self._opened += 1
        if len(self._islands) > self._count:
            best = max(self._islands, key=lambda i: i.best)
            others = [i for i in self._islands[:-1] if i is not best]
            self._islands.remove(min(others or self._islands[:-1], key=lambda i: i.best))

    def add(self, individuals: Sequence[Individual], island_of: Sequence[int]) -> None:
        """Add measured chromosomes to the islands of these numbers; where one is gone, to the newest."""
        there = {island.number: island for island in self._islands}
        joined: dict[int, list[Individual]] = {}
        for individual, number in zip(individuals, island_of, strict=True):
            joined.setdefault(number if number in there else self.newest, []).append(individual)
        for number, arrivals in joined.items():
            there[number].pool = survivors([*there[number].pool, *arrivals], self._size)

    def draw_island(self, rng: np.random.Generator) -> Island | None:
        """Draw the island that the next child comes from; None while all are empty."""
        inhabited = [island for island in self._islands if island.pool]
        if not inhabited:
            return None
        best, newest = max(inhabited, key=lambda i: i.best), inhabited[-1]
        return best if rng.random() < self._exploit else newest

    def state_dict(self) -> dict[str, Any]:
        """Numbers and pools."""
        return {
            "opened": self._opened,
            "numbers": [island.number for island in self._islands],
            "sizes": [len(island.pool) for island in self._islands],
            "individuals": members_to_arrays(self.individuals()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        everyone = iter(members_from_arrays(state["individuals"]))
        self._opened = int(state["opened"])
        self._islands = [
            Island(int(number), [next(everyone) for _ in range(int(size))])
            for number, size in zip(state["numbers"], state["sizes"], strict=True)
        ]
