"""The default population: networks that move together, and chromosomes that search locally on islands.

Source: our own; Algorithm 2 as printed is `population.generational`. Networks of few weights move by CMA-ES
(`population.cma`), others are a walk (`population.walk`).

Deviations from EGRL, Algorithm 2:
- A parent keeps its fitness and is not measured again; every evaluation goes to a new policy.
- A chromosome is anchored: once its mapping has run, its prior becomes the mapping that really ran. It lives on an
  island, see `population.islands`.
- Seeding from network to Boltzmann: every mapping of a network, of the learner and of the start that ran enters an
  island as a chromosome anchored on it, instead of the prior being a network's posterior.
- A chromosome's child differs from its parent by a few local moves (`population.local_search`), not by noise on every
  prior, which with an anchored prior would change either nothing or everything.
- All weights of the networks move around one centre, instead of mutations of a few weights and crossover. The learner
  joins the walk as a scout, from which every second walk may begin, instead of in the weakest member's slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.network import NetworkConfig
from population.cma import MOST_WEIGHTS, Cma
from population.config import Decisions, EvolutionConfig
from population.genome import Child, Individual, members_from_arrays, members_to_arrays
from population.islands import Islands
from population.operators import Operators
from population.population import Population, Results, rank
from population.walk import Walk
from workloads.errors import InputError


class IslandSearch(Population):
    """Members that come from a walk and from islands.

    Attributes:
        islands: what ran, as anchored chromosomes.
        walk: where the networks are.
        island_of: the number of the island that each member's mapping will join.
        best_network: the best one measured so far.
    """

    def __init__(
        self,
        config: EvolutionConfig,
        decisions: Decisions,
        actor: NetworkConfig | None,
        operators: Operators | None = None,
        device: str = "cpu",
    ) -> None:
        """The population at its start. InputError if `operators` mate or mutate."""
        super().__init__(config, decisions, actor, operators, device)
        if self.operators.mate is not None or self.operators.mutate is not None:
            kind = "mutate" if self.operators.mate is None else "mate"
            raise InputError(
                f"operator {kind}: expected method.survival=generational, since chromosomes on islands change by local"
                " moves and networks walk, found islands"
            )
        settings = config.island
        self.islands = Islands(settings.island_size, settings.islands, settings.exploit)
        ranking = decisions.places is not None and actor is not None
        few = ranking and self.policies.weight_format.size <= MOST_WEIGHTS
        self.walk: Walk | Cma = Cma(settings.cma) if few else Walk(settings.walk)
        self.island_of: list[int] = []
        self.best_network: Individual | None = None

    def begin(self, members: Sequence[Individual]) -> None:
        """The first generation: its mappings join the first island."""
        super().begin(members)
        self.island_of = [0] * len(members)

    def standings(self) -> list[Individual]:
        """All measured individuals that may still have children, best first, then oldest first."""
        best = [] if self.best_network is None else [self.best_network]
        measured = [m for m in self.members if m.fitness.valid]
        everyone = {(m.id, m.encoding): m for m in [*best, *self.islands.individuals(), *measured]}
        return rank(list(everyone.values()))

    def improves(self, reward: float, top: float) -> bool:
        """Only by more: the best so far stays."""
        return reward > top

    def _breed(self, results: Results, rng: np.random.Generator) -> None:
        """Keep what ran, then replace every member: networks of the walk, then chromosomes of the islands."""
        ran, size = results.ran, (len(self), *self.decisions.num_choices.shape)
        if ran is None or ran.shape != size:
            raise ValueError(
                f"ran: expected [{len(self)}, N, H], received {None if ran is None else ran.shape}"
            )
        self.known.add(ran)
        self.known.add(immigrant.ran for immigrant in results.immigrants)
        begins = self._move_networks(results)
        if self.config.boltzmann_count:
            self._settle(results, ran, begins)
        self._next(results, rng)

    def _move_networks(self, results: Results) -> bool:
        """Move the walk by what was measured. Returns whether a new one begins."""
        networks = [m for m in results.measured if m.encoding == "network"]
        for network in networks:
            better = self.best_network is None or network.score > self.best_network.score
            if np.isfinite(network.score) and better:
                self.best_network = network
        return bool(networks) and self.walk.update(networks)

    def _settle(self, results: Results, ran: NDArray[np.int16], walk_begins: bool) -> None:
        """Add what ran to the islands."""
        # A new walk's mappings, those of the scouts that it came from included, have an island of their own.
        if walk_begins:
            self.islands.open()
        scouting = walk_begins or self.walk.centre is None
        island_of = [
            self.islands.newest if m.encoding == "network" and scouting else island
            for m, island in zip(results.measured, self.island_of, strict=True)
        ]
        anchored = [self.local.anchored(m, row) for m, row in zip(results.measured, ran, strict=True)]
        self.islands.add(anchored, island_of)
        for immigrant in results.immigrants:
            seeded = Individual(self.local.anchor(immigrant.ran), self._next_id, (), "seeded")
            # The first generation's immigrants belong to the start, and with it to the first island.
            island = 0 if self.generation == 1 else self.islands.newest
            self.islands.add([seeded.with_fitness(immigrant.fitness)], [island])
            self._next_id += 1

    def _next(self, results: Results, rng: np.random.Generator) -> None:
        """The next generation."""
        unmeasured = [m for m in results.measured if m.encoding == "boltzmann"]
        slots = self.config.population - self.config.boltzmann_count
        self.members, self.island_of = [], []
        if slots:
            fresh = self.policies.draw_network
            for child in self.walk.members(slots, results.learner, lambda: fresh(rng), rng):
                self._adopt(child)
                self.island_of.append(self.islands.newest)
        for _ in range(self.config.population - slots):
            island = self.islands.draw_island(rng)
            parents = unmeasured if island is None else island.pool
            # Where nothing has ever run, the chromosomes themselves are the parents; without any, a random one.
            child = (
                self.local.child(parents, rng, self.known)
                if parents
                else Child(self.policies.draw("boltzmann", rng), (), "random")
            )
            self._adopt(child)
            self.island_of.append(self.islands.newest if island is None else island.number)

    def state_dict(self) -> dict[str, Any]:
        """Members, islands, walk, history, counters."""
        return {
            **super().state_dict(),
            "islands": self.islands.state_dict(),
            "walk": self.walk.state_dict(),
            "island_of": np.array(self.island_of, dtype=np.int64),
            "best_network": members_to_arrays([] if self.best_network is None else [self.best_network]),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises ValueError where a genome does not fit."""
        super().load_state_dict(state)
        self.islands.load_state_dict(state["islands"])
        self.walk.load_state_dict(state["walk"])
        best = members_from_arrays(state["best_network"])
        for member in [*best, *self.islands.individuals()]:
            self.policies.check(member.genome)
        self.best_network = best[0] if best else None
        self.island_of = [int(island) for island in state["island_of"]]
