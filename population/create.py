"""The first generation of a population.

Source: EGRL, Algorithm 2 line 1.

Deviations: a start mapping, a saved policy and trained rules may be given, and have a slot each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.network import NetworkConfig
from population.config import Decisions, EvolutionConfig
from population.genome import Boltzmann, Encoding, Genome, Individual, Network
from population.local_search import LocalSearch
from population.operators import Operators
from population.policies import Policies
from population.population import Floats, Population


def kind_of(config: EvolutionConfig) -> type[Population]:
    """What survives, as the settings say; its file is imported only then."""
    if config.survival == "generational":
        from population.generational import Generational

        return Generational
    from population.island_search import IslandSearch

    return IslandSearch


def create(
    rng: np.random.Generator,
    config: EvolutionConfig,
    decisions: Decisions,
    actor: NetworkConfig | None = None,
    start: Sequence[Genome] = (),
    device: str = "cpu",
    rules: Sequence[Floats] = (),
    operators: Operators | None = None,
) -> Population:
    """A first generation: the `start` genomes in slots of their encoding, the rest drawn at random.

    On islands, networks that begin with the linear `rules` [2 H F + 1] come first, as many as there is room for.

    Raises ValueError where networks are asked for without `actor` or `start` has more genomes of an encoding than there
    are slots; InputError where `operators` do not belong to this survival.
    """
    if config.boltzmann_count < config.population and actor is None:
        raise ValueError("actor: expected a NetworkConfig for the network members, received None")
    population = kind_of(config)(config, decisions, actor, operators, device)
    room = config.population - len(start) if config.survival == "islands" else 0
    start = [*start, *(population.policies.of_rule(rule, rng) for rule in rules[:room])]
    population.begin(first_members(rng, config, population.policies, population.local, start))
    return population


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
