"""EA: the mixed population alone, without a learner (EGRL's ablation, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

from typing_extensions import Doc

from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods.hybrid.method import PAPER_POPULATION
from egrl.methods.hybrid.settings import HybridConfig, build_hybrid
from population.config import EvolutionConfig
from population.operators import Operators


@dataclass(frozen=True)
class EaConfig(HybridConfig):
    """Settings of EA."""

    evolution: Annotated[EvolutionConfig, Doc("as of `egrl.methods.hybrid.method.Parts`")] = field(
        default_factory=EvolutionConfig
    )


def build(context: Context, config: EaConfig, operators: Operators | None = None) -> Method:
    """Population, no learner; the twin and the profile model only if they are asked for."""
    return build_hybrid(context, config, config.evolution, None, operators)


DEFINITION = MethodDefinition(EaConfig, build, needs_graph, PAPER_POPULATION, takes_policy=True)


def with_operators(operators: Operators) -> MethodDefinition:
    """EA with operators of DEAP, or your own, for `egrl.search(method=…)` and `--method MODULE:NAME`."""
    return replace(DEFINITION, make=partial(build, operators=operators))
