"""The mixed population: proposes probabilities, takes fitness, makes the next generation.

Source: EGRL, Algorithm 2 lines 1-20 and 32, Table 2.

Deviations: "islands" survival (the default), see `population.steady`. With "generational" survival: how a slot is
filled, see `population.offspring`; the learner's place, see `population.migration`. Elites (of any encoding) are
carried over as the same individuals: never mutated, never replaced by the learner; they are measured again with
everyone else, and the last measurement counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Observation
from policies.boltzmann import boltzmann
from policies.weight_vector import WeightFormat
from population.config import Decisions, EvolutionConfig
from population.genome import Boltzmann, Child, Encoding, Genome, Gnn, Individual, Origin, random_boltzmann
from population.islands import Islands
from population.members import members_from_arrays, members_to_arrays
from population.migration import weakest_gnn
from population.offspring import Breeder
from population.selection import ranked
from population.steady import Guest, LocalSearch
from population.walk import Walk

if TYPE_CHECKING:
    from policies.graph_unet import GraphUNetConfig
    from policies.stacked import StackedActor

__all__ = ["Decisions", "EvolutionConfig", "Guest", "Population"]

Floats = NDArray[np.float32]


class Population:
    """Members of two encodings.

    `members` are to be measured next, GNNs before chromosomes; with "generational" survival the first `elites`
    of them come first. With "islands", `islands` and `walk` are what they come from, `homes` the number of the island
    that each member's mapping will join, and `best_gnn` the best one measured so far. `device` is where torch
    evaluates the GNNs.
    """

    def __init__(
        self,
        config: EvolutionConfig,
        decisions: Decisions,
        actor: GraphUNetConfig | None,
        members: Sequence[Individual],
        device: str = "cpu",
    ) -> None:
        """Use `create` or `load_state_dict`. `actor` may be None where there are no GNNs."""
        self.config, self.decisions, self.actor = config, decisions, actor
        self.members = list(members)
        self.islands = Islands(config.island_size, config.islands, config.exploit)
        self.walk = Walk(config.walk)
        self.homes = [0] * len(self.members)
        self.best_gnn: Individual | None = None
        self.elites = 0
        self.generation = 0
        self.device = device
        self._next_id = 1 + max((m.id for m in members), default=-1)

    @staticmethod
    def create(
        rng: np.random.Generator,
        config: EvolutionConfig,
        decisions: Decisions,
        actor: GraphUNetConfig | None = None,
        start: Sequence[Genome] = (),
        device: str = "cpu",
    ) -> Population:
        """A first generation: the `start` genomes in slots of their encoding, the rest drawn at random.

        Raises ValueError where GNNs are asked for without `actor` or `start` has more genomes of an encoding
        than there are slots.
        """
        chromosomes = config.boltzmann_count
        quota: dict[Encoding, int] = {
            "gnn": config.population - chromosomes,
            "boltzmann": chromosomes,
        }
        if quota["gnn"] and actor is None:
            raise ValueError("actor: expected a GraphUNetConfig for the GNN members, received None")
        given: dict[Encoding, list[Genome]] = {
            "gnn": [g for g in start if isinstance(g, Gnn)],
            "boltzmann": [g for g in start if isinstance(g, Boltzmann)],
        }
        population = Population(config, decisions, actor, (), device)
        for encoding, slots in quota.items():
            if len(given[encoding]) > slots:
                raise ValueError(
                    f"start: expected at most {slots} {encoding} genomes, received {len(given[encoding])}"
                )
            for genome in given[encoding]:
                population._check(genome)
                population._append(genome, "start")
            for _ in range(slots - len(given[encoding])):
                population._append(population._random(encoding, rng), "random")
        population.homes = [0] * len(population)
        if config.survival == "islands" and given["boltzmann"]:
            population._surround(rng)
        return population

    def _surround(self, rng: np.random.Generator) -> None:
        """Let the chromosomes that were drawn at random begin in the neighbourhood of the given ones instead."""
        parents = [m.measured(0.0) for m in self.members if m.origin == "start" and m.encoding == "boltzmann"]
        for place, member in enumerate(self.members):
            if member.encoding == "boltzmann" and member.origin == "random":
                child = self.local.child(parents, rng)
                self.members[place] = Individual(child.genome, member.id, child.parents, child.origin)

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def stacked(self) -> StackedActor:
        """Evaluates all GNN members at once. Imports torch."""
        from policies.stacked import StackedActor

        if self.actor is None:
            raise ValueError("actor: expected a GraphUNetConfig, received None")
        d = self.decisions
        return StackedActor(self.actor, d.features, d.num_choices.shape[1], d.choices, self.device)

    @cached_property
    def local(self) -> LocalSearch:
        """Makes chromosomes with "islands"."""
        return LocalSearch(self.config, self.decisions)

    @property
    def weight_format(self) -> WeightFormat:
        """Where each tensor lies in a GNN's weight vector."""
        return self.stacked.weight_format

    def probabilities(self, observation: Observation, chosen: NDArray[np.int64] | None = None) -> Floats:
        """Probabilities float32 [M, N, H, C] of the members at positions `chosen` (default: all).

        With `readout = "greedy"` a decision's most probable choice (of equal ones the first) has probability 1.
        """
        members = self.members if chosen is None else [self.members[i] for i in chosen]
        probabilities = self._probabilities(members, observation)
        if self.config.readout == "greedy":
            best = probabilities.argmax(axis=-1)[..., None]
            return (best == np.arange(probabilities.shape[-1])).astype(np.float32)
        return probabilities

    def standing(self) -> list[Individual]:
        """Everyone that has been measured and may still have children, best first (of equal ones the older)."""
        measured = [m for m in self.members if m.fitness.valid]
        best = [] if self.best_gnn is None else [self.best_gnn]
        everyone = {(m.id, m.encoding): m for m in [*best, *self.islands.individuals(), *measured]}
        return ranked(list(everyone.values()))

    def evolve(
        self,
        fitness: NDArray[np.floating[Any]],
        learner_weights: Floats | None,
        rng: np.random.Generator,
        *,
        observation: Observation | None = None,
        ran: NDArray[np.int16] | None = None,
        guests: Sequence[Guest] = (),
        ran_fitness: NDArray[np.floating[Any]] | None = None,
    ) -> dict[str, float]:
        """Take the members' fitness [M] (maximised; non-finite never wins) and make the next generation.

        Args:
            fitness: of each member.
            learner_weights: float32 [P] of the learner that joins, or None.
            rng: of every draw.
            observation: where a GNN's posterior is taken for seeding ("generational"; without it nothing is).
            ran: int16 [M, N, H], what ran for each member ("islands" needs it).
            guests: mappings that ran beside the population ("islands" seeds chromosomes from them).
            ran_fitness: fitness [M] of the mappings in `ran` themselves, where it is another than the members'
                (episodes of several steps).

        Returns statistics of what was measured and what was done. Raises ValueError where a shape differs.
        """
        if np.shape(fitness) != (len(self),):
            raise ValueError(f"fitness: expected shape [{len(self)}], received {list(np.shape(fitness))}")
        if learner_weights is not None:
            self._check(Gnn(learner_weights))
        measured = [m.measured(float(f)) for m, f in zip(self.members, fitness, strict=True)]
        self.generation += 1
        if self.config.survival == "generational":
            done = self._generational(measured, learner_weights, rng, observation)
        else:
            if ran is None or ran.shape != (len(self), *self.decisions.num_choices.shape):
                raise ValueError(
                    f"ran: expected [{len(self)}, N, H], received {None if ran is None else ran.shape}"
                )
            own = fitness if ran_fitness is None else ran_fitness
            done = self._settle(measured, learner_weights, rng, ran, np.asarray(own, np.float64), guests)
        scores = [m.score for m in measured if np.isfinite(m.score)]
        return {
            "best_fitness": max(scores, default=float("nan")),
            "mean_fitness": float(np.mean(scores)) if scores else float("nan"),
            **{name: float(count) for name, count in done.items()},
        }

    def _generational(
        self,
        measured: Sequence[Individual],
        learner_weights: Floats | None,
        rng: np.random.Generator,
        observation: Observation | None,
    ) -> dict[str, int]:
        """Algorithm 2: elites stay, every other slot gets a child, the learner replaces the weakest."""
        elites = ranked(measured)[: self.config.elites]
        scores = {m.id: m.score for m in measured}
        self.members, self.elites = list(elites), len(elites)
        breeder = Breeder(self.config, self.decisions, self._weight_format_or_none(), rng)
        done = dict.fromkeys(("crossovers", "seeded", "mutations"), 0)
        for encoding in ("gnn", "boltzmann"):
            peers = [m for m in measured if m.encoding == encoding]
            kept = sum(e.encoding == encoding for e in elites)
            posterior = None if observation is None else partial(self._posterior, observation)
            for _ in range(len(peers) - kept):
                self._adopt(breeder.child(peers, elites, posterior), done)
        done["migrated"] = self._migrate(learner_weights, scores)
        return done

    def _settle(
        self,
        measured: Sequence[Individual],
        learner_weights: Floats | None,
        rng: np.random.Generator,
        ran: NDArray[np.int16],
        ran_fitness: NDArray[np.float64],
        guests: Sequence[Guest],
    ) -> dict[str, int]:
        """Islands and walk: what ran settles on the islands, the walk moves, every member is a new child."""
        gnns = [m for m in measured if m.encoding == "gnn"]
        chromosomes = len(measured) - len(gnns)
        for gnn in gnns:
            if np.isfinite(gnn.score) and (self.best_gnn is None or gnn.score > self.best_gnn.score):
                self.best_gnn = gnn
        begun = bool(gnns) and self.walk.heard(gnns)
        if chromosomes:
            if begun:
                self.islands.open()
            scouting = begun or self.walk.centre is None
            homes = [
                self.islands.newest if m.encoding == "gnn" and scouting else home
                for m, home in zip(measured, self.homes, strict=True)
            ]
            settlers = [
                self.local.settler(m.measured(float(own)), row)
                for m, row, own in zip(measured, ran, ran_fitness, strict=True)
            ]
            self.islands.settle(settlers, homes)
            for guest in guests:
                visitor = Individual(self.local.anchored(guest.ran), self._next_id, (), "seeded")
                at = 0 if self.generation == 1 else self.islands.newest
                self.islands.settle([visitor.measured(guest.fitness)], [at])
                self._next_id += 1
        done = dict.fromkeys(("crossovers", "seeded", "mutations", "migrated"), 0)
        self.members, self.homes = [], []
        if gnns:
            for child in self.walk.members(len(gnns), learner_weights, lambda: self._random_gnn(rng), rng):
                self._adopt(child, done)
                self.homes.append(self.islands.newest)
            done["migrated"] = sum(m.origin == "learner" for m in self.members)
        unmeasured = [m for m in measured if m.encoding == "boltzmann"]
        for _ in range(chromosomes):
            island = self.islands.parents(rng)
            # where nothing has ever run, go on from where we are
            self._adopt(self.local.child(unmeasured if island is None else island.pool, rng), done)
            self.homes.append(self.islands.newest if island is None else island.number)
        return done

    def state_dict(self) -> dict[str, Any]:
        """The members as arrays (GNNs and chromosomes stacked apart, in order), history, counters."""
        return {
            "members": members_to_arrays(self.members),
            "islands": self.islands.state_dict(),
            "walk": self.walk.state_dict(),
            "homes": np.array(self.homes, dtype=np.int64),
            "best_gnn": members_to_arrays([] if self.best_gnn is None else [self.best_gnn]),
            "generation": self.generation,
            "elites": self.elites,
            "next_id": self._next_id,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises ValueError where a genome does not fit."""
        members, best = members_from_arrays(state["members"]), members_from_arrays(state["best_gnn"])
        self.islands.load_state_dict(state["islands"])
        self.walk.load_state_dict(state["walk"])
        for member in [*members, *best, *self.islands.individuals()]:
            self._check(member.genome)
        self.members, self.best_gnn = members, best[0] if best else None
        self.homes = [int(home) for home in state["homes"]]
        self.generation, self.elites = int(state["generation"]), int(state["elites"])
        self._next_id = int(state["next_id"])

    def _weight_format_or_none(self) -> WeightFormat | None:
        return None if self.actor is None else self.weight_format

    def _posterior(self, observation: Observation, member: Individual) -> Floats:
        """Probabilities [N, H, C] of one member."""
        posterior: Floats = self._probabilities([member], observation)[0]
        return posterior

    def _migrate(self, learner_weights: Floats | None, scores: dict[int, float]) -> int:
        """Put the learner into the weakest slot that it may take."""
        slot = weakest_gnn(self.members, self.elites, scores)
        if learner_weights is None or slot is None:
            return 0
        self._append(Gnn(learner_weights.copy()), "learner")
        self.members[slot] = self.members.pop()
        return 1

    def _append(self, genome: Genome, origin: Origin, parents: tuple[int, ...] = ()) -> None:
        self.members.append(Individual(genome, self._next_id, parents, origin))
        self._next_id += 1

    def _random(self, encoding: Encoding, rng: np.random.Generator) -> Genome:
        if encoding == "boltzmann":
            return random_boltzmann(self.decisions.num_choices, self.decisions.choices, rng)
        return self._random_gnn(rng)

    def _random_gnn(self, rng: np.random.Generator) -> Gnn:
        from policies.graph_unet import draw_weights

        assert self.actor is not None
        return Gnn(draw_weights(self.weight_format, self.actor, rng))

    def _adopt(self, child: Child, done: dict[str, int]) -> None:
        """Append a child and count how it was made."""
        self._append(child.genome, child.origin, child.parents)
        done["crossovers"] += child.origin == "crossover"
        done["seeded"] += child.origin == "seeded"
        done["mutations"] += child.mutated

    def _check(self, genome: Genome) -> None:
        """Raises ValueError unless the genome fits the decisions or the actor."""
        if isinstance(genome, Gnn):
            self.weight_format.check(genome.weights, "genome weights")
            return
        size = (*self.decisions.num_choices.shape, self.decisions.choices)
        if genome.prior.shape != size or genome.temperature.shape != size[:2]:
            raise ValueError(
                f"genome: expected prior {list(size)} and temperature {list(size[:2])}, "
                f"received {list(genome.prior.shape)} and {list(genome.temperature.shape)}"
            )

    def _probabilities(self, members: Sequence[Individual], observation: Observation) -> Floats:
        decisions = self.decisions
        shape = (*decisions.num_choices.shape, decisions.choices)
        out = np.zeros((len(members), *shape), dtype=np.float32)
        gnns = [i for i, m in enumerate(members) if isinstance(m.genome, Gnn)]
        others = [i for i, m in enumerate(members) if isinstance(m.genome, Boltzmann)]
        if gnns:
            from policies.graph import prepare

            weights = np.stack([m.genome.weights for m in members if isinstance(m.genome, Gnn)])
            graph = prepare(observation.edge_index, len(observation.x))
            out[gnns] = self.stacked.probabilities(weights, observation.x, graph, decisions.num_choices)
        if others:
            genomes = [m.genome for m in members if isinstance(m.genome, Boltzmann)]
            prior = np.stack([g.prior for g in genomes])
            temperature = np.stack([g.temperature for g in genomes])
            out[others] = boltzmann(prior, temperature, decisions.num_choices)
        return out
