"""Improve a solution by solving trees of nodes exactly, with all other nodes as they are.

A step: nodes grow from a random one, each with at most one neighbour inside, so that they are a tree. The tree
is solved by dynamic programming at prices of memory. Where its solution passes the limit, memory gets dearer
and the tree is solved again; where it fits, cheaper. The best that fits is kept. All sums are of doubles; who
takes a solution adds it up anew.
"""

from __future__ import annotations

import numpy as np

from hwsim.jit import kernel
from hwsim.shard.exact.graph import Floats, Graph, Int32s
from hwsim.shard.exact.trees import Tree, fill_base, grow, leave, solve_tree, tree_cost

SMALLEST = 3
"""Nodes of the smallest tree; sizes are spread evenly in their logarithm."""
FROM_EDGES = 0.2
"""The share of trees that begin at an end of a random edge: often at nodes of many neighbours, which join them."""
TRIES = 6
"""Solutions of a tree, each at other prices."""
CHEAPER, DEARER = 0.4, 3.0
"""What prices are multiplied by after a solution that fits, and where one does not."""
ENOUGH = 2
"""A solution that fits after so many others is the last."""


@kernel
def random_tree(graph: Graph, tree: Tree, largest: int, rng: np.random.Generator) -> int:
    """Grow a tree of a random size at a random place; its number of nodes, 0 where there is nothing to choose."""
    most = int(SMALLEST * (max(largest, SMALLEST) / SMALLEST) ** rng.random())
    if len(graph.near_node) and rng.random() < FROM_EDGES:
        start = graph.near_node[rng.integers(0, len(graph.near_node))]
        most = max(most, min(largest, 2 * (graph.near_at[start + 1] - graph.near_at[start])))
    else:
        start = rng.integers(0, len(graph.first) - 1)
    if graph.first[start + 1] - graph.first[start] < 2:
        return 0
    return grow(graph, tree, start, most, rng)


@kernel
def cut_time(graph: Graph, tree: Tree, count: int, choice: Int32s, spare: Floats, price: Floats) -> int:
    """Cut time where a node of the tree begins or ends: room and price of each piece; how many pieces."""
    marks = np.empty(2 * count, np.int64)
    for i in range(count):
        marks[2 * i], marks[2 * i + 1] = graph.low[tree.node[i]], graph.high[tree.node[i]]
    marks = np.unique(marks)
    pieces = len(marks) - 1
    tree.load[: pieces + 1] = 0.0
    for i in range(count):
        v = tree.node[i]
        tree.left[i], tree.right[i] = (
            np.searchsorted(marks, graph.low[v]),
            np.searchsorted(marks, graph.high[v]),
        )
        used = graph.usage[graph.first[v] + choice[v]]
        tree.load[tree.left[i]] += used
        tree.load[tree.right[i]] -= used
    own = 0.0
    for k in range(pieces):
        own += tree.load[k]
        least, dear = np.inf, 0.0
        for t in range(marks[k], marks[k + 1]):
            least = min(least, spare[t])
            dear += price[t]
        tree.room[k] = least + own
        tree.price[k] = dear
    return pieces


@kernel
def excess(graph: Graph, tree: Tree, count: int, pieces: int, chosen: Int32s) -> float:
    """By how much choices [count] pass the room, added up over the pieces; by how much in each into `load`."""
    tree.load[: pieces + 1] = 0.0
    for i in range(count):
        used = graph.usage[graph.first[tree.node[i]] + chosen[i]]
        tree.load[tree.left[i]] += used
        tree.load[tree.right[i]] -= used
    over, used = 0.0, 0.0
    for k in range(pieces):
        used += tree.load[k]
        tree.load[k] = used - tree.room[k]
        over += max(tree.load[k], 0.0)
    return over


@kernel
def put(graph: Graph, tree: Tree, count: int, choice: Int32s, spare: Floats) -> None:
    """Take over the choices found for the tree."""
    for i in range(count):
        v = tree.node[i]
        if tree.found[i] != choice[v]:
            more = graph.usage[graph.first[v] + tree.found[i]] - graph.usage[graph.first[v] + choice[v]]
            if more != 0.0:
                for t in range(graph.low[v], graph.high[v]):
                    spare[t] -= more
            choice[v] = tree.found[i]


@kernel
def search_prices(graph: Graph, tree: Tree, count: int, pieces: int, floor: float) -> bool:
    """Solve the tree at several prices; whether `found` passes the limit by less, or no more and costs no more."""
    before = tree_cost(graph, tree, count, tree.found)
    over_before = excess(graph, tree, count, pieces, tree.found)
    best, best_over = np.inf, over_before
    for tries in range(TRIES):
        solve_tree(graph, tree, count, pieces)
        cost = tree_cost(graph, tree, count, tree.solved)
        over = excess(graph, tree, count, pieces, tree.solved)
        if over < best_over or (over == best_over and cost < best):
            best, best_over = cost, over
            tree.found[:count] = tree.solved[:count]
        if over == 0.0 and tries >= ENOUGH:
            break
        for k in range(pieces):
            if over == 0.0:
                tree.price[k] *= CHEAPER
            elif tree.load[k] > 0.0:
                tree.price[k] = max(DEARER * tree.price[k], floor)
    return best_over < over_before or best <= before


@kernel
def improve(
    graph: Graph,
    tree: Tree,
    choice: Int32s,
    spare: Floats,
    price: Floats,
    floor: float,
    rng: np.random.Generator,
    steps: int,
    largest: int,
) -> None:
    """Change choices so that the limit is passed by less, or they cost less; never the other way.

    Args:
        graph: the model.
        tree: memory to work in.
        choice: int32 [n], changed in place.
        spare: float64 [T], the room that is left; changed in place.
        price: float64 [T], of a byte at each point, to begin with.
        floor: the least price of a piece of time whose limit was passed.
        rng: of random numbers.
        steps: how many trees.
        largest: nodes of the largest tree.
    """
    for _ in range(steps):
        count = random_tree(graph, tree, largest, rng)
        fill_base(graph, tree, count, choice)
        for i in range(count):
            tree.found[i] = choice[tree.node[i]]
        pieces = cut_time(graph, tree, count, choice, spare, price) if count else 0
        scale = 4.0 ** (2.0 * rng.random() - 1.5)
        for k in range(pieces):
            tree.price[k] *= scale
        if count and search_prices(graph, tree, count, pieces, floor):
            put(graph, tree, count, choice, spare)
        leave(tree, count)


@kernel
def kick(
    graph: Graph,
    tree: Tree,
    choice: Int32s,
    spare: Floats,
    price: Floats,
    rng: np.random.Generator,
    steps: int,
    largest: int,
) -> None:
    """Change some trees to what is best at prices, whatever becomes of the limit; arguments as of `improve`."""
    for _ in range(steps):
        count = random_tree(graph, tree, largest, rng)
        if not count:
            continue
        fill_base(graph, tree, count, choice)
        solve_tree(graph, tree, count, cut_time(graph, tree, count, choice, spare, price))
        tree.found[:count] = tree.solved[:count]
        put(graph, tree, count, choice, spare)
        leave(tree, count)
