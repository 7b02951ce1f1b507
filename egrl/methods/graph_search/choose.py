"""The bandits at the vertices: which of the arms that have all been played comes next.

Sources: threshold ascent as in `egrl/methods/graph_search/threshold_ascent.py`; UCT (Kocsis and Szepesvári, ECML
2006): the mean reward, scaled by what has been seen, plus exploration * sqrt(ln n / n_i).

Of equal arms the first is chosen. A descent under way counts as a pull without a reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from egrl.methods.graph_search import threshold_ascent
from egrl.methods.graph_search.search_graph import SearchGraph, Vertex

Bandit = Callable[[Vertex, Sequence[Vertex]], int]
"""(vertex, its live successors) -> which of them."""


def threshold(keep: int, delta: float) -> Bandit:
    """Threshold ascent over the `keep` best evaluations of the vertex."""

    def choose(vertex: Vertex, arms: Sequence[Vertex]) -> int:
        alpha = threshold_ascent.alpha(max(1, vertex.pulls), len(arms), delta)
        limit = vertex.best[min(keep, len(vertex.best)) - 1] if vertex.best else (math.inf, -1)
        return _largest([threshold_ascent.index(arm.among(limit), arm.pulls, alpha) for arm in arms])

    return choose


def uct(graph: SearchGraph, exploration: float) -> Bandit:
    """UCB1 over the mean rewards, 0 and 1 being the lowest and the highest that the graph was told."""

    def choose(vertex: Vertex, arms: Sequence[Vertex]) -> int:
        span = (graph.highest - graph.lowest) or 1.0
        spread = math.log(max(1, vertex.pulls))
        return _largest(
            [
                ((arm.total - graph.lowest * arm.ran) / span if arm.ran else 0.0) / arm.pulls
                + exploration * math.sqrt(spread / arm.pulls)
                if arm.pulls
                else math.inf
                for arm in arms
            ]
        )

    return choose


def _largest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)
