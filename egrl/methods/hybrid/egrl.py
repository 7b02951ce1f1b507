"""EGRL: a mixed population and a discrete SAC learner that share one archive.

Source: Khadka et al., "Optimizing memory placement using evolutionary graph reinforcement learning",
Algorithm 2; see `egrl.methods.hybrid.method` for the engine and the deviations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge
from typing_extensions import Doc

from egrl.core.method import Context
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods.hybrid.learner import PAPER_LEARNER, LearnerConfig
from egrl.methods.hybrid.method import Hybrid
from egrl.methods.hybrid.parts import PAPER_POPULATION, Parts
from policies.graph_unet import GraphUNetConfig
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
    network: Annotated[GraphUNetConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=GraphUNetConfig
    )
    steps_per_episode: Annotated[
        int, Ge(1), Doc("mappings a policy makes in turn, each seeing the last (Table 2: 1)")
    ] = 1


def build(context: Context, config: EgrlConfig) -> Hybrid:
    """Population and learner."""
    return Hybrid(context, Parts(config.network, config.evolution, config.learner, config.steps_per_episode))


DEFINITION = MethodDefinition(
    EgrlConfig, build, needs_graph, PAPER_POPULATION | PAPER_LEARNER, takes_policy=True
)
