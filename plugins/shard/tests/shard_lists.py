"""Small instances of sharding of which all choices can be listed, and their optima by that."""

from __future__ import annotations

import itertools

import numpy as np

from egrl_shard.exact.graph import ALLOWED, Graph, profile, total_cost
from egrl_shard.exact.reduce import reduce
from egrl_shard.load import parse
from egrl_shard.sharding import FORBIDDEN_FROM, Sharding
from make_sharding import make

SEEDS = range(12)


def listed() -> list[Sharding]:
    """Ten nodes of up to four strategies each, some with hardly any room or with nodes that another decides.

    What the reductions leave can be listed.
    """
    made = [
        parse(make(s, 10, 4, slack=1.02 if s % 2 else 1.2, alike=0.4 if s % 4 > 1 else 0.0), "made", "made")
        for s in SEEDS
    ]
    return [sharding for sharding in made if reduce(sharding).graph.nodes]


def optimum(sharding: Sharding) -> int:
    """The least cost of a valid choice, by trying all."""
    counts = sharding.strategies
    choices = np.stack(np.unravel_index(np.arange(counts.prod()), counts), axis=1)
    rows = sharding.first[:-1] + choices
    a, b = sharding.edge_nodes.T
    paid = [
        sharding.cost[rows],
        sharding.edge_cost[sharding.edge_first[:-1] + choices[:, a] * counts[b] + choices[:, b]],
    ]
    valid = np.logical_and.reduce([(part < FORBIDDEN_FROM).all(axis=1) for part in paid])
    for time in range(int(sharding.end.max())):
        live = (sharding.start <= time) & (time < sharding.end)
        valid &= sharding.usage[rows[:, live]].sum(axis=1) <= sharding.limit
    return int(sum(part[valid].sum(axis=1) for part in paid).min())


def all_choices(graph: Graph) -> list[np.ndarray]:
    return [np.array(c, np.int32) for c in itertools.product(*(range(k) for k in np.diff(graph.first)))]


def fits(graph: Graph, choice: np.ndarray) -> bool:
    return total_cost(graph, choice) < ALLOWED and bool((profile(graph, choice) <= graph.room).all())
