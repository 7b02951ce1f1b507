"""The first generation of a population.

Source: EGRL, Algorithm 2 line 1.

Deviations:
- A start mapping, a saved policy and trained rules may be given, and have a slot each.
- Ranking networks of the default population share their trunk, so that a cross of two is a network of that trunk too,
  and so does a learner. Each begins with a rule, to whose scores its last layer adds; little, if the rules are trained.
  Its chromosomes are seeded by the scores of further rules (lines 16 and 17).
- Where no placer reads chromosomes, the random ones of the default population are children of the given ones, if any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.network import NetworkConfig
from population.chromosomes import Chromosomes
from population.config import Decisions, EvolutionConfig
from population.genome import Boltzmann, Encoding, Genome, Individual, Network, Origin, encoding_of
from population.moves import Moves
from population.operators import Operators
from population.policies import Policies
from population.population import Floats, Population

ADDED = 0.1
"""Factor on the last layers of networks that begin with trained rules."""


def kind_of(config: EvolutionConfig) -> type[Population]:
    """What survives, as the settings say; its file is imported only then."""
    if config.survival == "generational":
        from population.generational import Generational

        return Generational
    from population.plus import Plus

    return Plus


def create(
    rng: np.random.Generator,
    config: EvolutionConfig,
    decisions: Decisions,
    actor: NetworkConfig | None = None,
    start: Sequence[Genome] = (),
    device: str = "cpu",
    rules: Sequence[Floats] = (),
    operators: Operators | None = None,
    trunk: Floats | None = None,
) -> Population:
    """A first generation: the `start` genomes in slots of their encoding, the rest as the module says, or at random.

    Networks that a placer reads begin with the linear `rules` [2 H F + 1], the first for networks and the next for
    chromosomes, and have the weights `trunk` float32 [P] but for rule and last layer.

    Raises ValueError where networks are asked for without `actor` or `start` has more genomes of an encoding than there
    are slots.
    """
    if config.boltzmann_count < config.population and actor is None:
        raise ValueError("actor: expected a NetworkConfig for the network members, received None")
    population = kind_of(config)(config, decisions, actor, operators, device)
    first = First(config, decisions, population.policies, rng)
    first.take(start)
    if config.survival == "plus":
        if decisions.ranked is not None and actor is not None:
            first.rank(rules, trunk)
        first.surround()
    population.begin(first.members())
    return population


class First:
    """The first generation in the making: genomes of each encoding that are not drawn at random, up to its slots."""

    def __init__(
        self, config: EvolutionConfig, decisions: Decisions, policies: Policies, rng: np.random.Generator
    ) -> None:
        self._config, self._decisions, self._policies, self._rng = config, decisions, policies, rng
        networks = config.population - config.boltzmann_count
        self._slots: dict[Encoding, int] = {"network": networks, "boltzmann": config.boltzmann_count}
        self._found: dict[Encoding, list[Genome]] = {"network": [], "boltzmann": []}
        self._children: list[Genome] = []

    def _open(self, encoding: Encoding) -> int:
        return self._slots[encoding] - len(self._found[encoding])

    def take(self, start: Sequence[Genome]) -> None:
        """The genomes that are given. ValueError where they do not fit."""
        for genome in start:
            self._policies.check(genome)
            self._found[encoding_of(genome)].append(genome)
        for encoding, own in self._found.items():
            if self._open(encoding) < 0:
                raise ValueError(
                    f"start: expected at most {self._slots[encoding]} {encoding} genomes, received {len(own)}"
                )

    def rank(self, rules: Sequence[Floats], trunk: Floats | None) -> None:
        """Ranking networks that begin with rules, or drawn ones if rules are few; chromosomes seeded by the next."""
        policies, ranked = self._policies, self._decisions.ranked
        assert ranked is not None
        made = [begin_with(policies, rule, trunk, ranked.trained, self._rng) for rule in rules]
        while len(made) < self._config.population:
            made.append(_with_trunk(policies, policies.draw_network(self._rng), trunk))
        networks = self._open("network")
        self._found["network"] += made[:networks]
        seeds = made[networks : networks + self._open("boltzmann")]
        if ranked.chromosomes and seeds:
            scores, free = policies.scores([Individual(network, k) for k, network in enumerate(seeds)])
            make = Chromosomes(self._decisions)
            self._found["boltzmann"] += [make.seeded(s, float(f)) for s, f in zip(scores, free, strict=True)]

    def surround(self) -> None:
        """Children of the chromosomes that there are, in the slots that they leave open."""
        parents = [genome for genome in self._found["boltzmann"] if isinstance(genome, Boltzmann)]
        moves = self._decisions.moves or Moves(self._decisions.num_choices, self._decisions.live)
        for _ in range(self._open("boltzmann") if parents else 0):
            parent = parents[int(self._rng.integers(len(parents)))]
            self._children.append(Chromosomes(self._decisions).child(parent, None, moves, self._rng))

    def members(self) -> list[Individual]:
        """All of them, networks first; open slots are drawn."""
        members: list[Individual] = []
        for encoding, own in self._found.items():
            drawn = self._children if encoding == "boltzmann" else []
            while len(own) + len(drawn) < self._slots[encoding]:
                drawn = [*drawn, self._policies.draw(encoding, self._rng)]
            groups: tuple[tuple[Origin, list[Genome]], ...] = (("start", own), ("random", drawn))
            for origin, genomes in groups:
                members += [Individual(g, len(members) + k, (), origin) for k, g in enumerate(genomes)]
        return members


def begin_with(
    policies: Policies, rule: Floats, trunk: Floats | None, trained: bool, rng: np.random.Generator
) -> Network:
    """A network that begins with a rule [2 H F + 1]: a trunk float32 [P], and a last layer that adds something."""
    network = _with_trunk(policies, policies.of_rule(rule, rng), trunk)
    if trained and policies.trunk.stop:
        network.weights[policies.trunk.stop :] *= np.float32(ADDED)
    return network


def _with_trunk(policies: Policies, network: Network, trunk: Floats | None) -> Network:
    if trunk is not None:
        network.weights[policies.trunk] = trunk[policies.trunk]
    return network
