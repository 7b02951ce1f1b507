"""Chromosomes that search locally: anchored on a mapping that ran, or a few local moves away from a parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from population.config import Decisions, EvolutionConfig
from population.genome import Boltzmann, Child, Individual, boltzmann_from_mapping
from population.known import Known
from population.moves import Moves
from population.operators import Operators

TRIES = 10
"""Children that are drawn at most until one is new."""


@dataclass(frozen=True)
class Immigrant:
    """A mapping int16 [N, H] from outside the population that ran, and its fitness."""

    ran: NDArray[np.int16]
    fitness: float


def mapping_of(genome: Boltzmann, live: NDArray[np.bool_]) -> NDArray[np.int16]:
    """The mapping int16 [N, H] that an anchored chromosome prefers; -1 where not live."""
    return np.where(live, genome.prior.argmax(axis=-1), -1).astype(np.int16)


class LocalSearch:
    """Makes chromosomes: anchored on a mapping, or a few moves away from a parent."""

    def __init__(self, config: EvolutionConfig, decisions: Decisions, operators: Operators) -> None:
        """`operators` may choose the parents."""
        self._config, self._decisions, self._operators = config, decisions, operators
        self._moves = decisions.moves or Moves(decisions.num_choices, decisions.live, config.island.moves)

    def anchor(self, ran: NDArray[np.int16]) -> Boltzmann:
        """A chromosome with a mapping int16 [N, H] as its prior."""
        given = self._decisions
        return boltzmann_from_mapping(ran, given.num_choices, given.choices, given.certainty)

    def anchored(self, individual: Individual, ran: NDArray[np.int16]) -> Individual:
        """The individual's mapping that ran, as a chromosome; its own id and fitness, "seeded" if it was a network."""
        origin = individual.origin if individual.encoding == "boltzmann" else "seeded"
        return replace(individual, genome=self.anchor(ran), origin=origin)

    def child(
        self, parents: Sequence[Individual], rng: np.random.Generator, known: Known | None = None
    ) -> Child:
        """A few local moves away from a parent that the selection chose.

        If what would run is known beforehand, the child is that, and not among the mappings `known`, which it joins;
        unless none is found in `TRIES` tries.
        """
        for _ in range(TRIES):
            parent = self._operators.selected(parents, 1, self._config.tournament, rng)[0]
            assert isinstance(parent.genome, Boltzmann)
            moved = self._moves.propose(mapping_of(parent.genome, self._decisions.live), rng)
            repaired = self._decisions.repaired
            if repaired is None or known is None:
                break
            moved = repaired(moved[None])[0]
            if known.admit(moved):
                break
        return Child(self.anchor(moved), (parent.id,), "mutation")
