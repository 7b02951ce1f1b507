"""TAG, threshold ascent on graphs: grows a subgraph of a problem's derivation graph towards its best plans.

Source: de Mesmay, Rimmel, Voronenko, Püschel: Bandit-based optimization on graphs with application to library
performance tuning (ICML 2009), sections 2 and 3; threshold ascent: Streeter and Smith (CP 2006).

The parts, beside this file: `bandits.py` (the bandit at a vertex), `search_graph.py`
(the subgraph and back-propagation), `completions.py` (Monte-Carlo), `descent.py` (the descent).

Deviations: those that the parts name; the largest is that completions learn (`completions = "uniform"`: the paper's). A
problem without a derivation is searched decision by decision (`decisions.py`). Until a vertex has more than s
evaluations its bandit goes round; s is 5 by default, since our budgets are hundreds of evaluations; what it should be
was not settled (plugins/fft/docs/explanations/tag.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from egrl.core.method import Context
from egrl.core.registry import MethodDefinition, needs_probabilities
from egrl_fft.graph_search import bandits
from egrl_fft.graph_search.completions import LearnedConfig, completions
from egrl_fft.graph_search.decisions import Decisions
from egrl_fft.graph_search.descent import GraphSearch
from hwsim.keys import REPAIR
from hwsim.mappings import repair
from hwsim.problem import Mapping16, Problem
from hwsim.stepwise import Derivation, HasDerivation
from workloads.errors import InputError

Vertices = Literal["auto", "derivation", "decisions"]
Order = Annotated[
    Literal["size", "nodes"], Doc('order of "decisions": by falling "size", or as the "nodes" lie')
]
Parallel = Annotated[
    int,
    Ge(1),
    Le(1000),
    Doc("descents made before their results are known: as many measurements can be under way"),
]


@dataclass(frozen=True)
class TagConfig(LearnedConfig):
    """Settings of TAG, those of its completions among them."""

    s: Annotated[int, Ge(1), Le(100_000), Doc("best rewards of a vertex that its bandit looks at")] = 5
    delta: Annotated[
        float, Gt(0), Lt(1), Doc("confidence of the bandit; the smaller, the more it explores")
    ] = 0.1
    parallel: Parallel = 1
    vertices: Annotated[
        Vertices,
        Doc(
            'what is searched: partial plans of the problem\'s own "derivation", or its "decisions" one by one;'
            ' "auto": the derivation, if there is one'
        ),
    ] = "auto"
    order: Order = "size"


def derivation_of(problem: Problem, vertices: Vertices, order: Order) -> tuple[Derivation, bool]:
    """The derivation to search, and True if all its plans are valid.

    Raises:
        InputError: "derivation" for a problem that has none.
    """
    own = problem.derivation if isinstance(problem, HasDerivation) else None
    if own is None and vertices == "derivation":
        raise InputError(
            f"method.vertices: expected auto or decisions, since problem {problem.about.name} has no derivation, found"
            f" {vertices!r}"
        )
    if own is not None and vertices != "decisions":
        return own, True
    return Decisions(problem, order), False


def repair_of(context: Context) -> Callable[[Mapping16, int], Mapping16]:
    """The problem's `repair`, with keys from the numbers of proposals."""
    problem = context.problems[0]
    return lambda mapping, first: repair(problem, mapping, context.keys(REPAIR, first, len(mapping)))


def build(context: Context, config: TagConfig) -> GraphSearch:
    """The search of the problem's graph. InputError as `derivation_of`."""
    graph, is_own = derivation_of(context.problems[0], config.vertices, config.order)
    rng = context.generator("tag 0")
    return GraphSearch(
        graph,
        config.s,
        lambda _: bandits.threshold(config.s, config.delta),
        rng,
        completions(graph, config, rng),
        source="tag",
        parallel=config.parallel,
        repair=None if is_own else repair_of(context),
    )


DEFINITION = MethodDefinition(TagConfig, build, needs_probabilities, {"s": 100, "completions": "uniform"})
