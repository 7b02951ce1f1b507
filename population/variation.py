"""Mutation and crossover within an encoding, and seeding from one to the other.

Source: EGRL, Algorithm 2 lines 11-20 and appendix E. The paper names the operators; their numbers are those
of a published dump of the authors' code (weight mutation after Khadka and Tumer, "Evolution-guided policy
gradient", 2018).

Deviations:
- Every tensor is mutated, attention vectors and biases too, in one vectorised draw.
- Crossover cuts weights between rows (the inputs of one unit stay together), chromosomes between nodes in
  execution order.
- P x N(1, 0.1) hardly ever changes which choice is preferred, so a chromosome's mutation also exchanges two
  priors in a few decisions (Poisson, mean `flips`; 0 gives the printed form).
- `step_along` is added, after the mutation of differential evolution (Storn and Price 1997): what tells trained rules
  apart says in which directions to search. Its factor is random, so that steps of all sizes are tried.
- Dead decisions are not counted: exchanges are drawn among decisions with at least two choices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.weight_vector import WeightFormat
from population.genome import Boltzmann, Network

SUPER_FACTOR, RESET_SIGMA = 10.0, 0.1
"""Factor on the standard deviation of weights that move further; that of weights drawn again (published dump)."""
PRIOR_SIGMA = 0.1
"""Standard deviation of the factor N(1, sigma^2) on each prior (EGRL, appendix E)."""
COOLING, COOLING_SIGMA = 0.95, 0.1
"""Mean and standard deviation of the factor on each temperature: chromosomes grow more certain (published dump)."""
COLDEST, HOTTEST = 0.02, 10.0
"""Lowest and highest temperature that a mutation leaves (own choice; published dump)."""


@dataclass(frozen=True)
class NetworkMutation:
    """How weights are mutated (published dump).

    Attributes:
        fraction: share of each tensor's weights that change at most.
        strength: standard deviation of a change, as a share of the weight's size.
        super_probability: probability that a changed weight moves `SUPER_FACTOR` times as far.
        reset_probability: probability that a changed weight is drawn again from N(0, `RESET_SIGMA`^2).
    """

    fraction: float = 0.05
    strength: float = 0.1
    super_probability: float = 0.05
    reset_probability: float = 0.02


PUBLISHED = NetworkMutation()


def mutate_network(
    parent: Network,
    weight_format: WeightFormat,
    rng: np.random.Generator,
    settings: NetworkMutation = PUBLISHED,
) -> Network:
    """A copy of the parent with some weights of every tensor changed."""
    sizes = np.array([s.size for s in weight_format.segments])
    offsets = np.array([s.offset for s in weight_format.segments])
    most = np.floor(settings.fraction * sizes).astype(np.int64)
    most = np.where(settings.fraction > 0, np.maximum(most, 1), 0)
    counts = rng.integers(0, most, endpoint=True)
    within = np.floor(rng.random(int(counts.sum())) * sizes.repeat(counts)).astype(np.int64)
    at = offsets.repeat(counts) + within
    old = parent.weights[at]
    kind = rng.random(len(at))
    reset = kind < settings.reset_probability
    further = ~reset & (kind < settings.reset_probability + settings.super_probability)
    noise = rng.standard_normal(len(at), dtype=np.float32)
    scale = np.abs(old) * settings.strength * np.where(further, SUPER_FACTOR, 1.0)
    weights = parent.weights.copy()
    weights[at] = np.where(reset, noise * RESET_SIGMA, old + noise * scale).astype(np.float32)
    return Network(weights)


def cross_network(
    first: Network, second: Network, weight_format: WeightFormat, rng: np.random.Generator
) -> Network:
    """First's weights before a random row boundary, second's from there on; a mere copy only of equal parents."""
    starts = weight_format.row_starts[1:]
    cut = int(rng.choice(starts)) if len(starts) else 0
    return Network(np.concatenate([first.weights[:cut], second.weights[cut:]]))


STEP = 0.3
"""Standard deviation of the factor on a difference."""


def step_along(parent: Network, first: Network, second: Network, rng: np.random.Generator) -> Network:
    """The parent, moved along the difference of two networks."""
    factor = np.float32(STEP * rng.standard_normal())
    return Network(parent.weights + factor * (first.weights - second.weights))


def mutate_boltzmann(
    parent: Boltzmann,
    num_choices: NDArray[np.int16],
    live: NDArray[np.bool_],
    flips: float,
    rng: np.random.Generator,
) -> Boltzmann:
    """The parent with every prior and temperature a little changed and a few preferences exchanged."""
    prior = parent.prior * rng.normal(1.0, PRIOR_SIGMA, parent.prior.shape)
    factor = rng.normal(COOLING, COOLING_SIGMA, parent.temperature.shape)
    temperature = np.clip(parent.temperature * factor, COLDEST, HOTTEST)
    open_decisions = np.argwhere(live & (num_choices >= 2))
    if len(open_decisions):
        count = min(int(rng.poisson(flips)), len(open_decisions))
        for node, head in rng.choice(open_decisions, size=count, replace=False):
            a, b = rng.choice(int(num_choices[node, head]), size=2, replace=False)
            prior[node, head, [a, b]] = prior[node, head, [b, a]]
    return Boltzmann(prior.astype(np.float32), temperature.astype(np.float32))


def cross_boltzmann(first: Boltzmann, second: Boltzmann, rng: np.random.Generator) -> Boltzmann:
    """First's decisions for the nodes before a random one, second's from there on."""
    nodes = len(first.temperature)
    cut = int(rng.integers(1, nodes)) if nodes > 1 else 0
    return Boltzmann(
        np.concatenate([first.prior[:cut], second.prior[cut:]]),
        np.concatenate([first.temperature[:cut], second.temperature[cut:]]),
    )
