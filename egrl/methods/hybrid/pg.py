"""PG: the discrete SAC learner alone (EGRL's ablation, section 4).

A round is 21 rollouts and, as in the paper, a gradient step an evaluation: nobody else searches here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from typing_extensions import Doc

from egrl.core.budget import GENERATION
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods.hybrid.learner import PAPER_LEARNER, LearnerConfig
from egrl.methods.hybrid.settings import HybridConfig, build_hybrid


@dataclass(frozen=True)
class PgConfig(HybridConfig):
    """Settings of PG."""

    learner: Annotated[LearnerConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=lambda: LearnerConfig(rollouts=GENERATION, gradient_steps=1.0)
    )


def build(context: Context, config: PgConfig) -> Method:
    """Learner, no population; the twin and the profile model only if they are asked for."""
    return build_hybrid(context, config, None, config.learner)


DEFINITION = MethodDefinition(PgConfig, build, needs_graph, PAPER_LEARNER, takes_policy=True)
