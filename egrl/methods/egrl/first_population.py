"""What Algorithm 2 is built from, and its first generation for a problem."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context
from egrl.methods import policy_fit
from egrl.methods.egrl.config import LearnerConfig, Readout
from egrl.methods.egrl.ranking import Ranking
from egrl.methods.moves import moves_of
from policies.network import NetworkConfig
from population.config import Decisions, EvolutionConfig
from population.create import create
from population.genome import Genome, Network, boltzmann_from_mapping
from population.operators import Operators
from population.population import Population


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
    """

    network: NetworkConfig
    evolution: EvolutionConfig | None
    learner: LearnerConfig | None
    readout: Readout = "greedy"
    ranking: Ranking | None = None
    operators: Operators | None = None


def first_population(
    context: Context,
    parts: Parts,
    evolution: EvolutionConfig,
    rng: np.random.Generator,
    init: NDArray[np.float32] | None,
) -> Population:
    """A population for the context's one problem.

    The weights `init` float32 [P] are one of its networks, the start mapping is the prior of one of its chromosomes.
    """
    problem = context.problems[0]
    choices = problem.space.most_choices
    decisions = Decisions(
        problem.space.num_choices,
        problem.space.live,
        choices,
        policy_fit.observation(problem).x.shape[1],
        moves_of(problem, evolution.island.moves),
        problem.space.pipeline,
    )
    ranking = parts.ranking
    if ranking is not None:
        placer = ranking.placer
        repaired = None if placer.by_key else placer.repaired
        decisions = replace(decisions, places=ranking.places, feature_names=ranking.names, repaired=repaired)
    start: list[Genome] = []
    if init is not None and evolution.boltzmann_count < evolution.population:
        start.append(Network(init))
    mapping = context.start[0]
    if mapping is None and evolution.survival == "islands":
        mapping = problem.space.initial
    # What networks propose first is better than what is near the start, which joins its island in any case.
    crowded = ranking is not None and bool(ranking.shipped())
    if mapping is not None and evolution.boltzmann_count and not crowded:
        start.append(boltzmann_from_mapping(mapping, problem.space.num_choices, choices, decisions.certainty))
    rules = [] if ranking is None else ranking.shipped()
    device, operators = context.device, parts.operators
    population = create(rng, evolution, decisions, parts.network, start, device, rules, operators)
    population.known.add([*context.rules, *(given for given in context.start[:1] if given is not None)])
    return population
