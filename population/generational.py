"""Evolution of a mixed population by generations, as in the paper.

Source: EGRL, Algorithm 2 lines 8-20 and 32, section 3 and Table 2. Tournament of 3, elite share 0.1 and at least 2:
values of a published dump of the authors' code; the paper gives none. The operators are in `population.variation`.

Deviations:
- As printed, lines 11-17 are never reached, because the tournament already fills S. Here each of the k - e
  open slots is, with `crossover_prob`, a cross between an elite and a tournament winner, else a tournament
  winner as it is; then it is mutated with `mutation_prob`.
- Every slot has an encoding, and the shares of the encodings never change: the tournament for a slot is held
  among members of its encoding. If the elite is a network and the slot a chromosome, the chromosome's prior
  becomes the network's posterior (lines 16-17). If the elite is a chromosome and the slot a network, which cannot
  inherit from it, a second tournament winner takes the elite's place.
- Elites (of any encoding) are carried over as the same individuals: never mutated, never replaced by the learner; they
  are measured again with everyone else, and the last measurement counts. A winner that is not mutated is a new
  individual.
- Line 32 (and appendix C): only a network that is no elite is replaced, so that the shares of the encodings stay. The
  generation that the learner enters is not measured yet: a child counts as fit as its fittest parent was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from deap import base

from population.genome import Child, Encoding, Individual, Network, boltzmann_from_probabilities
from population.operators import varied
from population.population import Population, Results, rank
from population.variation import cross_boltzmann, cross_network, mutate_boltzmann, mutate_network

ENCODINGS: tuple[Encoding, ...] = ("network", "boltzmann")


class Generational(Population):
    """The members; the first `elites` are those of the generation before."""

    elites = 0
    _counted = 0  # ids of migrants that were counted are smaller

    def _breed(self, results: Results, rng: np.random.Generator) -> None:
        """Lines 8 to 20 and 32: elites stay, every other slot gets a child, the learner replaces the weakest."""
        ranked = rank(results.measured)  # line 8
        self._count_migrants(ranked)
        elites = ranked[: self.config.elites]  # line 9
        self.members, self.elites = list(elites), len(elites)
        toolbox = self._toolbox(rng)
        # Of each encoding as many as before: elites fill slots of their own encoding.
        for encoding in ENCODINGS:
            peers = [m for m in results.measured if m.encoding == encoding]
            count = len(peers) - sum(e.encoding == encoding for e in elites)
            for winner in self._winners(toolbox, peers, count):  # line 10
                child = self._crossed(toolbox, winner, peers, elites, results, rng)  # lines 11 to 17
                self._adopt(self._mutated(toolbox, child, winner, rng))  # lines 18 to 20
        self._migrate(results)  # line 32

    def _toolbox(self, rng: np.random.Generator) -> Any:
        """DEAP's toolbox with the operators of one generation; every draw comes from `rng`."""
        settings, decisions, operators = self.config, self.decisions, self.operators
        toolbox: Any = base.Toolbox()
        toolbox.register("select", operators.selected, size=self.config.tournament, rng=rng)
        toolbox.register("mate_boltzmann", cross_boltzmann, rng=rng)
        toolbox.register(
            "mutate_boltzmann",
            mutate_boltzmann,
            num_choices=decisions.num_choices,
            live=decisions.live,
            flips=settings.flips,
            rng=rng,
        )
        weight_format = self.policies.weight_format_or_none
        if weight_format is not None:
            toolbox.register("mate_network", cross_network, weight_format=weight_format, rng=rng)
            toolbox.register("mutate_network", mutate_network, weight_format=weight_format, rng=rng)
        for encoding in ENCODINGS:
            if operators.mate is not None:
                toolbox.register(f"mate_{encoding}", varied, operators.mate, rng=rng)
            if operators.mutate is not None:
                toolbox.register(f"mutate_{encoding}", varied, operators.mutate, rng=rng)
        return toolbox

    def _winners(self, toolbox: Any, peers: Sequence[Individual], count: int) -> Iterator[Individual]:
        """The parents of the open slots: a tournament each.

        A selection of the user's chooses all of them at once: some of DEAP's spread what they choose.
        """
        if self.operators.select is not None:
            yield from toolbox.select(peers, count)
        else:
            yield from (toolbox.select(peers, 1)[0] for _ in range(count))

    def _crossed(
        self,
        toolbox: Any,
        winner: Individual,
        peers: Sequence[Individual],
        elites: Sequence[Individual],
        results: Results,
        rng: np.random.Generator,
    ) -> Child:
        """The winner, or with `crossover_prob` its cross with an elite."""
        unchanged = Child(winner.genome, (winner.id,), winner.origin)
        if rng.random() >= self.config.crossover_prob:
            return unchanged
        elite = elites[int(rng.integers(len(elites)))]  # line 12
        if winner.encoding == "boltzmann" and elite.encoding == "network":  # lines 15 to 17
            if results.observation is None:
                return unchanged
            posterior = self.policies.probabilities([elite], results.observation)[0]
            genome = boltzmann_from_probabilities(posterior, self.decisions.num_choices)
            return Child(genome, (elite.id,), "seeded")
        first = elite if elite.encoding == winner.encoding else toolbox.select(peers, 1)[0]
        mate = getattr(toolbox, f"mate_{winner.encoding}")  # lines 13 and 14
        return Child(mate(first.genome, winner.genome), (first.id, winner.id), "crossover")

    def _mutated(self, toolbox: Any, child: Child, winner: Individual, rng: np.random.Generator) -> Child:
        """The child, with `mutation_prob` mutated."""
        if rng.random() >= self.config.mutation_prob:  # line 19
            return child
        genome = getattr(toolbox, f"mutate_{winner.encoding}")(child.genome)  # line 20
        origin = "mutation" if child.genome is winner.genome else child.origin
        return Child(genome, child.parents, origin)

    def _migrate(self, results: Results) -> None:
        """Line 32: put the learner into the weakest slot that it may take."""
        slot = weakest_network(self.members, self.elites, {m.id: m.score for m in results.measured})
        if results.migrant is None or slot is None:
            return
        self.offered += 1
        self._adopt(Child(Network(results.migrant.weights.copy()), (), "learner"))
        self.members[slot] = self.members.pop()

    def _count_migrants(self, ranked: Sequence[Individual]) -> None:
        """A migrant is accepted if it is better than the weakest of the other networks."""
        others = [m.score for m in ranked if m.encoding == "network" and m.origin != "learner"]
        fresh = [m for m in ranked if m.origin == "learner" and not m.parents and m.id >= self._counted]
        self.accepted += sum(m.score > min(others, default=-np.inf) for m in fresh)
        self._counted = self._next_id

    def state_dict(self) -> dict[str, Any]:
        """Members, history, counters."""
        return {**super().state_dict(), "elites": self.elites, "counted": self._counted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises ValueError where a genome does not fit."""
        super().load_state_dict(state)
        self.elites, self._counted = int(state["elites"]), int(state["counted"])


def weakest_network(members: Sequence[Individual], elites: int, scores: Mapping[int, float]) -> int | None:
    """Position of the weakest network behind the first `elites` members, or None where there is none.

    `scores` holds the fitness of the last generation by id; the youngest is taken, if several are equal.
    """

    def fitness_of(position: int) -> tuple[float, int]:
        member = members[position]
        known = [scores[p] for p in (member.id, *member.parents) if p in scores]
        return max(known, default=float("-inf")), -member.id

    open_slots = [i for i in range(elites, len(members)) if members[i].encoding == "network"]
    return min(open_slots, key=fitness_of, default=None)
