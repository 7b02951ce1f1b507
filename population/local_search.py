"""Chromosomes that search locally around what has run, and what becomes of a generation under "islands" survival.

Deviations from EGRL, Algorithm 2 (all of them; `survival = "generational"` is the printed form):
- A parent keeps its fitness and is not measured again; every evaluation goes to a new policy.
- A chromosome is anchored: once its mapping has run, its prior becomes the mapping that really ran. It lives on an
  island, see `population.islands`.
- Seeding from network to Boltzmann: every mapping of a network, of the learner and of the start that ran enters an
  island as a chromosome anchored on it, instead of the prior being a network's posterior.
- A chromosome's child differs from its parent by a few local moves (`population.moves`), not by noise on every
  prior, which with an anchored prior would change either nothing or everything.
- The networks are a walk, see `population.walk`: mirrored perturbations of all weights of one centre, which all of them
  move together, instead of mutations of a few weights and crossover. The learner joins as a scout, from which every
  second walk may begin, instead of in the weakest member's slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from population.config import Decisions, EvolutionConfig
from population.genome import Boltzmann, Child, Individual, boltzmann_from_mapping
from population.known import Known
from population.moves import Moves
from population.operators import Selection
from population.selection import tournament

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

    def __init__(self, config: EvolutionConfig, decisions: Decisions) -> None:
        self._config, self._decisions = config, decisions
        self._selection = Selection(config.selection) if config.selection else None
        self._moves = decisions.moves or Moves(decisions.num_choices, decisions.live, config.moves)

    def anchor(self, ran: NDArray[np.int16]) -> Boltzmann:
        """A chromosome whose prior is a mapping int16 [N, H]."""
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
        select = self._selection or partial(tournament, size=self._config.tournament)
        for _ in range(TRIES):
            parent = select(parents, 1, rng=rng)[0]
            assert isinstance(parent.genome, Boltzmann)
            moved = self._moves.propose(mapping_of(parent.genome, self._decisions.live), rng)
            repaired = self._decisions.repaired
            if repaired is None or known is None:
                break
            moved = repaired(moved[None])[0]
            if known.admit(moved):
                break
        return Child(self.anchor(moved), (parent.id,), "mutation", mutated=True)
