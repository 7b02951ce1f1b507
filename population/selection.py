"""Who survives: elites by rank, the rest by tournament.

Source: EGRL, Algorithm 2 lines 8-10. Tournament of 3, elite share 0.1 and at least 2: values of a published
dump of the authors' code; the paper gives none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from deap import tools

from population.genome import Individual


@contextmanager
def python_random(rng: np.random.Generator) -> Iterator[None]:
    """Python's global `random`, which DEAP draws from, seeded by `rng` inside and as before outside."""
    before = random.getstate()
    random.seed(int(rng.integers(2**63)))
    try:
        yield
    finally:
        random.setstate(before)


def rank(members: Sequence[Individual]) -> list[Individual]:
    """Best first; of equal ones the older (smaller id)."""
    return sorted(members, key=lambda m: (-m.score, m.id))


def elite_count(population: int, fraction: float) -> int:
    """Number of elites: fraction x population, rounded, at least 2 and at most population - 1."""
    return min(max(2, round(fraction * population)), population - 1)


def tournament(
    members: Sequence[Individual], winners: int, size: int, rng: np.random.Generator
) -> list[Individual]:
    """`winners` members, each the fittest of `size` drawn with replacement."""
    with python_random(rng):
        chosen: list[Individual] = tools.selTournament(members, winners, size)
    return chosen
