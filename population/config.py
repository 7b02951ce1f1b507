"""Settings of the population and what it decides.

Sources of the defaults: EGRL, Table 2, and, where it gives nothing, a published dump of the authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from population.moves import MovesConfig
from population.selection import elite_count
from population.variation import BoltzmannMutation, GnnMutation


@dataclass(frozen=True)
class EvolutionConfig:
    """Settings of the population.

    Attributes:
        population: k, number of individuals, at least 4 (EGRL, Table 2).
        boltzmann_fraction: share that are Boltzmann chromosomes (own choice; Table 2: 0.2).
        survival: "plus" (own choice): children compete with their parents, who are not measured again, see
            `population.steady`; "generational": Algorithm 2, see `population.offspring`.
        readout: a policy takes its most probable choices ("greedy", own choice) or draws them ("sample").
        gnn_survivors, boltzmann_survivors: parents kept of each encoding, with "plus" (own choice).
        moves: local moves that make a chromosome's child, with "plus".
        elite_fraction: share carried over unchanged, at least 2 individuals, with "generational" (published dump).
        tournament: contestants a tournament (published dump).
        crossover_prob: chance that a slot is filled by crossover or seeding (published dump).
        mutation_prob: chance that a filled slot is mutated, with "generational" (published dump).
        gnn_mutation: see `population.variation`.
        boltzmann_mutation: the same, with "generational".
    """

    population: int = 20
    boltzmann_fraction: float = 0.75
    elite_fraction: float = 0.1
    tournament: int = 3
    crossover_prob: float = 0.3
    mutation_prob: float = 0.85
    survival: Literal["plus", "generational"] = "plus"
    readout: Literal["greedy", "sample"] = "greedy"
    gnn_survivors: int = 10
    boltzmann_survivors: int = 30
    moves: MovesConfig = field(default_factory=MovesConfig)
    gnn_mutation: GnnMutation = field(default_factory=GnnMutation)
    boltzmann_mutation: BoltzmannMutation = field(default_factory=BoltzmannMutation)

    def __post_init__(self) -> None:
        if not 4 <= self.population <= 10_000:
            raise ValueError(f"population: expected 4..10000, received {self.population}")
        for name in ("tournament", "gnn_survivors", "boltzmann_survivors"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, received {getattr(self, name)}")
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
