"""PG: the discrete SAC learner alone (EGRL's ablation, section 4).

A round is 21 rollouts and, as in the paper, a gradient step an evaluation: nobody else searches here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge
from typing_extensions import Doc

from egrl.core.budget import GENERATION
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods.hybrid.learner import PAPER_LEARNER, LearnerConfig
from egrl.methods.hybrid.method import Hybrid, Parts
from egrl.methods.hybrid.with_critic import UseTwin, with_models
from egrl.methods.parts_critic.critic import CriticConfig
from policies.network import NetworkConfig


@dataclass(frozen=True)
class PgConfig:
    """Settings of PG."""

    learner: Annotated[LearnerConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=lambda: LearnerConfig(rollouts=GENERATION, gradient_steps=1.0)
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


def build(context: Context, config: PgConfig) -> Method:
    """Learner, no population; the twin and the critic of parts only if they are asked for."""
    parts = Parts(config.network, None, config.learner, config.steps_per_episode)
    return with_models(context, Hybrid(context, parts), config.twin, config.critic)


DEFINITION = MethodDefinition(PgConfig, build, needs_graph, PAPER_LEARNER, takes_policy=True)
