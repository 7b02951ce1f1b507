"""Settings of the population, and the decisions that its members make.

Sources of the defaults: EGRL, Table 2, and, for what the paper leaves out, a published dump of the authors' code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from policies.places import Places
from population.moves import Moves


@dataclass(frozen=True)
class EvolutionConfig:
    """Settings of the population (published dump: a published dump of the authors' code)."""

    population: Annotated[int, Doc("individuals of the population (k in EGRL; Table 2), at least 4")] = 20
    boltzmann_fraction: Annotated[
        float,
        Doc(
            "share of the population that are Boltzmann chromosomes, the others being networks (own"
            " choice; Table 2: 0.2)"
        ),
    ] = 0.5
    survival: Annotated[
        Literal["plus", "generational"],
        Doc(
            '"plus" (own choice): parents are the best of all that were measured, and keep their fitness, see'
            ' `population.plus`; "generational": every generation replaces the one before, as in Algorithm 2, see'
            " `population.generational`"
        ),
    ] = "plus"
    tournament: Annotated[
        int, Doc("contestants per tournament, of which the fittest becomes a parent (published dump)")
    ] = 3
    elite_fraction: Annotated[
        float,
        Doc(
            "share of the population that is carried over unchanged and measured again, at least 2 individuals, with"
            ' "generational" (published dump)'
        ),
    ] = 0.1
    crossover_prob: Annotated[
        float, Doc("probability that a child is made by crossover or seeding (published dump)")
    ] = 0.3
    mutation_prob: Annotated[
        float, Doc('probability that a child is mutated, with "generational"; else 1 (published dump)')
    ] = 0.85
    flips: Annotated[
        float,
        Doc(
            "mean number of decisions per mutation of a chromosome in which two priors change places (Poisson), with"
            ' "generational"; else chromosomes make `moves`'
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        if not 4 <= self.population <= 10_000:
            raise ValueError(f"population: expected 4..10000, received {self.population}")
        if self.tournament < 1:
            raise ValueError(f"tournament: expected at least 1, received {self.tournament}")
        _check(self, "boltzmann_fraction", "elite_fraction", "crossover_prob", "mutation_prob")
        _check(self, "flips", most=1e4)

    @property
    def boltzmann_count(self) -> int:
        """Number of Boltzmann chromosomes."""
        return round(self.boltzmann_fraction * self.population)

    @property
    def elites(self) -> int:
        """Number of elites: their share of the population, rounded, at least 2 and not the whole population."""
        return min(max(2, round(self.elite_fraction * self.population)), self.population - 1)


def _check(settings: object, *names: str, most: float = 1.0) -> None:
    """Raises ValueError unless each named setting lies in 0..most (closed)."""
    for name in names:
        if not 0.0 <= getattr(settings, name) <= most:
            raise ValueError(f"{name}: expected 0..{most:g}, received {getattr(settings, name)}")


@dataclass(frozen=True)
class Decisions:
    """The decisions that the members of a population make.

    Attributes:
        num_choices: int16 [N, H].
        live: bool [N, H].
        choices: C, the width of the probabilities.
        features: F, columns of the observation.
        moves: local moves on their mappings; None: without kinds and sizes of decisions.
        ranked: what ranking networks read, if a placer reads the networks; else None.
    """

    num_choices: NDArray[np.int16]
    live: NDArray[np.bool_]
    choices: int
    features: int
    moves: Moves | None = None
    ranked: Ranked | None = None


@dataclass(frozen=True)
class Ranked:
    """How ranking networks read a problem, and a placer them.

    Attributes:
        places: what the networks read.
        names: names of its features.
        place: puts scores float32 [B, T, L] and shares that stay free [B] into mappings int16 [B, N, H].
        chromosomes: whether it places chromosomes, too: what it places is what runs.
        trained: whether rules come with the package for such features.
    """

    places: Places
    names: tuple[str, ...]
    place: Callable[[NDArray[np.float32], NDArray[np.float64]], NDArray[np.int16]]
    chromosomes: bool
    trained: bool
