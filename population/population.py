"""The interface of populations: members to be measured, their policies, and results of a generation.

The two kinds are `population.plus` (the default) and `population.generational` (Algorithm 2 as printed).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Observation
from policies.network import NetworkConfig
from policies.weight_vector import WeightFormat
from population.config import Decisions, EvolutionConfig
from population.genome import (
    Boltzmann,
    Child,
    Individual,
    Network,
    members_from_arrays,
    members_to_arrays,
)
from population.known import Known
from population.operators import Operators
from population.policies import Policies

Floats = NDArray[np.float32]


def rank(members: Sequence[Individual]) -> list[Individual]:
    """Best first, then oldest (smallest id) first."""
    return sorted(members, key=lambda m: (-m.score, m.id))


@dataclass(frozen=True)
class Immigrant:
    """A mapping int16 [N, H] from outside the population that ran, and its fitness."""

    ran: NDArray[np.int16]
    fitness: float


@dataclass(frozen=True)
class Migrant:
    """A learner's weights float32 [P] as a network, and what its own mapping was worth; None if that never ran."""

    weights: Floats
    fitness: float | None = None


Judge = Callable[[NDArray[np.int16]], NDArray[np.float64]]
"""What a critic says of mappings int16 [K, N, H], float64 [K]: the less, the better."""


@dataclass(frozen=True)
class Results:
    """A generation that was measured.

    Attributes:
        measured: its members, with their fitness.
        ran: int16 [M, N, H], what ran for each, or None.
        immigrants: mappings that ran beside the population.
        migrant: the learner that may join, or None.
        observation: in which a network's posterior is taken, or None.
        judge: a critic that chooses among children, or None.
    """

    measured: list[Individual]
    ran: NDArray[np.int16] | None
    immigrants: Sequence[Immigrant]
    migrant: Migrant | None
    observation: Observation | None
    judge: Judge | None = None


class Population(ABC):
    """Members of two encodings, which are to be measured next, networks before chromosomes.

    Attributes:
        members: the generation.
        known: the mappings that ran, where those of networks are to be new.
        generation: number of generations with results.
        offered: how often a learner joined.
        accepted: how often it was good enough to have children.
    """

    def __init__(
        self,
        config: EvolutionConfig,
        decisions: Decisions,
        actor: NetworkConfig | None,
        operators: Operators | None = None,
        device: str = "cpu",
    ) -> None:
        """Without members: use `population.create` or `load_state_dict`.

        `actor` may be None where there are no networks; `device` is where torch evaluates them.
        """
        self.config, self.decisions = config, decisions
        self.operators = operators or Operators()
        self.policies = Policies(decisions, actor, device)
        self.known = Known()
        self.members: list[Individual] = []
        self.generation = self.offered = self.accepted = 0
        self._next_id = 0

    def begin(self, members: Sequence[Individual]) -> None:
        """The first generation; the ids of its members are their positions."""
        self.members, self._next_id = list(members), len(members)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def weight_format(self) -> WeightFormat:
        """Where each tensor lies in a network's weight vector."""
        return self.policies.weight_format

    def probabilities(self, observation: Observation, chosen: NDArray[np.int64] | None = None) -> Floats:
        """Probabilities float32 [M, N, H, C] of the members at positions `chosen` (default: all)."""
        members = self.members if chosen is None else [self.members[i] for i in chosen]
        return self.policies.probabilities(members, observation)

    def scores(self, chosen: NDArray[np.int64]) -> tuple[Floats, NDArray[np.float64]]:
        """Scores float32 [M, T, L] of the members at positions `chosen`, ranking networks, and the shares kept free."""
        return self.policies.scores([self.members[i] for i in chosen])

    def read(self, chosen: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int16]:
        """Mappings int16 [B, N, H] of the chromosomes at positions `chosen`, each a reading with its temperatures."""
        genomes = [self.members[i].genome for i in chosen]
        return self.policies.read([genome for genome in genomes if isinstance(genome, Boltzmann)], rng)

    @property
    def temperatures(self) -> tuple[float, float] | None:
        """Lowest and highest of the chromosomes' decisions that there are; None without chromosomes."""
        live = self.decisions.live
        found = [m.genome.temperature[live] for m in self.members if isinstance(m.genome, Boltzmann)]
        return (float(np.min(found)), float(np.max(found))) if found and live.any() else None

    @property
    def alive(self) -> int:
        """How many of those that may have children are the weights of a learner."""
        return sum(m.origin == "learner" for m in self.members)

    def tell(
        self,
        fitness: NDArray[np.floating[Any]],
        migrant: Migrant | None,
        rng: np.random.Generator,
        *,
        observation: Observation | None = None,
        ran: NDArray[np.int16] | None = None,
        immigrants: Sequence[Immigrant] = (),
        judge: Judge | None = None,
    ) -> None:
        """Take the members' fitness [M] (maximised; non-finite never wins) and make the next generation.

        Every draw comes from `rng`; the other arguments are those of `Results`. Raises ValueError where a shape
        differs.
        """
        if np.shape(fitness) != (len(self),):
            raise ValueError(f"fitness: expected shape [{len(self)}], received {list(np.shape(fitness))}")
        if migrant is not None:
            self.policies.check(Network(migrant.weights))
        measured = [m.with_fitness(float(f)) for m, f in zip(self.members, fitness, strict=True)]
        self.generation += 1
        self._breed(Results(measured, ran, immigrants, migrant, observation, judge), rng)

    @abstractmethod
    def _breed(self, results: Results, rng: np.random.Generator) -> None:
        """Replace the members by the next generation."""

    def standings(self) -> list[Individual]:
        """All measured individuals that may still have children, best first, then oldest first."""
        return rank([m for m in self.members if m.fitness.valid])

    def improves(self, reward: float, top: float) -> bool:
        """Whether the best of a generation, with this reward, takes the place of the best before, `top`."""
        return True

    def state_dict(self) -> dict[str, Any]:
        """The members as arrays (networks and chromosomes stacked apart, in order), history, counters."""
        return {
            "members": members_to_arrays(self.members),
            "known": self.known.state_dict(),
            "generation": self.generation,
            "next_id": self._next_id,
            "migration": [self.offered, self.accepted],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises ValueError where a genome does not fit."""
        members = members_from_arrays(state["members"])
        for member in members:
            self.policies.check(member.genome)
        self.members = members
        self.known.load_state_dict(state["known"])
        self.generation, self._next_id = int(state["generation"]), int(state["next_id"])
        self.offered, self.accepted = state["migration"]

    def _adopt(self, child: Child) -> None:
        """Append a child."""
        self.members.append(Individual(child.genome, self._next_id, child.parents, child.origin))
        self._next_id += 1
