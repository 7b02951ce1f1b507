"""PG: the discrete SAC learner alone (EGRL's ablation, section 4).

A round is 21 rollouts, so that the learner makes as many gradient steps a generation as in `egrl`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge

from egrl.learners.learner import PAPER_LEARNER, LearnerConfig
from egrl.methods import Definition, needs_graph
from egrl.methods.hybrid import Hybrid, Parts
from egrl.types import GENERATION, Setting
from policies.graph_unet import GraphUNetConfig


@dataclass(frozen=True)
class PgConfig:
    """Settings of PG.

    Attributes:
        learner, network: as of `egrl.methods.hybrid.Parts`.
        steps_per_episode: mappings a policy makes in turn, each seeing the last (Table 2: 1).
    """

    learner: LearnerConfig = field(default_factory=lambda: LearnerConfig(rollouts=GENERATION))
    network: GraphUNetConfig = field(default_factory=GraphUNetConfig)
    steps_per_episode: Annotated[int, Ge(1)] = 1


def build(setting: Setting, config: PgConfig) -> Hybrid:
    """Learner, no population."""
    return Hybrid(setting, Parts(config.network, None, config.learner, config.steps_per_episode))


DEFINITION = Definition(PgConfig, build, needs_graph, PAPER_LEARNER, takes_policy=True)
