"""Individuals of the mixed population: a genome of one of two encodings, and where it came from.

Source: EGRL, section 3 and appendix E; initial ranges of the Boltzmann chromosome: P ~ U(0, 1) normalised,
T ~ U(0.1, 10) (a published dump of the authors' code; the paper gives none).

Deviations:
- A chromosome made from probabilities takes them as its prior (Algorithm 2, line 17) and the temperatures at
  which its own uncertainty equals theirs: with an old temperature of up to 10 it would sample at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from deap import base, creator
from numpy.typing import NDArray

from policies.boltzmann import legal_choices, temperature_of_same_entropy

Floats = NDArray[np.float32]
Encoding = Literal["network", "boltzmann"]
Origin = Literal["random", "mutation", "crossover", "seeded", "learner", "start"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)

COLDEST_INIT, HOTTEST_INIT = 0.1, 10.0

creator.create("MaximisedFitness", base.Fitness, weights=(1.0,))


@dataclass(frozen=True, eq=False)
class Network:
    """Weights float32 [P] of a policy network: one that ranks tensors for a placer, or one that names choices."""

    weights: Floats


@dataclass(frozen=True, eq=False)
class Boltzmann:
    """Prior float32 [N, H, C] and temperature float32 [N, H] > 0.

    `free` is the share of the memory for prefetching that a placer leaves empty, as ranking networks have it.
    """

    prior: Floats
    temperature: Floats
    free: float = 0.0


Genome = Network | Boltzmann


def encoding_of(genome: Genome) -> Encoding:
    """The encoding's name."""
    return "network" if isinstance(genome, Network) else "boltzmann"


@dataclass(frozen=True, eq=False)
class Individual:
    """A genome with a history. Genomes are never changed in place; `fitness` is DEAP's.

    Attributes:
        id: unique in its population, growing with age of creation.
        parents: ids of what it was made from (none, one or two).
        origin: the last thing that made it what it is.
    """

    genome: Genome
    id: int
    parents: tuple[int, ...] = ()
    origin: Origin = "random"
    fitness: Any = field(default_factory=lambda: creator.MaximisedFitness())

    @property
    def encoding(self) -> Encoding:
        """The genome's encoding."""
        return encoding_of(self.genome)

    @property
    def score(self) -> float:
        """Last measured fitness; -inf where there is none or it was not finite."""
        return float(self.fitness.values[0]) if self.fitness.valid else -np.inf

    def with_fitness(self, fitness: float) -> Individual:
        """The same individual with a fitness; a non-finite one counts as -inf, so that it never wins."""
        value = float(fitness) if np.isfinite(fitness) else -np.inf
        return replace(self, fitness=creator.MaximisedFitness((value,)))


@dataclass(frozen=True)
class Child:
    """A genome and where it comes from; `origin` names crossover or seeding even if mutation followed."""

    genome: Genome
    parents: tuple[int, ...]
    origin: Origin


def random_boltzmann(num_choices: NDArray[np.int16], choices: int, rng: np.random.Generator) -> Boltzmann:
    """A chromosome for decisions [N, H]: random prior over the legal choices, random temperature."""
    legal = legal_choices(num_choices, choices)
    prior = rng.random(legal.shape, dtype=np.float32) * legal
    prior /= np.maximum(prior.sum(axis=-1, keepdims=True), np.float32(1e-6))
    temperature = rng.uniform(COLDEST_INIT, HOTTEST_INIT, num_choices.shape).astype(np.float32)
    return Boltzmann(prior, temperature)


def boltzmann_from_probabilities(probabilities: Floats, num_choices: NDArray[np.int16]) -> Boltzmann:
    """A chromosome that decides about as probabilities [N, H, C] do."""
    return Boltzmann(
        np.array(probabilities, dtype=np.float32), temperature_of_same_entropy(probabilities, num_choices)
    )


def boltzmann_from_mapping(
    mapping: NDArray[np.int16], num_choices: NDArray[np.int16], choices: int, certainty: float = 0.999
) -> Boltzmann:
    """A chromosome that makes each choice of mapping [N, H] with probability `certainty`.

    An only choice is certain. Unused decisions (-1) are uniform. Raises ValueError where a choice is illegal
    or certainty is outside 0.5 .. 1 (half-open).
    """
    if not 0.5 <= certainty < 1:
        raise ValueError(f"certainty: expected 0.5 <= certainty < 1, received {certainty}")
    if mapping.shape != num_choices.shape or (mapping >= num_choices).any() or (mapping < -1).any():
        raise ValueError("mapping: expected [N, H] of -1 or choices below num_choices, received another")
    legal = legal_choices(num_choices, choices)
    prior = np.where(mapping[..., None] >= 0, mapping[..., None] == np.arange(choices), 1.0) * legal
    prior /= prior.sum(axis=-1, keepdims=True)
    others = np.maximum(legal.sum(axis=-1) - 1, 1)
    temperature = 1.0 / np.log(np.maximum(others * certainty / (1 - certainty), 1 + 1e-6))
    return Boltzmann(prior.astype(np.float32), np.minimum(temperature, HOTTEST_INIT).astype(np.float32))


def members_to_arrays(members: Sequence[Individual]) -> dict[str, Any]:
    """Arrays over the members [M], genomes of each encoding stacked apart; parents [M, 2], -1 = none."""
    networks = [m.genome.weights for m in members if isinstance(m.genome, Network)]
    chromosomes = [m.genome for m in members if isinstance(m.genome, Boltzmann)]
    parents = np.full((len(members), 2), -1, dtype=np.int64)
    for row, member in zip(parents, members, strict=True):
        row[: len(member.parents)] = member.parents
    arrays: dict[str, Any] = {
        "is_network": np.array([m.encoding == "network" for m in members], dtype=np.bool_),
        "id": np.array([m.id for m in members], dtype=np.int64),
        "parents": parents,
        "origin": np.array([ORIGINS.index(m.origin) for m in members], dtype=np.int8),
        "fitness": np.array([m.score for m in members], dtype=np.float64),
        "measured": np.array([bool(m.fitness.valid) for m in members], dtype=np.bool_),
    }
    if networks:
        arrays["weights"] = (
            networks  # a list, since there may be more of them in one generation than in another
        )
    if chromosomes:
        arrays["prior"] = np.stack([c.prior for c in chromosomes])
        arrays["temperature"] = np.stack([c.temperature for c in chromosomes])
        arrays["free"] = np.array([c.free for c in chromosomes])
    return arrays


def members_from_arrays(arrays: dict[str, Any]) -> list[Individual]:
    """Inverse of `members_to_arrays`."""
    weights = iter(arrays.get("weights", ()))
    chromosomes = zip(*(arrays.get(name, ()) for name in ("prior", "temperature", "free")), strict=True)
    members = []
    for i, is_network in enumerate(arrays["is_network"]):
        if is_network:
            genome: Genome = Network(next(weights).copy())
        else:
            prior, temperature, free = next(chromosomes)
            genome = Boltzmann(prior.copy(), temperature.copy(), float(free))
        parents = tuple(int(p) for p in arrays["parents"][i] if p >= 0)
        member = Individual(genome, int(arrays["id"][i]), parents, ORIGINS[int(arrays["origin"][i])])
        members.append(member.with_fitness(float(arrays["fitness"][i])) if arrays["measured"][i] else member)
    return members
