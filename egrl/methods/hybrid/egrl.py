"""EGRL: a mixed population and a discrete SAC learner that share one archive.

Source: Khadka et al., "Optimizing memory placement using evolutionary graph reinforcement learning",
Algorithm 2; see `egrl.methods.hybrid.method` for the engine and the deviations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from typing_extensions import Doc

from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods.hybrid.learner import PAPER_LEARNER, LearnerConfig
from egrl.methods.hybrid.method import PAPER_POPULATION
from egrl.methods.hybrid.settings import HybridConfig, UseTwin, build_hybrid
from egrl.methods.profile_model.config import ProfileModelConfig
from population.config import EvolutionConfig


@dataclass(frozen=True)
class EgrlConfig(HybridConfig):
    """Settings of EGRL."""

    evolution: Annotated[EvolutionConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=EvolutionConfig
    )
    learner: Annotated[LearnerConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=LearnerConfig
    )
    twin: UseTwin = "auto"
    profile_model: Annotated[ProfileModelConfig, Doc("see `egrl.methods.profile_model.op_times`")] = field(
        default_factory=ProfileModelConfig
    )


def build(context: Context, config: EgrlConfig) -> Method:
    """Population and learner, and the twin and the profile model where they serve."""
    return build_hybrid(context, config, config.evolution, config.learner)


PAPER: dict[str, Any] = {**PAPER_POPULATION, **PAPER_LEARNER, "twin": "off", "profile_model.use": "off"}
DEFINITION = MethodDefinition(EgrlConfig, build, needs_graph, PAPER, takes_policy=True)
