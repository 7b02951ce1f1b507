"""The first generation of a population: given genomes, and random ones in the slots that are left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from population.config import EvolutionConfig
from population.genome import Boltzmann, Encoding, Genome, Gnn, Individual
from population.policies import Policies
from population.steady import LocalSearch


def first_members(
    rng: np.random.Generator,
    config: EvolutionConfig,
    policies: Policies,
    local: LocalSearch,
    start: Sequence[Genome],
) -> list[Individual]:
    """The `start` genomes in slots of their encoding, the rest drawn at random; GNNs come before chromosomes.

    With "islands" survival, random chromosomes are children of the given ones where there are any.

    Raises ValueError where `start` has more genomes of an encoding than there are slots, or one that does not fit.
    """
    slots: dict[Encoding, int] = {
        "gnn": config.population - config.boltzmann_count,
        "boltzmann": config.boltzmann_count,
    }
    given: dict[Encoding, list[Genome]] = {
        "gnn": [g for g in start if isinstance(g, Gnn)],
        "boltzmann": [g for g in start if isinstance(g, Boltzmann)],
    }
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
