"""The mixed population: proposes probabilities, takes fitness, makes the next generation.

Source: EGRL, Algorithm 2 lines 1-20 and 32, Table 2.

Deviations: "islands" survival (the default), see `population.local_search`. With "generational" survival: how a slot is
filled, see `population.offspring`; the learner's place, see `population.selection`. Elites (of any encoding) are
carried over as the same individuals: never mutated, never replaced by the learner; they are measured again with
everyone else, and the last measurement counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Observation
from policies.weight_vector import WeightFormat
from population.cma import MOST_WEIGHTS, Cma
from population.config import Decisions, EvolutionConfig
from population.genome import (
    Child,
    Genome,
    Individual,
    Network,
    Origin,
    members_from_arrays,
    members_to_arrays,
)
from population.islands import Islands
from population.known import Known
from population.local_search import Immigrant, LocalSearch
from population.offspring import Breeder
from population.policies import Policies
from population.selection import rank, weakest_network
from population.walk import Walk

if TYPE_CHECKING:
    from policies.network import NetworkConfig


from population.genome import Boltzmann, Encoding


def first_members(
    rng: np.random.Generator,
    config: EvolutionConfig,
    policies: Policies,
    local: LocalSearch,
    start: Sequence[Genome],
) -> list[Individual]:
    """The `start` genomes in slots of their encoding, the rest drawn at random; networks come before chromosomes.

    With "islands" survival, random chromosomes are children of the given ones where there are any.

    Raises ValueError where `start` has more genomes of an encoding than there are slots, or one that does not fit.
    """
    given: dict[Encoding, list[Genome]] = {
        "network": [g for g in start if isinstance(g, Network)],
        "boltzmann": [g for g in start if isinstance(g, Boltzmann)],
    }
    # On islands the encodings' shares may change, so that more networks may be given than there will be.
    chromosomes = config.boltzmann_count
    if config.survival == "islands":
        chromosomes = min(chromosomes, max(0, config.population - len(given["network"])))
    slots: dict[Encoding, int] = {"network": config.population - chromosomes, "boltzmann": chromosomes}
    members: list[Individual] = []
    for encoding, count in slots.items():
        if len(given[encoding]) > count:
            raise ValueError(
                f"start: expected at most {count} {encoding} genomes, received {len(given[encoding])}"
            )
        for genome in given[encoding]:
            policies.check(genome)
            members.append(Individual(genome, len(members), (), "start"))
        for _ in range(count - len(given[encoding])):
            members.append(Individual(policies.draw(encoding, rng), len(members), (), "random"))
    if config.survival == "islands" and given["boltzmann"]:
        _surround(members, local, rng)
    return members


def _surround(members: list[Individual], local: LocalSearch, rng: np.random.Generator) -> None:
    """Replace the random chromosomes by children of the given ones, in place."""
    # Not measured yet: all parents count alike.
    parents = [m.with_fitness(0.0) for m in members if m.origin == "start" and m.encoding == "boltzmann"]
    for place, member in enumerate(members):
        if member.encoding == "boltzmann" and member.origin == "random":
            child = local.child(parents, rng)
            members[place] = Individual(child.genome, member.id, child.parents, child.origin)


__all__ = ["Decisions", "EvolutionConfig", "Immigrant", "Population"]

Floats = NDArray[np.float32]

DONE = ("crossovers", "seeded", "mutations", "migrated")
"""What is counted of each generation: how children were made, and whether the learner joined."""


class Population:
    """Members of two encodings.

    `members` are to be measured next, networks before chromosomes; with "generational" survival the first `elites`
    of them come first. With "islands", `islands` and `walk` are what they come from, `island_of` the number of the
    island that each member's mapping will join, and `best_network` the best one measured so far;
    `known` are the mappings that ran.
    """

    def __init__(
        self,
        config: EvolutionConfig,
        decisions: Decisions,
        actor: NetworkConfig | None,
        members: Sequence[Individual],
        device: str = "cpu",
    ) -> None:
        """Use `create` or `load_state_dict`.

        `actor` may be None where there are no networks; `device` is where torch evaluates them.
        """
        self.config, self.decisions = config, decisions
        self.members = list(members)
        self.islands = Islands(config.island_size, config.islands, config.exploit)
        self._policies = Policies(decisions, actor, device)
        ranking = decisions.places is not None and actor is not None
        few = ranking and self._policies.weight_format.size <= MOST_WEIGHTS
        self.walk: Walk | Cma = Cma(config.cma) if few else Walk(config.walk)
        self._local = LocalSearch(config, decisions)
        self.known = Known()
        self.island_of = [0] * len(self.members)
        self.best_network: Individual | None = None
        self.elites = 0
        self.generation = 0
        self._next_id = 1 + max((m.id for m in members), default=-1)

    @staticmethod
    def create(
        rng: np.random.Generator,
        config: EvolutionConfig,
        decisions: Decisions,
        actor: NetworkConfig | None = None,
        start: Sequence[Genome] = (),
        device: str = "cpu",
        rules: Sequence[Floats] = (),
    ) -> Population:
        """A first generation: the `start` genomes in slots of their encoding, the rest drawn at random.

        On islands, networks that begin with the linear `rules` [2 H F + 1] come first, as many as there is room for.

        Raises ValueError where networks are asked for without `actor` or `start` has more genomes of an encoding
        than there are slots.
        """
        if config.boltzmann_count < config.population and actor is None:
            raise ValueError("actor: expected a NetworkConfig for the network members, received None")
        population = Population(config, decisions, actor, (), device)
        room = config.population - len(start) if config.survival == "islands" else 0
        start = [*start, *(population._policies.of_rule(rule, rng) for rule in rules[:room])]
        population.members = first_members(rng, config, population._policies, population._local, start)
        population.island_of = [0] * len(population)
        population._next_id = len(population)
        return population

    def __len__(self) -> int:
        return len(self.members)

    @property
    def weight_format(self) -> WeightFormat:
        """Where each tensor lies in a network's weight vector."""
        return self._policies.weight_format

    def probabilities(self, observation: Observation, chosen: NDArray[np.int64] | None = None) -> Floats:
        """Probabilities float32 [M, N, H, C] of the members at positions `chosen` (default: all)."""
        members = self.members if chosen is None else [self.members[i] for i in chosen]
        return self._policies.probabilities(members, observation)

    def scores(
        self, observation: Observation, chosen: NDArray[np.int64]
    ) -> tuple[Floats, NDArray[np.float64]]:
        """Scores float32 [M, T, L] of the members at positions `chosen`, ranking networks, and the shares kept free."""
        return self._policies.scores([self.members[i] for i in chosen], observation)

    def standings(self) -> list[Individual]:
        """All measured individuals that may still have children, best first, then oldest first."""
        measured = [m for m in self.members if m.fitness.valid]
        best = [] if self.best_network is None else [self.best_network]
        everyone = {(m.id, m.encoding): m for m in [*best, *self.islands.individuals(), *measured]}
        return rank(list(everyone.values()))

    def evolve(
        self,
        fitness: NDArray[np.floating[Any]],
        learner_weights: Floats | None,
        rng: np.random.Generator,
        *,
        observation: Observation | None = None,
        ran: NDArray[np.int16] | None = None,
        immigrants: Sequence[Immigrant] = (),
    ) -> dict[str, float]:
        """Take the members' fitness [M] (maximised; non-finite never wins) and make the next generation.

        Args:
            fitness: of each member.
            learner_weights: float32 [P] of the learner that joins, or None.
            rng: of every draw.
            observation: where a network's posterior is taken for seeding ("generational"; without it nothing is).
            ran: int16 [M, N, H], what ran for each member ("islands" needs it).
            immigrants: mappings that ran beside the population ("islands" seeds chromosomes from them).

        Returns statistics of what was measured and what was done. Raises ValueError where a shape differs.
        """
        if np.shape(fitness) != (len(self),):
            raise ValueError(f"fitness: expected shape [{len(self)}], received {list(np.shape(fitness))}")
        if learner_weights is not None:
            self._policies.check(Network(learner_weights))
        measured = [m.with_fitness(float(f)) for m, f in zip(self.members, fitness, strict=True)]
        self.generation += 1
        if self.config.survival == "generational":
            done = self._replace_generation(measured, learner_weights, rng, observation)
        else:
            if ran is None or ran.shape != (len(self), *self.decisions.num_choices.shape):
                raise ValueError(
                    f"ran: expected [{len(self)}, N, H], received {None if ran is None else ran.shape}"
                )
            self.known.add(ran)
            self.known.add(immigrant.ran for immigrant in immigrants)
            self._record(measured, ran, immigrants)
            done = self._breed(measured, learner_weights, rng)
        scores = [m.score for m in measured if np.isfinite(m.score)]
        return {
            "best_fitness": max(scores, default=float("nan")),
            "mean_fitness": float(np.mean(scores)) if scores else float("nan"),
            **{name: float(count) for name, count in done.items()},
        }

    def _replace_generation(
        self,
        measured: Sequence[Individual],
        learner_weights: Floats | None,
        rng: np.random.Generator,
        observation: Observation | None,
    ) -> dict[str, int]:
        """Algorithm 2: elites stay, every other slot gets a child, the learner replaces the weakest."""
        elites = rank(measured)[: self.config.elites]
        scores = {m.id: m.score for m in measured}
        breeder = Breeder(self.config, self.decisions, self._policies.weight_format_or_none, rng)
        posterior = None if observation is None else partial(self._policies.posterior, observation)
        self.members, self.elites = list(elites), len(elites)
        done = dict.fromkeys(DONE, 0)
        # networks before chromosomes, and of each encoding as many as before: elites fill slots of their own encoding.
        for encoding in ("network", "boltzmann"):
            peers = [m for m in measured if m.encoding == encoding]
            kept = sum(e.encoding == encoding for e in elites)
            for child in breeder.children(len(peers) - kept, peers, elites, posterior):
                self._adopt(child, done)
        done["migrated"] = self._migrate(learner_weights, scores)
        return done

    def _record(
        self,
        measured: Sequence[Individual],
        ran: NDArray[np.int16],
        immigrants: Sequence[Immigrant],
    ) -> None:
        """Move the walk by what was measured, and add what ran to the islands."""
        networks = [m for m in measured if m.encoding == "network"]
        for network in networks:
            if np.isfinite(network.score) and (
                self.best_network is None or network.score > self.best_network.score
            ):
                self.best_network = network
        walk_begins = bool(networks) and self.walk.update(networks)
        if not self.config.boltzmann_count:
            return
        # A new walk's mappings, those of the scouts that it came from included, have an island of their own.
        if walk_begins:
            self.islands.open()
        scouting = walk_begins or self.walk.centre is None
        island_of = [
            self.islands.newest if m.encoding == "network" and scouting else island
            for m, island in zip(measured, self.island_of, strict=True)
        ]
        anchored = [self._local.anchored(m, row) for m, row in zip(measured, ran, strict=True)]
        self.islands.add(anchored, island_of)
        for immigrant in immigrants:
            seeded = Individual(self._local.anchor(immigrant.ran), self._next_id, (), "seeded")
            # The first generation's immigrants belong to the start, and with it to the first island.
            island = 0 if self.generation == 1 else self.islands.newest
            self.islands.add([seeded.with_fitness(immigrant.fitness)], [island])
            self._next_id += 1

    def _breed(
        self,
        measured: Sequence[Individual],
        learner_weights: Floats | None,
        rng: np.random.Generator,
    ) -> dict[str, int]:
        """Replace every member by a new child: networks of the walk, then chromosomes of the islands."""
        unmeasured = [m for m in measured if m.encoding == "boltzmann"]
        slots = self.config.population - self.config.boltzmann_count
        done = dict.fromkeys(DONE, 0)
        self.members, self.island_of = [], []
        if slots:
            for child in self.walk.members(
                slots, learner_weights, lambda: self._policies.draw_network(rng), rng
            ):
                self._adopt(child, done)
                self.island_of.append(self.islands.newest)
            done["migrated"] = sum(m.origin == "learner" for m in self.members)
        for _ in range(self.config.population - slots):
            island = self.islands.draw_island(rng)
            parents = unmeasured if island is None else island.pool
            # Where nothing has ever run, the chromosomes themselves are the parents; without any, a random one.
            self._adopt(self._local.child(parents, rng, self.known) if parents else self._fresh(rng), done)
            self.island_of.append(self.islands.newest if island is None else island.number)
        return done

    def state_dict(self) -> dict[str, Any]:
        """The members as arrays (networks and chromosomes stacked apart, in order), history, counters."""
        return {
            "members": members_to_arrays(self.members),
            "islands": self.islands.state_dict(),
            "walk": self.walk.state_dict(),
            "homes": np.array(self.island_of, dtype=np.int64),
            "best_network": members_to_arrays([] if self.best_network is None else [self.best_network]),
            "known": self.known.state_dict(),
            "generation": self.generation,
            "elites": self.elites,
            "next_id": self._next_id,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises ValueError where a genome does not fit."""
        members, best = members_from_arrays(state["members"]), members_from_arrays(state["best_network"])
        self.islands.load_state_dict(state["islands"])
        self.walk.load_state_dict(state["walk"])
        self.known.load_state_dict(state["known"])
        for member in [*members, *best, *self.islands.individuals()]:
            self._policies.check(member.genome)
        self.members, self.best_network = members, best[0] if best else None
        self.island_of = [int(island) for island in state["homes"]]
        self.generation, self.elites = int(state["generation"]), int(state["elites"])
        self._next_id = int(state["next_id"])

    def _fresh(self, rng: np.random.Generator) -> Child:
        """A random chromosome."""
        return Child(self._policies.draw("boltzmann", rng), (), "random", mutated=False)

    def _migrate(self, learner_weights: Floats | None, scores: dict[int, float]) -> int:
        """Put the learner into the weakest slot that it may take."""
        slot = weakest_network(self.members, self.elites, scores)
        if learner_weights is None or slot is None:
            return 0
        self._append(Network(learner_weights.copy()), "learner")
        self.members[slot] = self.members.pop()
        return 1

    def _append(self, genome: Genome, origin: Origin, parents: tuple[int, ...] = ()) -> None:
        self.members.append(Individual(genome, self._next_id, parents, origin))
        self._next_id += 1

    def _adopt(self, child: Child, done: dict[str, int]) -> None:
        """Append a child and count how it was made."""
        self._append(child.genome, child.origin, child.parents)
        done["crossovers"] += child.origin == "crossover"
        done["seeded"] += child.origin == "seeded"
        done["mutations"] += child.mutated
