"""Plus survival: children compete with their parents, and chromosomes search around what has run.

Sources: (mu + lambda) selection as in DEAP's eaMuPlusLambda; EGRL, Algorithm 2, for what it changes.

Deviations from Algorithm 2 (all of them; `survival = "generational"` is the printed form):
- A parent keeps its fitness and is not measured again; every evaluation goes to a new policy. The best of each
  encoding survive; of individuals with equal fitness only the newest, so that the population drifts along
  plateaus and does not fill with copies.
- A chromosome is anchored: once its mapping has run, its prior becomes the mapping that really ran.
- Seeding from GNN to Boltzmann: every mapping of a GNN, of the learner and of the start that ran enters the
  chromosomes' pool as a chromosome anchored on it, instead of the prior being a GNN's posterior.
- A chromosome's child differs from its parent by a few local moves (`population.moves`), not by noise on every
  prior, which with an anchored prior would change either nothing or everything.
- A GNN's child is a mutated tournament winner (crossed with another with `crossover_prob`); while there are
  fewer survivors than room, it is drawn afresh. The learner takes one GNN's place among the children.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from policies.layout import Layout
from population.config import Decisions, EvolutionConfig
from population.genome import Boltzmann, Gnn, Individual, boltzmann_from_mapping
from population.moves import Moves
from population.offspring import Child
from population.selection import tournament
from population.variation import cross_gnn, mutate_gnn


@dataclass(frozen=True)
class Guest:
    """A mapping int16 [N, H] that ran without being a member's, and its fitness."""

    ran: NDArray[np.int16]
    fitness: float


def survivors(pool: Sequence[Individual], room: int) -> list[Individual]:
    """The best `room` of a pool, best first; of equal fitness only the newest (greatest id)."""
    found: dict[float, Individual] = {}
    for individual in sorted(pool, key=lambda m: (-m.score, -m.id)):
        if np.isfinite(individual.score):
            found.setdefault(individual.score, individual)
    return list(found.values())[:room]


def mapping_of(genome: Boltzmann, live: NDArray[np.bool_]) -> NDArray[np.int16]:
    """The mapping int16 [N, H] that an anchored chromosome prefers; -1 where not live."""
    return np.where(live, genome.prior.argmax(axis=-1), -1).astype(np.int16)


class SteadyBreeder:
    """Makes the children of one generation."""

    def __init__(
        self,
        config: EvolutionConfig,
        decisions: Decisions,
        layout: Layout | None,
        rng: np.random.Generator,
    ) -> None:
        """`layout` may be None where there are no GNNs."""
        self._config, self._decisions, self._layout, self._rng = config, decisions, layout, rng
        self._moves = Moves(decisions.num_choices, decisions.live, config.moves)

    def anchored(self, ran: NDArray[np.int16]) -> Boltzmann:
        """A chromosome whose prior is a mapping int16 [N, H]."""
        return boltzmann_from_mapping(ran, self._decisions.num_choices, self._decisions.choices)

    def chromosome(self, parents: Sequence[Individual]) -> Child:
        """A few local moves away from a tournament winner."""
        parent = self._winner(parents)
        assert isinstance(parent.genome, Boltzmann)
        moved = self._moves.propose(mapping_of(parent.genome, self._decisions.live), self._rng)
        return Child(self.anchored(moved), (parent.id,), "mutation", mutated=True)

    def gnn(self, parents: Sequence[Individual], fresh: Callable[[], Gnn]) -> Child:
        """A mutant of a tournament winner, or of a cross of two; a fresh one while there is room."""
        if len(parents) < self._config.gnn_survivors:
            return Child(fresh(), (), "random", mutated=False)
        assert self._layout is not None
        parent = self._winner(parents)
        genome, ids = parent.genome, [parent.id]
        assert isinstance(genome, Gnn)
        if self._rng.random() < self._config.crossover_prob:
            other = self._winner(parents)
            assert isinstance(other.genome, Gnn)
            genome = cross_gnn(genome, other.genome, self._layout, self._rng)
            ids.append(other.id)
        mutant = mutate_gnn(genome, self._layout, self._config.gnn_mutation, self._rng)
        return Child(mutant, tuple(ids), "crossover" if len(ids) == 2 else "mutation", mutated=True)

    def _winner(self, parents: Sequence[Individual]) -> Individual:
        return tournament(parents, 1, self._config.tournament, self._rng)[0]


def as_chromosome(individual: Individual, ran: NDArray[np.int16], breeder: SteadyBreeder) -> Individual:
    """The individual's mapping that ran, as a chromosome; its own id and fitness, "seeded" if it was a GNN."""
    origin = individual.origin if individual.encoding == "boltzmann" else "seeded"
    return replace(individual, genome=breeder.anchored(ran), origin=origin)
