"""Settings of the population and what it decides.

Sources of the defaults: EGRL, Table 2, and, where it gives nothing, a published dump of the authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from population.selection import elite_count
from population.variation import BoltzmannMutation, GnnMutation


@dataclass(frozen=True)
class EvolutionConfig:
    """Settings of the population.

    Attributes:
        population: k, number of individuals, at least 4 (EGRL, Table 2).
        boltzmann_fraction: share that are Boltzmann chromosomes (Table 2).
        elite_fraction: share carried over unchanged, at least 2 individuals (published dump).
        tournament: contestants a tournament (published dump).
        crossover_prob: chance that a slot is filled by crossover or seeding (published dump).
        mutation_prob: chance that a filled slot is mutated (published dump).
        gnn_mutation, boltzmann_mutation: see `population.variation`.
    """

    population: int = 20
    boltzmann_fraction: float = 0.2
    elite_fraction: float = 0.1
    tournament: int = 3
    crossover_prob: float = 0.3
    mutation_prob: float = 0.85
    gnn_mutation: GnnMutation = field(default_factory=GnnMutation)
    boltzmann_mutation: BoltzmannMutation = field(default_factory=BoltzmannMutation)

    def __post_init__(self) -> None:
        if self.population < 4:
            raise ValueError(f"population: expected at least 4, received {self.population}")
        if self.tournament < 1:
            raise ValueError(f"tournament: expected at least 1, received {self.tournament}")
        for name in ("boltzmann_fraction", "elite_fraction", "crossover_prob", "mutation_prob"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name}: expected 0..1, received {getattr(self, name)}")

    @property
    def boltzmann_count(self) -> int:
        """Number of Boltzmann chromosomes."""
        return round(self.boltzmann_fraction * self.population)

    @property
    def elites(self) -> int:
        """Number of elites."""
        return elite_count(self.population, self.elite_fraction)


@dataclass(frozen=True)
class Decisions:
    """What a population decides.

    Attributes:
        num_choices: int16 [N, H].
        live: bool [N, H].
        choices: C, the width of the probabilities.
        features: F, columns of the observation.
    """

    num_choices: NDArray[np.int16]
    live: NDArray[np.bool_]
    choices: int
    features: int
