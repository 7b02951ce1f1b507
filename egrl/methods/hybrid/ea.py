"""EA: the mixed population alone, without a learner (EGRL's ablation, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge
from typing_extensions import Doc

from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods.hybrid.method import PAPER_POPULATION, Hybrid, Parts
from egrl.methods.hybrid.with_critic import UseTwin, with_models
from egrl.methods.parts_critic.critic import CriticConfig
from policies.network import NetworkConfig
from population.evolve import EvolutionConfig


@dataclass(frozen=True)
class EaConfig:
    """Settings of EA."""

    evolution: Annotated[EvolutionConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=EvolutionConfig
    )
    network: Annotated[NetworkConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=NetworkConfig
    )
    steps_per_episode: Annotated[
        int,
        Ge(1),
        Doc("mappings per episode, each of which the policy makes after seeing the one before (Table 2: 1)"),
    ] = 1
    twin: UseTwin = "off"
    critic: Annotated[CriticConfig, Doc("see `egrl.methods.parts_critic.critic`")] = field(
        default_factory=lambda: CriticConfig(use="off")
    )


def build(context: Context, config: EaConfig) -> Method:
    """Population, no learner; the twin and the critic of parts only if they are asked for."""
    parts = Parts(config.network, config.evolution, None, config.steps_per_episode)
    return with_models(context, Hybrid(context, parts), config.twin, config.critic)


DEFINITION = MethodDefinition(EaConfig, build, needs_graph, PAPER_POPULATION, takes_policy=True)
