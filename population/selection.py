"""Survival: elites by rank, the rest by tournament; and which member the learner's actor replaces.

Source: EGRL, Algorithm 2 lines 8-10. Tournament of 3, elite share 0.1 and at least 2: values of a published
dump of the authors' code; the paper gives none. Migration: line 32 and appendix C (its weights replace the weakest).

Deviations:
- Only a network that is not an elite is replaced, so that the shares of the encodings stay and no elite is lost.
- The generation that the learner enters is not measured yet: a child counts as fit as its fittest parent was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from deap import tools

from population.genome import Individual


def weakest_network(members: Sequence[Individual], elites: int, scores: Mapping[int, float]) -> int | None:
    """Position of the weakest network behind the first `elites` members, or None where there is none.

    `scores` holds the fitness of the last generation by id; the youngest is taken, if several are equal.
    """

    def fitness_of(position: int) -> tuple[float, int]:
        member = members[position]
        known = [scores[p] for p in (member.id, *member.parents) if p in scores]
        return max(known, default=float("-inf")), -member.id

    open_slots = [i for i in range(elites, len(members)) if members[i].encoding == "network"]
    return min(open_slots, key=fitness_of, default=None)


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
    """Best first, then oldest (smallest id) first."""
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
