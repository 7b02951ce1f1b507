"""The default population: parents are the best of all that were measured, and keep their fitness.

Source: EGRL, Algorithm 2 lines 8 to 20 and 32, with (mu + lambda) survival as in DEAP's eaMuPlusLambda: children
compete with their parents, so that no evaluation goes to a policy twice. Operators: `population.variation` and
`population.chromosomes`; each can be replaced by one of DEAP's or your own (`population.operators`).

    line 8     the best networks, and the best mappings as chromosomes     `_keep`
    line 9     elites                                                     the parents, which are not measured again
    line 10    tournaments                                                `Operators.selected`
    lines 11-17 crossover of networks; seeding: every mapping that ran,   `_network`, `_keep`
               whoever proposed it, is a chromosome that may have children
    lines 18-20 mutation                                                  `_network`, `_chromosomes`
    line 32    the learner is one of the networks, with its own fitness   `_keep`, `_migrant`

Deviations:
- A child of a chromosome is read when it is made: where what runs is known beforehand, it is no mapping that ran. If a
  learner has a critic, that chooses among `CANDIDATES` times as many children.
- The learner is offered every `MIGRATION` generations, each a round of the search, and accepted if it is one of the
  best networks. Its own mapping ran as a rollout, so that its fitness is known and no member is measured for it; where
  that did not run, it takes the slot of one child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from deap import base
from numpy.typing import NDArray

from policies.network import NetworkConfig
from population.chromosomes import Chromosomes, of_unit_spread
from population.config import Decisions, EvolutionConfig
from population.genome import Boltzmann, Child, Individual, Network, members_from_arrays, members_to_arrays
from population.known import digest
from population.moves import Moves
from population.operators import Operators, varied
from population.population import Floats, Migrant, Population, Results
from population.variation import cross_network, mutate_network, step_along

PARENTS = 20
"""Networks, and chromosomes, that may have children."""
MIGRATION = 2
"""Generations from one migration to the next."""
CANDIDATES = 4
"""Children of chromosomes, for each that is measured, if a critic chooses."""
TRIES = 20
"""Times that children are made until enough are new."""


class Plus(Population):
    """See the module.

    Attributes:
        networks: the best networks, best first.
        chromosomes: the best mappings that ran, as chromosomes anchored on them, best first.
        readings: int16 [K, N, H], the mappings of the generation's chromosomes; None before they are read.
    """

    def __init__(
        self,
        config: EvolutionConfig,
        decisions: Decisions,
        actor: NetworkConfig | None,
        operators: Operators | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(config, decisions, actor, operators, device)
        self.networks: list[Individual] = []
        self.chromosomes: list[Individual] = []
        self.readings: NDArray[np.int16] | None = None
        self._first: list[Network] = []
        self._make = Chromosomes(decisions)
        self._moves = decisions.moves or Moves(decisions.num_choices, decisions.live)

    def begin(self, members: Sequence[Individual]) -> None:
        """The first generation."""
        super().begin(members)
        self._first = [m.genome for m in members if isinstance(m.genome, Network)]

    def read(self, chosen: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int16]:
        """Mappings int16 [B, N, H] of chromosomes; those that were read when they were made."""
        if self.readings is None:
            return super().read(chosen, rng)
        return self.readings[chosen - (len(self) - len(self.readings))]

    def standings(self) -> list[Individual]:
        """All measured individuals that may have children, best first, then oldest first."""
        return sorted([*self.networks, *self.chromosomes], key=lambda m: (-m.score, m.id))

    def improves(self, reward: float, top: float) -> bool:
        """Only by more: the best so far stays."""
        return reward > top

    @property
    def alive(self) -> int:
        """Migrants among the networks that may have children."""
        return sum(m.origin == "learner" for m in self.networks)

    def _breed(self, results: Results, rng: np.random.Generator) -> None:
        self._keep(results)
        networks = self.config.population - self.config.boltzmann_count
        self.members, self.readings = [], None
        for child in self._networks(networks, results, rng):
            self._adopt(child)
        self._chromosomes(self.config.boltzmann_count, results, rng)

    # ---- line 8: who may have children

    def _keep(self, results: Results) -> None:
        """The best networks, and the best of everybody's mappings; of equal fitness only the newest mapping."""
        if results.ran is None or len(results.ran) != len(results.measured):
            raise ValueError("ran: expected what ran for every member, received none or fewer")
        networks = [m for m in results.measured if isinstance(m.genome, Network) and np.isfinite(m.score)]
        networks += self._migrant(results.migrant)
        # Stable: of equal networks the older ones stay.
        self.networks = sorted([*self.networks, *networks], key=lambda m: -m.score)[:PARENTS]
        kept = {id(m) for m in self.networks}
        self.accepted += sum(m.origin == "learner" and id(m) in kept for m in networks)
        arrivals = [self._anchored(m, row) for m, row in zip(results.measured, results.ran, strict=True)]
        for immigrant in results.immigrants:
            seeded = Individual(self._make.anchored(immigrant.ran), self._next_id, (), "seeded")
            arrivals.append(seeded.with_fitness(immigrant.fitness))
            self._next_id += 1
        self.known.add(results.ran)
        self.known.add(immigrant.ran for immigrant in results.immigrants)
        self.chromosomes = survivors([*self.chromosomes, *arrivals], PARENTS)

    def _migrant(self, migrant: Migrant | None) -> list[Individual]:
        """The learner as a network, if it is its turn, its fitness is known, and it is none of the networks yet."""
        if migrant is None or migrant.fitness is None or self.generation % MIGRATION != 0:
            return []
        genomes = [m.genome for m in self.networks]
        if any(isinstance(g, Network) and np.array_equal(g.weights, migrant.weights) for g in genomes):
            return []
        self.offered += 1
        self._next_id += 1
        joined = Individual(Network(migrant.weights.copy()), self._next_id - 1, (), "learner")
        return [joined.with_fitness(migrant.fitness)]

    def _anchored(self, individual: Individual, ran: NDArray[np.int16]) -> Individual:
        """What ran of an individual as a chromosome, with its own temperatures if it was one."""
        genome = individual.genome
        if isinstance(genome, Boltzmann):
            return replace(individual, genome=self._make.anchored(ran, genome.temperature))
        return replace(individual, genome=self._make.anchored(ran), origin="seeded")

    # ---- lines 10 to 14, 18 to 20 and 32: networks

    def _networks(self, slots: int, results: Results, rng: np.random.Generator) -> list[Child]:
        """Children of the best networks; every few generations one is the learner, if it was not measured."""
        children, migrant = [], results.migrant
        if slots and migrant is not None and migrant.fitness is None and self.generation % MIGRATION == 0:
            children.append(Child(Network(migrant.weights.copy()), (), "learner"))
            self.offered += 1
        if not self.networks:
            return children + [
                Child(self.policies.draw_network(rng), (), "random") for _ in range(slots - len(children))
            ]
        toolbox = self._toolbox(rng)
        return children + [self._network(toolbox, rng) for _ in range(slots - len(children))]

    def _toolbox(self, rng: np.random.Generator) -> Any:
        """DEAP's toolbox with the operators of networks; every draw comes from `rng`."""
        toolbox: Any = base.Toolbox()
        given = self.operators
        toolbox.register("select", given.selected, self.networks, size=self.config.tournament, rng=rng)
        if given.mate is not None:
            toolbox.register("mate", varied, given.mate, rng=rng)
        else:
            toolbox.register("mate", cross_network, weight_format=self.weight_format, rng=rng)
        if given.mutate is not None:
            toolbox.register("mutate", varied, given.mutate, rng=rng)
        else:
            toolbox.register("mutate", self._mutated, rng=rng)
        return toolbox

    def _network(self, toolbox: Any, rng: np.random.Generator) -> Child:
        """A winner, with `crossover_prob` crossed with another, mutated."""
        (winner,) = toolbox.select(1)
        child = Child(winner.genome, (winner.id,), "mutation")
        if rng.random() < self.config.crossover_prob:
            (other,) = toolbox.select(1)
            child = Child(toolbox.mate(winner.genome, other.genome), (winner.id, other.id), "crossover")
        return replace(child, genome=toolbox.mutate(child.genome))

    def _mutated(self, network: Network, rng: np.random.Generator) -> Network:
        """A step along a difference of two networks of the first generation, and noise on some weights."""
        if len(self._first) > 1:
            a, b = rng.choice(len(self._first), 2, replace=False)
            network = step_along(network, self._first[a], self._first[b], rng)
        return mutate_network(network, self.weight_format, rng)

    # ---- lines 15 to 20: chromosomes

    def _chromosomes(self, slots: int, results: Results, rng: np.random.Generator) -> None:
        """Children of the best mappings, read as they are made."""
        if not slots:
            return
        if not self.chromosomes:  # nothing has ever run
            for _ in range(slots):
                self._adopt(Child(self.policies.draw("boltzmann", rng), (), "random"))
            return
        scores = self._best_scores()
        wanted = slots * (CANDIDATES if results.judge is not None else 1)
        found: list[tuple[Child, NDArray[np.int16]]] = []
        seen: set[int] = set()
        for attempt in range(TRIES):
            parents = self.operators.selected(
                self.chromosomes, wanted - len(found), self.config.tournament, rng
            )
            children = [self._chromosome(parent, scores, rng) for parent in parents]
            read = self.policies.read([c.genome for c in children if isinstance(c.genome, Boltzmann)], rng)
            last = attempt == TRIES - 1 or not self._knows_what_runs
            for child, mapping in zip(children, read, strict=True):
                if last or (mapping not in self.known and digest(mapping) not in seen):
                    seen.add(digest(mapping))
                    found.append((child, mapping))
            if len(found) >= wanted:
                break
        chosen = self._chosen(found, slots, results)
        for child, _ in chosen:
            self._adopt(child)
        self.readings = np.stack([mapping for _, mapping in chosen])
        self.known.add(self.readings)

    @property
    def _knows_what_runs(self) -> bool:
        ranked = self.decisions.ranked
        return ranked is not None and ranked.chromosomes

    def _best_scores(self) -> Floats | None:
        """Scores float32 [T, L] of the best network, of unit spread; None where no placer reads chromosomes."""
        if not self._knows_what_runs or not self.networks:
            return None
        return of_unit_spread(self.policies.scores(self.networks[:1])[0][0])

    def _chromosome(self, parent: Individual, scores: Floats | None, rng: np.random.Generator) -> Child:
        assert isinstance(parent.genome, Boltzmann)
        if self.operators.mutate is not None:
            genome = varied(self.operators.mutate, parent.genome, rng=rng)
        else:
            genome = self._make.child(parent.genome, scores, self._moves, rng)
        return Child(genome, (parent.id,), "mutation")

    @staticmethod
    def _chosen(
        found: list[tuple[Child, NDArray[np.int16]]], slots: int, results: Results
    ) -> list[tuple[Child, NDArray[np.int16]]]:
        """Those that the critic likes best, or the first."""
        if results.judge is None or len(found) <= slots:
            return found[:slots]
        value = results.judge(np.stack([mapping for _, mapping in found]))
        return [found[k] for k in np.argsort(value, kind="stable")[:slots]]

    def state_dict(self) -> dict[str, Any]:
        """Members, parents, readings, history, counters."""
        return {
            **super().state_dict(),
            "networks": members_to_arrays(self.networks),
            "chromosomes": members_to_arrays(self.chromosomes),
            "first": [network.weights for network in self._first],
            "readings": self.readings,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises ValueError where a genome does not fit."""
        super().load_state_dict(state)
        self.networks = members_from_arrays(state["networks"])
        self.chromosomes = members_from_arrays(state["chromosomes"])
        self._first = [Network(np.array(weights)) for weights in state["first"]]
        self.readings = state["readings"]
        for member in [*self.networks, *self.chromosomes]:
            self.policies.check(member.genome)


def survivors(pool: Sequence[Individual], room: int) -> list[Individual]:
    """The best `room` of a pool, best first; of equal fitness only the newest (greatest id)."""
    found: dict[float, Individual] = {}
    for individual in sorted(pool, key=lambda m: (-m.score, -m.id)):
        if np.isfinite(individual.score):
            found.setdefault(individual.score, individual)
    return list(found.values())[:room]
