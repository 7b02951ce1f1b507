"""What a hybrid method is made of, and the population that it begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context
from egrl.methods import policy_fit
from egrl.methods.hybrid.learner import LearnerConfig
from egrl.methods.moves import moves_of
from hwsim.capabilities import pipeline_of
from policies.network import NetworkConfig
from population.evolve import Decisions, EvolutionConfig, Population
from population.genome import Genome, Gnn, boltzmann_from_mapping

PAPER_POPULATION: dict[str, Any] = {
    "evolution.boltzmann_fraction": 0.2,
    "evolution.survival": "generational",
    "evolution.readout": "sample",
    "evolution.boltzmann_mutation.flips": 0.0,
}
"""What `--preset paper` sets in a population: Table 2 and Algorithm 2 as printed."""


@dataclass(frozen=True)
class Parts:
    """What a hybrid is made of; at least one of population and learner.

    Attributes:
        network: the actor of members and learner.
        evolution: the population, or None.
        learner: the learner, or None.
        steps_per_episode: mappings a policy makes in turn, each seeing the last (Table 2: 1).
    """

    network: NetworkConfig
    evolution: EvolutionConfig | None
    learner: LearnerConfig | None
    steps_per_episode: int = 1


def found_population(
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
        moves_of(problem, evolution.moves),
        pipeline_of(problem),
    )
    start: list[Genome] = []
    if init is not None and evolution.boltzmann_count < evolution.population:
        start.append(Gnn(init))
    mapping = context.start[0]
    if mapping is None and evolution.survival == "islands":
        mapping = problem.space.initial
    if mapping is not None and evolution.boltzmann_count:
        start.append(boltzmann_from_mapping(mapping, problem.space.num_choices, choices, decisions.certainty))
    return Population.create(rng, evolution, decisions, parts.network, start, context.device)
