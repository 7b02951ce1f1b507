"""The parts of Algorithm 2, and its population, which begins for a problem here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context
from egrl.methods import policy_fit
from egrl.methods.egrl.config import LearnerConfig, Readout
from egrl.methods.egrl.ranking import Ranking
from policies.network import NetworkConfig
from policies.weight_vector import Weights
from population.config import Decisions, EvolutionConfig, Ranked
from population.create import begin_with, create
from population.genome import Genome, Network, boltzmann_from_mapping
from population.moves import moves_of
from population.operators import Operators
from population.policies import Policies
from population.population import Population
from workloads.errors import RunFailure

DIVERGED = (
    "a policy's weights have diverged to values that are not finite; try smaller steps"
    " (method.actor_lr, or method.learning_rate of SAC over rankings)"
)


def finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probabilities or scores as they are. RunFailure unless they are finite."""
    if not np.isfinite(values).all():
        raise RunFailure(DIVERGED)
    return values


@dataclass(frozen=True)
class Parts:
    """A population, a learner or both.

    Attributes:
        network: the actor of members and learner.
        evolution: the population, or None.
        learner: the learner, or None.
        readout: how networks are read.
        ranking: the placer that reads them, if one does.
        operators: what takes the place of the population's own operators.
        idle: what the settings ask for and cannot act, in a line; "" if all acts.
    """

    network: NetworkConfig
    evolution: EvolutionConfig | None
    learner: LearnerConfig | None
    readout: Readout = "greedy"
    ranking: Ranking | None = None
    operators: Operators | None = None
    idle: str = ""


def decisions_of(context: Context, parts: Parts, evolution: EvolutionConfig | None) -> Decisions:
    """The decisions of the context's one problem, and how ranking networks read them."""
    problem, ranking = context.problems[0], parts.ranking
    ranked = None
    if ranking is not None:
        placer = ranking.placer
        ranked = Ranked(ranking.places, ranking.names, ranking.place, not placer.by_key, bool(ranking.rules))
    return Decisions(
        problem.space.num_choices,
        problem.space.live,
        problem.space.most_choices,
        policy_fit.observation(problem).x.shape[1],
        None if evolution is None else moves_of(problem),
        ranked,
    )


def first_network(context: Context, parts: Parts, decisions: Decisions, init: Weights | None) -> Weights:
    """What the learner of ranking networks begins with, float32 [P]: `init`, or a rule and a drawn network."""
    if init is not None:
        return init
    assert parts.ranking is not None
    rng, policies = context.generator("trunk"), Policies(decisions, parts.network, context.device)
    return begin_with(policies, parts.ranking.first, None, bool(parts.ranking.rules), rng).weights


def first_population(
    context: Context,
    parts: Parts,
    evolution: EvolutionConfig,
    decisions: Decisions,
    rng: np.random.Generator,
    init: Weights | None,
    trunk: Weights | None,
) -> Population:
    """A population for the context's one problem.

    The weights `init` float32 [P] are one of its networks. The start mapping is the prior of one of its chromosomes,
    unless chromosomes are seeded by networks: then it joins them once it is measured.
    """
    problem, ranked = context.problems[0], decisions.ranked
    start: list[Genome] = []
    if init is not None and evolution.boltzmann_count < evolution.population:
        start.append(Network(init))
    mapping = context.start[0]
    if mapping is None and evolution.survival == "plus":
        mapping = problem.space.initial
    seeded = evolution.survival == "plus" and ranked is not None and ranked.chromosomes
    if mapping is not None and evolution.boltzmann_count and not seeded:
        start.append(boltzmann_from_mapping(mapping, problem.space.num_choices, problem.space.most_choices))
    rules = [] if parts.ranking is None else parts.ranking.rules
    population = create(
        rng, evolution, decisions, parts.network, start, context.device, rules, parts.operators, trunk
    )
    population.known.add([*context.rules, *(given for given in context.start[:1] if given is not None)])
    return population
