"""How an open slot of the next generation is filled.

Source: EGRL, Algorithm 2 lines 10-20.

Deviations:
- As printed, lines 11-17 are never reached, because the tournament already fills S. Here each of the k - e
  open slots is, with `crossover_prob`, a cross between an elite and a tournament winner, else a tournament
  winner as it is; then it is mutated with `mutation_prob`.
- Every slot has an encoding, and the shares of the encodings never change: the tournament for a slot is held
  among members of its encoding. If the elite is a network and the slot a chromosome, the chromosome's prior
  becomes the network's posterior (lines 16-17). If the elite is a chromosome and the slot a network, which cannot
  inherit from it, a second tournament winner takes the elite's place.
- A winner that is not mutated is a new individual, too: the elites are the only ones that persist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from deap import base
from numpy.typing import NDArray

from policies.weight_vector import WeightFormat
from population.config import Decisions, EvolutionConfig
from population.genome import Child, Individual, boltzmann_from_probabilities
from population.operators import Selection, Variation
from population.selection import tournament
from population.variation import cross_boltzmann, cross_network, mutate_boltzmann, mutate_network

Posterior = Callable[[Individual], NDArray[np.float32]]
"""Probabilities [N, H, C] of an individual in a state of the environment."""


class Breeder:
    """The operators of one generation, registered in a DEAP toolbox."""

    def __init__(
        self,
        config: EvolutionConfig,
        decisions: Decisions,
        weight_format: WeightFormat | None,
        rng: np.random.Generator,
    ) -> None:
        """`weight_format` may be None where there are no networks; every random draw comes from `rng`."""
        self.config, self.decisions, self.rng = config, decisions, rng
        toolbox: Any = base.Toolbox()
        toolbox.register("select", tournament, size=config.tournament, rng=rng)
        if config.selection:
            toolbox.register("select", Selection(config.selection), rng=rng)
        toolbox.register("mate_boltzmann", cross_boltzmann, rng=rng)
        toolbox.register(
            "mutate_boltzmann",
            mutate_boltzmann,
            num_choices=decisions.num_choices,
            live=decisions.live,
            settings=config.boltzmann_mutation,
            rng=rng,
        )
        if weight_format is not None:
            toolbox.register("mate_network", cross_network, weight_format=weight_format, rng=rng)
            toolbox.register(
                "mutate_network",
                mutate_network,
                weight_format=weight_format,
                settings=config.network_mutation,
                rng=rng,
            )
        for encoding in ("network", "boltzmann"):
            if config.mating:
                toolbox.register(f"mate_{encoding}", Variation("mating", config.mating, rng))
            if config.mutation:
                toolbox.register(f"mutate_{encoding}", Variation("mutation", config.mutation, rng))
        self._toolbox = toolbox

    def children(
        self,
        count: int,
        peers: Sequence[Individual],
        elites: Sequence[Individual],
        posterior: Posterior | None,
    ) -> Iterator[Child]:
        """`count` children of the peers' encoding; without `posterior` nothing is seeded.

        A named selection chooses all their parents at once: some of DEAP's spread what they choose.
        """
        if self.config.selection:
            winners: list[Individual] = self._toolbox.select(peers, count)
            yield from (self._child(winner, peers, elites, posterior) for winner in winners)
        else:
            yield from (self._child(self._winner(peers), peers, elites, posterior) for _ in range(count))

    def _child(
        self,
        winner: Individual,
        peers: Sequence[Individual],
        elites: Sequence[Individual],
        posterior: Posterior | None,
    ) -> Child:
        child = Child(winner.genome, (winner.id,), winner.origin, mutated=False)
        if self.rng.random() < self.config.crossover_prob:
            elite = elites[int(self.rng.integers(len(elites)))]
            if winner.encoding == "boltzmann" and elite.encoding == "network":
                child = child if posterior is None else self._seed(elite, posterior(elite))
            else:
                child = self._cross(
                    elite if elite.encoding == winner.encoding else self._winner(peers), winner
                )
        if self.rng.random() < self.config.mutation_prob:
            genome = getattr(self._toolbox, f"mutate_{winner.encoding}")(child.genome)
            copied = child.genome is winner.genome
            child = Child(genome, child.parents, "mutation" if copied else child.origin, mutated=True)
        return child

    def _winner(self, peers: Sequence[Individual]) -> Individual:
        winner: Individual = self._toolbox.select(peers, 1)[0]
        return winner

    def _seed(self, elite: Individual, probabilities: NDArray[np.float32]) -> Child:
        genome = boltzmann_from_probabilities(probabilities, self.decisions.num_choices)
        return Child(genome, (elite.id,), "seeded", mutated=False)

    def _cross(self, first: Individual, second: Individual) -> Child:
        mate = getattr(self._toolbox, f"mate_{first.encoding}")
        return Child(mate(first.genome, second.genome), (first.id, second.id), "crossover", mutated=False)
