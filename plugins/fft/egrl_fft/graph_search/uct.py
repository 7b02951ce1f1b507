"""UCT on derivation graphs, for the best single reward: TAG with another bandit, to compare it with.

Source: Kocsis and Szepesvári: Bandit based Monte-Carlo planning (ECML 2006).

Deviations: the search is over the same graph as TAG's (`egrl_fft/graph_search/descent.py`), so that equal
partial plans are one vertex, no plan is measured twice and exhausted vertices are not entered; rewards are scaled to
0 .. 1 by what has been seen; what counts is the best plan that was measured, not the arm with the most visits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le
from typing_extensions import Doc

from egrl.core.method import Context
from egrl.core.registry import MethodDefinition, needs_probabilities
from egrl_fft.graph_search import bandits
from egrl_fft.graph_search.completions import LearnedConfig, completions
from egrl_fft.graph_search.descent import GraphSearch
from egrl_fft.graph_search.tag import Order, Parallel, Vertices, derivation_of, repair_of


@dataclass(frozen=True)
class UctConfig(LearnedConfig):
    """Settings of UCT, those of its completions among them."""

    exploration: Annotated[
        float,
        Ge(0),
        Le(1000),
        Doc("factor of the exploration term, for rewards of 0 .. 1; the larger, the more it explores"),
    ] = 0.5
    parallel: Parallel = 1
    vertices: Annotated[
        Vertices, Doc('what is searched: "derivation", "decisions" or "auto", as in method `tag`')
    ] = "auto"
    order: Order = "size"


def build(context: Context, config: UctConfig) -> GraphSearch:
    """The search of the problem's graph. InputError as `egrl_fft.graph_search.tag.derivation_of`."""
    graph, is_own = derivation_of(context.problems[0], config.vertices, config.order)
    rng = context.generator("uct 0")
    return GraphSearch(
        graph,
        1,
        lambda seen: bandits.uct(seen, config.exploration),
        rng,
        completions(graph, config, rng),
        source="uct",
        parallel=config.parallel,
        repair=None if is_own else repair_of(context),
    )


DEFINITION = MethodDefinition(UctConfig, build, needs_probabilities, {"completions": "uniform"})
