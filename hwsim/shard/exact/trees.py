"""Trees of nodes within a graph, and their cheapest choices by dynamic programming."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hwsim.jit import kernel
from hwsim.shard.exact.graph import Floats, Graph, Int32s, Int64s

HUB = 64
"""Of a node with more neighbours only this many are tried, unless a tree begins there."""


class Tree(NamedTuple):
    """Memory for a tree of up to n nodes, parents before children; what is in it is a row a node by its place.

    Attributes:
        place: int32 [n of the graph], the place of each node, -1 outside.
        node, parent, edge: int32, the node, its parent's place and the edge to it.
        row: int64, where a node's choices begin in `base` and `value`.
        base: what a choice costs by itself and with the nodes outside.
        value: what it costs with prices and all that is below.
        argument_at, argument: a child's best choice for each of its parent's.
        solved, found: int32, choices at the last prices, and the best ones.
        left, right: int32, the pieces of time in which a node uses memory: left .. right-1.
        room, price, total, load: a row a piece of time: what may be used, what a byte costs, its sums, what is used.
    """

    place: Int32s
    node: Int32s
    parent: Int32s
    edge: Int32s
    row: Int64s
    base: Floats
    value: Floats
    argument_at: Int64s
    argument: Int32s
    solved: Int32s
    found: Int32s
    left: Int32s
    right: Int32s
    room: Floats
    price: Floats
    total: Floats
    load: Floats


def tree_memory(graph: Graph) -> Tree:
    """Enough for any tree of the graph."""
    n, counts = graph.nodes, np.diff(graph.first)
    arguments = int(np.maximum(counts[graph.a], counts[graph.b]).sum())

    def ints(count: int) -> Int32s:
        return np.zeros(count, np.int32)

    def rows(count: int) -> Floats:
        return np.zeros(count)

    return Tree(
        place=np.full(n, -1, np.int32),
        node=ints(n),
        parent=ints(n),
        edge=ints(n),
        row=np.zeros(n + 1, np.int64),
        base=rows(len(graph.cost)),
        value=rows(len(graph.cost)),
        argument_at=np.zeros(n + 1, np.int64),
        argument=ints(arguments),
        solved=ints(n),
        found=ints(n),
        left=ints(n),
        right=ints(n),
        room=rows(2 * n + 1),
        price=rows(2 * n + 1),
        total=rows(2 * n + 2),
        load=rows(2 * n + 2),
    )


@kernel
def neighbours_inside(graph: Graph, tree: Tree, v: int) -> int:
    """How many neighbours of v are in the tree; more than one is 2."""
    inside = 0
    for q in range(graph.near_at[v], graph.near_at[v + 1]):
        if tree.place[graph.near_node[q]] >= 0:
            inside += 1
            if inside > 1:
                break
    return inside


@kernel
def grow(graph: Graph, tree: Tree, start: int, most: int, rng: np.random.Generator) -> int:
    """Grow a tree of at most `most` nodes around `start`, breadth first; how many it has."""
    tree.place[start] = 0
    tree.node[0], tree.parent[0], tree.edge[0] = start, -1, -1
    count, head = 1, 0
    while head < count and count < most:
        v = tree.node[head]
        degree = graph.near_at[v + 1] - graph.near_at[v]
        offset = rng.integers(0, max(degree, 1))
        for i in range(degree if head == 0 else min(degree, HUB)):
            q = graph.near_at[v] + (offset + i) % degree
            w = graph.near_node[q]
            if tree.place[w] >= 0 or graph.first[w + 1] - graph.first[w] < 2:
                continue
            beside = graph.near_at[w + 1] - graph.near_at[w]
            if beside > HUB and rng.random() * beside > HUB:
                continue
            if neighbours_inside(graph, tree, w) == 1:
                tree.place[w] = count
                tree.node[count], tree.parent[count], tree.edge[count] = w, head, graph.near_edge[q]
                count += 1
                if count == most:
                    break
        head += 1
    return count


@kernel
def leave(tree: Tree, count: int) -> None:
    """Forget the tree."""
    for i in range(count):
        tree.place[tree.node[i]] = -1


@kernel
def fill_base(graph: Graph, tree: Tree, count: int, choice: Int32s) -> None:
    """What each choice of the tree's nodes costs by itself and with the nodes outside, into `base`."""
    for i in range(count):
        v = tree.node[i]
        width = graph.first[v + 1] - graph.first[v]
        base = tree.base[tree.row[i] : tree.row[i] + width]
        base[:] = graph.cost[graph.first[v] : graph.first[v + 1]]
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            w, e = graph.near_node[q], graph.near_edge[q]
            if tree.place[w] >= 0:
                continue
            if w < v:
                at = graph.at[e] + choice[w] * width
                for x in range(width):
                    base[x] += graph.table[at + x]
            else:
                step = graph.first[w + 1] - graph.first[w]
                at = graph.at[e] + choice[w]
                for x in range(width):
                    base[x] += graph.table[at + x * step]
        tree.row[i + 1] = tree.row[i] + width
        up = 0
        if i > 0:
            up = tree.row[tree.parent[i] + 1] - tree.row[tree.parent[i]]
        tree.argument_at[i + 1] = tree.argument_at[i] + up


@kernel
def pass_up(graph: Graph, tree: Tree, i: int) -> None:
    """Add to each choice of the i-th node's parent the least that the node costs with it."""
    p = tree.parent[i]
    own, up = tree.value[tree.row[i] : tree.row[i + 1]], tree.value[tree.row[p] : tree.row[p + 1]]
    argument = tree.argument[tree.argument_at[i] : tree.argument_at[i + 1]]
    table = graph.table[graph.at[tree.edge[i]] : graph.at[tree.edge[i] + 1]]
    rows, columns = len(up), len(own)
    if tree.node[p] < tree.node[i]:
        to_next_row, to_next_column = columns, 1
    else:
        to_next_row, to_next_column = 1, rows
    for y in range(rows):
        least, best = np.inf, 0
        at = y * to_next_row
        for x in range(columns):
            cost = own[x] + table[at]
            at += to_next_column
            if cost < least:
                least, best = cost, x
        up[y] += least
        argument[y] = best


@kernel
def solve_tree(graph: Graph, tree: Tree, count: int, pieces: int) -> None:
    """The choices of least cost at the prices of the pieces, into `solved`."""
    tree.total[0] = 0.0
    for k in range(pieces):
        tree.total[k + 1] = tree.total[k] + tree.price[k]
    for i in range(count):
        byte = tree.total[tree.right[i]] - tree.total[tree.left[i]]
        at, own = graph.first[tree.node[i]], tree.row[i]
        for x in range(tree.row[i + 1] - own):
            tree.value[own + x] = tree.base[own + x] + byte * graph.usage[at + x]
    for i in range(count - 1, 0, -1):
        pass_up(graph, tree, i)
    tree.solved[0] = tree.value[: tree.row[1]].argmin()
    for i in range(1, count):
        tree.solved[i] = tree.argument[tree.argument_at[i] + tree.solved[tree.parent[i]]]


@kernel
def tree_cost(graph: Graph, tree: Tree, count: int, chosen: Int32s) -> float:
    """What choices [count] of the tree cost, with the nodes outside, without prices."""
    total = 0.0
    for i in range(count):
        total += tree.base[tree.row[i] + chosen[i]]
        p = tree.parent[i]
        if p < 0:
            continue
        at = graph.at[tree.edge[i]]
        if tree.node[p] < tree.node[i]:
            total += graph.table[at + chosen[p] * (tree.row[i + 1] - tree.row[i]) + chosen[i]]
        else:
            total += graph.table[at + chosen[i] * (tree.row[p + 1] - tree.row[p]) + chosen[p]]
    return total
