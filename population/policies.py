"""Policies of genomes: their probabilities, random genomes, and a check that a genome fits a problem."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Observation
from policies.boltzmann import boltzmann, legal_choices
from policies.network import NetworkConfig
from policies.ranker import Rankers
from policies.weight_vector import WeightFormat
from population.config import Decisions
from population.genome import Boltzmann, Encoding, Genome, Individual, Network, random_boltzmann

if TYPE_CHECKING:
    from policies.stacked import StackedActor

Floats = NDArray[np.float32]
LINEAR_PART = ("coefficients", "free")
"""Tensors of the rule that a ranking network adds to."""


class Policies:
    """Evaluates and makes genomes for some decisions. torch is imported where there are networks only."""

    def __init__(self, decisions: Decisions, actor: NetworkConfig | None, device: str) -> None:
        """`actor` may be None where there are no networks; `device` is where torch evaluates them."""
        self._decisions, self._actor, self._device = decisions, actor, device

    @cached_property
    def _rankers(self) -> Rankers:
        """Evaluates all networks at once, if a placer reads them."""
        if self._actor is None:
            raise ValueError("actor: expected a NetworkConfig, received None")
        given = self._decisions
        assert given.ranked is not None
        return Rankers(self._actor, given.ranked.names, given.num_choices.shape[1], self._device)

    @cached_property
    def _stacked(self) -> StackedActor:
        """Evaluates all networks at once, if no placer reads them."""
        from policies.stacked import StackedActor

        if self._actor is None:
            raise ValueError("actor: expected a NetworkConfig, received None")
        given = self._decisions
        return StackedActor(
            self._actor, given.features, given.num_choices.shape[1], given.choices, self._device
        )

    @property
    def weight_format(self) -> WeightFormat:
        """Where each tensor lies in a network's weight vector."""
        return self._own.weight_format

    @property
    def _own(self) -> StackedActor | Rankers:
        return self._stacked if self._decisions.ranked is None else self._rankers

    @property
    def weight_format_or_none(self) -> WeightFormat | None:
        """The weight format; None where there are no networks."""
        return None if self._actor is None else self.weight_format

    def draw(self, encoding: Encoding, rng: np.random.Generator) -> Genome:
        """A random genome."""
        if encoding == "boltzmann":
            return random_boltzmann(self._decisions.num_choices, self._decisions.choices, rng)
        return self.draw_network(rng)

    def draw_network(self, rng: np.random.Generator) -> Network:
        """A random network."""
        return Network(self._own.draw(rng))

    def of_rule(self, rule: Floats, rng: np.random.Generator) -> Network:
        """A ranking network that begins with a linear rule."""
        return Network(self._rankers.of_rule(rule, rng))

    @property
    def trunk(self) -> slice:
        """Where the weights of a network lie but for its last layer (and the rule that a ranking one adds to)."""
        segments = [s for s in self.weight_format.segments if s.name not in LINEAR_PART]
        matrices = [s.offset for s in segments if len(s.shape) > 1]
        return slice(segments[0].offset, matrices[-1]) if matrices else slice(0, 0)

    def check(self, genome: Genome) -> None:
        """Raises ValueError unless the genome fits the decisions or the actor."""
        if isinstance(genome, Network):
            self.weight_format.check(genome.weights, "genome weights")
            return
        size = (*self._decisions.num_choices.shape, self._decisions.choices)
        if genome.prior.shape != size or genome.temperature.shape != size[:2]:
            raise ValueError(
                f"genome: expected prior {list(size)} and temperature {list(size[:2])}, "
                f"received {list(genome.prior.shape)} and {list(genome.temperature.shape)}"
            )

    def probabilities(self, members: Sequence[Individual], observation: Observation) -> Floats:
        """Probabilities float32 [M, N, H, C] of some individuals."""
        decisions = self._decisions
        shape = (*decisions.num_choices.shape, decisions.choices)
        out = np.zeros((len(members), *shape), dtype=np.float32)
        networks = [i for i, m in enumerate(members) if isinstance(m.genome, Network)]
        others = [i for i, m in enumerate(members) if isinstance(m.genome, Boltzmann)]
        if networks and decisions.ranked is not None:
            chosen = [members[i] for i in networks]
            out[networks] = decisions.ranked.places.probabilities(
                self.scores(chosen)[0], decisions.num_choices, decisions.choices
            )
        elif networks:
            from policies.graph import prepare

            weights = np.stack([m.genome.weights for m in members if isinstance(m.genome, Network)])
            graph = prepare(observation.edge_index, len(observation.x))
            out[networks] = self._stacked.probabilities(weights, observation.x, graph, decisions.num_choices)
        if others:
            genomes = [m.genome for m in members if isinstance(m.genome, Boltzmann)]
            prior = np.stack([g.prior for g in genomes])
            temperature = np.stack([g.temperature for g in genomes])
            out[others] = boltzmann(prior, temperature, decisions.num_choices)
        return out

    def scores(self, members: Sequence[Individual]) -> tuple[Floats, NDArray[np.float64]]:
        """Scores float32 [M, T, L] of individuals that are ranking networks, and the shares [M] that they keep free."""
        ranked = self._decisions.ranked
        assert ranked is not None
        weights = np.stack([m.genome.weights for m in members if isinstance(m.genome, Network)])
        return self._rankers.scores(weights, ranked.places)

    def read(self, chromosomes: Sequence[Boltzmann], rng: np.random.Generator) -> NDArray[np.int16]:
        """Mappings int16 [B, N, H]: priors plus Gumbel noise of the size of their temperatures, placed.

        Without a placer each decision takes its greatest: a draw from softmax(prior / temperature), as in the paper.
        """
        decisions = self._decisions
        prior = np.stack([genome.prior for genome in chromosomes])
        temperature = np.stack([genome.temperature for genome in chromosomes])
        noisy = prior + temperature[..., None] * rng.gumbel(size=prior.shape).astype(np.float32)
        if decisions.ranked is not None and decisions.ranked.chromosomes:
            scores = decisions.ranked.places.scores_of(noisy)
            return decisions.ranked.place(scores, np.array([genome.free for genome in chromosomes]))
        legal = legal_choices(decisions.num_choices, decisions.choices)
        best = np.where(legal, noisy, -np.inf).argmax(axis=-1)
        return np.where(decisions.live, best, -1).astype(np.int16)
