"""EGRL: a mixed population and a discrete SAC learner that share one archive.

Source: Khadka et al., "Optimizing memory placement using evolutionary graph reinforcement learning",
Algorithm 2; see `egrl.methods.hybrid.method` for the engine and the deviations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from annotated_types import Ge
from typing_extensions import Doc

from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods.hybrid.learner import PAPER_LEARNER, LearnerConfig
from egrl.methods.hybrid.method import PAPER_POPULATION, Hybrid, Parts
from egrl.methods.hybrid.with_critic import UseTwin, with_models
from egrl.methods.parts_critic.critic import CriticConfig
from policies.network import NetworkConfig
from population.evolve import EvolutionConfig


@dataclass(frozen=True)
class EgrlConfig:
    """Settings of EGRL."""

    evolution: Annotated[EvolutionConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=EvolutionConfig
    )
    learner: Annotated[LearnerConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=LearnerConfig
    )
    network: Annotated[NetworkConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=NetworkConfig
    )
    steps_per_episode: Annotated[
        int,
        Ge(1),
        Doc("mappings per episode, each of which the policy makes after seeing the one before (Table 2: 1)"),
    ] = 1
    twin: UseTwin = "auto"
    critic: Annotated[CriticConfig, Doc("see `egrl.methods.parts_critic.critic`")] = field(
        default_factory=CriticConfig
    )


def build(context: Context, config: EgrlConfig) -> Method:
    """Population and learner, and the twin and the critic of parts where they serve."""
    parts = Parts(config.network, config.evolution, config.learner, config.steps_per_episode)
    return with_models(context, Hybrid(context, parts), config.twin, config.critic)


PAPER: dict[str, Any] = {**PAPER_POPULATION, **PAPER_LEARNER, "twin": "off", "critic.use": "off"}
DEFINITION = MethodDefinition(EgrlConfig, build, needs_graph, PAPER, takes_policy=True)
