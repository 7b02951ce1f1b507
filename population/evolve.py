"""The mixed population: proposes probabilities, takes fitness, makes the next generation.

Source: EGRL, Algorithm 2 lines 1-20 and 32, Table 2.

Deviations: how a slot is filled, see `population.offspring`; the learner's place, see `population.migration`.
Elites (of any encoding) are carried over as the same individuals: never mutated, never replaced by the
learner. They are measured again with everyone else, and the last measurement counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Observation
from policies.boltzmann import boltzmann
from policies.layout import Layout
from population.config import Decisions, EvolutionConfig
from population.genome import Boltzmann, Encoding, Genome, Gnn, Individual, Origin, random_boltzmann
from population.members import members_from_arrays, members_to_arrays
from population.migration import weakest_gnn
from population.offspring import Breeder
from population.selection import ranked

if TYPE_CHECKING:
    from policies.graph_unet import GraphUNetConfig
    from policies.stacked import StackedActor

__all__ = ["Decisions", "EvolutionConfig", "Population"]

Floats = NDArray[np.float32]


class Population:
    """Members of two encodings. `members` lists the elites first, then GNNs, then chromosomes."""

    def __init__(
        self,
        config: EvolutionConfig,
        decisions: Decisions,
        actor: GraphUNetConfig | None,
        members: Sequence[Individual],
    ) -> None:
        """Use `create` or `load_state_dict`. `actor` may be None where there are no GNNs."""
        self.config, self.decisions, self.actor = config, decisions, actor
        self.members = list(members)
        self.elites = 0
        self.generation = 0
        self._next_id = 1 + max((m.id for m in members), default=-1)

    @staticmethod
    def create(
        rng: np.random.Generator,
        config: EvolutionConfig,
        decisions: Decisions,
        actor: GraphUNetConfig | None = None,
        start: Sequence[Genome] = (),
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
        population = Population(config, decisions, actor, ())
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
        return population

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def stacked(self) -> StackedActor:
        """Evaluates all GNN members at once. Imports torch."""
        from policies.stacked import StackedActor

        if self.actor is None:
            raise ValueError("actor: expected a GraphUNetConfig, received None")
        d = self.decisions
        return StackedActor(self.actor, d.features, d.num_choices.shape[1], d.choices)

    @property
    def layout(self) -> Layout:
        """Where each tensor lies in a GNN's weight vector."""
        return self.stacked.layout

    def probabilities(self, observation: Observation, chosen: NDArray[np.int64] | None = None) -> Floats:
        """Probabilities float32 [M, N, H, C] of the members at positions `chosen` (default: all)."""
        members = self.members if chosen is None else [self.members[i] for i in chosen]
        return self._probabilities(members, observation)

    def ranking(self) -> NDArray[np.int64]:
        """Positions in `members`, best last measured fitness first, unmeasured ones last and by age."""
        position = {m.id: i for i, m in enumerate(self.members)}
        return np.array([position[m.id] for m in ranked(self.members)], dtype=np.int64)

    def evolve(
        self,
        fitness: NDArray[np.floating[Any]],
        learner_weights: Floats | None,
        rng: np.random.Generator,
        observation: Observation | None = None,
    ) -> dict[str, float]:
        """Take the members' fitness [M] (maximised; non-finite never wins) and make the next generation.

        `observation` is where a GNN's posterior is taken for seeding; without it nothing is seeded.
        Returns statistics of what was measured and what was done. Raises ValueError where a shape differs.
        """
        if np.shape(fitness) != (len(self),):
            raise ValueError(f"fitness: expected shape [{len(self)}], received {list(np.shape(fitness))}")
        if learner_weights is not None:
            self._check(Gnn(learner_weights))
        measured = [m.measured(float(f)) for m, f in zip(self.members, fitness, strict=True)]
        order = ranked(measured)
        scores = {m.id: m.score for m in measured}
        elites = order[: self.config.elites]
        self.members, self.elites = list(elites), len(elites)
        self.generation += 1
        breeder = Breeder(self.config, self.decisions, self._layout_or_none(), rng)
        done = dict.fromkeys(("crossovers", "seeded", "mutations"), 0)
        for encoding in ("gnn", "boltzmann"):
            peers = [m for m in measured if m.encoding == encoding]
            kept = sum(e.encoding == encoding for e in elites)
            posterior = None if observation is None else partial(self._posterior, observation)
            for _ in range(len(peers) - kept):
                child = breeder.child(peers, elites, posterior)
                self._append(child.genome, child.origin, child.parents)
                done["crossovers"] += child.origin == "crossover"
                done["seeded"] += child.origin == "seeded"
                done["mutations"] += child.mutated
        migrated = self._migrate(learner_weights, scores)
        finite = [s for s in scores.values() if np.isfinite(s)]
        return {
            "best_fitness": order[0].score,
            "mean_fitness": float(np.mean(finite)) if finite else float("nan"),
            "champion": float(order[0].id),
            "migrated": float(migrated),
            **{name: float(count) for name, count in done.items()},
        }

    def state_dict(self) -> dict[str, Any]:
        """The members as arrays (GNNs and chromosomes stacked apart, in order), history, counters."""
        return {
            "members": members_to_arrays(self.members),
            "generation": self.generation,
            "elites": self.elites,
            "next_id": self._next_id,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises ValueError where a genome does not fit."""
        members = members_from_arrays(state["members"])
        for member in members:
            self._check(member.genome)
        self.members = members
        self.generation, self.elites = int(state["generation"]), int(state["elites"])
        self._next_id = int(state["next_id"])

    def _layout_or_none(self) -> Layout | None:
        return None if self.actor is None else self.layout

    def _posterior(self, observation: Observation, member: Individual) -> Floats:
        """Probabilities [N, H, C] of one member."""
        posterior: Floats = self._probabilities([member], observation)[0]
        return posterior

    def _migrate(self, learner_weights: Floats | None, scores: dict[int, float]) -> bool:
        """Put the learner into the weakest slot that it may take."""
        slot = weakest_gnn(self.members, self.elites, scores)
        if learner_weights is None or slot is None:
            return False
        self._append(Gnn(learner_weights.copy()), "learner")
        self.members[slot] = self.members.pop()
        return True

    def _append(self, genome: Genome, origin: Origin, parents: tuple[int, ...] = ()) -> None:
        self.members.append(Individual(genome, self._next_id, parents, origin))
        self._next_id += 1

    def _random(self, encoding: Encoding, rng: np.random.Generator) -> Genome:
        if encoding == "boltzmann":
            return random_boltzmann(self.decisions.num_choices, self.decisions.choices, rng)
        from policies.graph_unet import draw_weights

        assert self.actor is not None
        return Gnn(draw_weights(self.layout, self.actor, rng))

    def _check(self, genome: Genome) -> None:
        """Raises ValueError unless the genome fits the decisions or the actor."""
        if isinstance(genome, Gnn):
            self.layout.check(genome.weights, "genome weights")
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
