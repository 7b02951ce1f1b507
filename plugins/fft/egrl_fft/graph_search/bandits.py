"""The bandits at the vertices: they choose the next arm once every arm has been played.

Sources: threshold ascent, TAG (de Mesmay et al., ICML 2009), section 3.1, after Streeter and Smith (CP 2006), in its
anytime form: the number of pulls to come is unknown, and n is the number of pulls so far. Only ranks matter: an arm's
weight is how many of the s best rewards are its own. UCT (Kocsis and Szepesvári, ECML 2006): the mean reward, scaled by
what has been seen, plus exploration * sqrt(ln n / n_i).

The first arm is chosen if several are equal. A descent under way counts as a pull without a reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from egrl_fft.graph_search.search_graph import SearchGraph, Vertex

Bandit = Callable[[Vertex, Sequence[Vertex]], int]
"""(vertex, its live successors) -> which of them."""


def index(best: int, pulls: int, alpha: float) -> float:
    """h of section 3.1 for an arm with `best` of the s best rewards in `pulls` pulls; infinite where none was made."""
    if not pulls:
        return math.inf
    return (best + alpha + math.sqrt(2 * best * alpha + alpha * alpha)) / pulls


def alpha(pulls: int, arms: int, delta: float) -> float:
    """ln(2 n k / delta) for n >= 1 pulls of k arms."""
    return math.log(2 * pulls * arms / delta)


def threshold(keep: int, delta: float) -> Bandit:
    """Threshold ascent over the `keep` best evaluations of the vertex."""

    def choose(vertex: Vertex, arms: Sequence[Vertex]) -> int:
        confidence = alpha(max(1, vertex.pulls), len(arms), delta)
        limit = vertex.best[min(keep, len(vertex.best)) - 1] if vertex.best else (math.inf, -1)
        return _largest([index(arm.among(limit), arm.pulls, confidence) for arm in arms])

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
