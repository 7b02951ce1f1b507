"""The parts of Algorithm 2: its population, which begins for a problem here, and what it asks of a learner.

A learner is `rank_learner` where a placer reads the networks, else `sac_learner`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context
from egrl.methods import policy_fit
from egrl.methods.egrl.config import LearnerConfig, Readout
from egrl.methods.egrl.ranking import Ranking
from hwsim.problem import Keys, Mapping16
from policies.network import NetworkConfig
from policies.store import StoredPolicy
from policies.weight_vector import Weights
from population.config import Decisions, EvolutionConfig
from population.create import create
from population.genome import Genome, Network, boltzmann_from_mapping
from population.moves import moves_of
from population.operators import Operators
from population.population import Population
from workloads.errors import RunFailure

LEARNER_SOURCE = "learner"
"""The source of a learner's own rollouts in the archive."""
DIVERGED = (
    "a policy's weights have diverged to values that are not finite; try smaller steps"
    " (method.actor_lr of SAC, method.first_rate of a learner that ranks)"
)


def finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probabilities or scores as they are. RunFailure unless they are finite."""
    if not np.isfinite(values).all():
        raise RunFailure(DIVERGED)
    return values


class Learner(Protocol):
    """Proposes mappings, learns from what was measured, and may give its weights to the population.

    Attributes:
        per_round: how many mappings it proposes per round.
        metric_names: of what `learn` returns.
    """

    per_round: int
    metric_names: tuple[str, ...]

    def rollouts(self, keys: Keys) -> Mapping16:
        """Mappings int16 [B, N, H] of its own, one per key uint64 [B]. RunFailure if its weights have diverged."""

    def add(self, tickets: NDArray[np.int64], usable: NDArray[np.bool_]) -> None:
        """Lines 7 and 21: evaluations [B] of the archive, whoever proposed them, and which of them ran."""

    def learn(self) -> Mapping[str, float]:
        """Lines 22 to 31: what is due. Returns metrics by name; nothing if nothing was due."""

    def migrant(self) -> Weights | None:
        """Line 32: weights float32 [P] for a network of the population; None if those are of another kind."""

    def policy(self) -> StoredPolicy:
        """The learner's network, to be saved."""

    def state_dict(self) -> dict[str, Any]:
        """All that it needs to go on."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""


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
