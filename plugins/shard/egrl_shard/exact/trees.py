"""Improve a solution by solving trees of nodes exactly, with all other nodes as they are.

A step: nodes grow from a random one, each with at most one neighbour inside, so that they are a tree. The tree is
solved by dynamic programming at prices of memory. If its solution passes the limit, memory gets dearer and the tree is
solved again; if it fits, cheaper. The best that fits is kept. All sums are of doubles; who takes a solution adds it up
anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from egrl_shard.exact.graph import Floats, Graph, Int32s, Int64s
from hwsim.jit import kernel

HUB = 64
"""Of a node with more neighbours only this many are tried, unless a tree begins there."""


class Tree(NamedTuple):
    """Memory for a tree of up to n nodes, parents before children; what is in it is one row per node by its place.

    Attributes:
        place: int32 [n of the graph], the place of each node, -1 outside.
        node, parent, edge: int32, the node, its parent's place and the edge to it.
        row: int64, where a node's choices begin in `base` and `value`.
        base: what a choice costs by itself and with the nodes outside.
        value: what it costs with prices and all that is below.
        argument_at, argument: a child's best choice for each of its parent's.
        solved, found: int32, choices at the last prices, and the best ones.
        span: int64 [n + 1], where the spans of a node begin in `left` and `right`.
        left, right: int32, the pieces of time of a span: left .. right-1.
        mark: int32 [T + 1], the piece that begins at each point, 0 outside of `cut_time`.
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
    span: Int64s
    left: Int32s
    right: Int32s
    mark: Int32s
    room: Floats
    price: Floats
    total: Floats
    load: Floats


def tree_memory(graph: Graph) -> Tree:
    """Enough for any tree of the graph."""
    n, counts = graph.nodes, np.diff(graph.first)
    spans, points = len(graph.low), len(graph.room)
    pieces = min(2 * spans, points)
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
        span=np.zeros(n + 1, np.int64),
        left=ints(spans),
        right=ints(spans),
        mark=ints(points + 1),
        room=rows(pieces + 1),
        price=rows(pieces + 1),
        total=rows(pieces + 2),
        load=rows(pieces + 2),
    )


@kernel
def neighbours_inside(place: Int32s, near_node: Int32s, begin: int, end: int) -> int:
    """How many of the neighbours near_node[begin:end] are in the tree; more than one is 2."""
    inside = 0
    for q in range(begin, end):
        if place[near_node[q]] >= 0:
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
            if neighbours_inside(tree.place, graph.near_node, graph.near_at[w], graph.near_at[w + 1]) == 1:
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
            if tree.place[w] >= 0:  # in the tree: its edge is the business of `solve_tree`
                continue
            # A table has a row for each choice of the node with the smaller number.
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
def pass_up(
    table: Floats,
    at: int,
    to_next_row: int,
    to_next_column: int,
    value: Floats,
    up: int,
    rows: int,
    own: int,
    columns: int,
    argument: Int32s,
    arguments: int,
) -> None:
    """Add to value[up:up+rows] of a parent the least of its child, value[own:own+columns], with the table between them.

    Which choice of the child that is goes to argument[arguments:]. A kernel takes arrays faster than a tuple of them.
    """
    for y in range(rows):
        least, best = np.inf, 0
        entry = at + y * to_next_row
        for x in range(columns):
            cost = value[own + x] + table[entry]
            entry += to_next_column
            if cost < least:
                least, best = cost, x
        value[up + y] += least
        argument[arguments + y] = best


@kernel
def solve_tree(graph: Graph, tree: Tree, count: int, pieces: int) -> None:
    """The choices of least cost at the prices of the pieces, into `solved`."""
    tree.total[0] = 0.0
    for k in range(pieces):
        tree.total[k + 1] = tree.total[k] + tree.price[k]
    for i in range(count):
        own, width = tree.row[i], tree.row[i + 1] - tree.row[i]
        for x in range(width):
            tree.value[own + x] = tree.base[own + x]
        skip = graph.span_at[tree.node[i]] - tree.span[i]
        for k in range(tree.span[i], tree.span[i + 1]):
            byte, at = tree.total[tree.right[k]] - tree.total[tree.left[k]], graph.usage_at[skip + k]
            if byte != 0.0:
                for x in range(width):
                    tree.value[own + x] += byte * graph.usage[at + x]
    # Parents stand before children: from the end, each node is complete when it adds to its parent.
    for i in range(count - 1, 0, -1):
        p = tree.parent[i]
        own, up = tree.row[i], tree.row[p]
        rows, columns = tree.row[p + 1] - up, tree.row[i + 1] - own
        at = graph.at[tree.edge[i]]
        # The table of an edge has a row for each choice of the node that comes first.
        down, across = (columns, 1) if tree.node[p] < tree.node[i] else (1, rows)
        argument_at = tree.argument_at[i]
        pass_up(graph.table, at, down, across, tree.value, up, rows, own, columns, tree.argument, argument_at)
    # From the root on: the choice of a node decides which choice of each child is the cheapest.
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
    """Grow a tree of a random size at a random place; its number of nodes, 0 if there is nothing to choose."""
    most = int(SMALLEST * (max(largest, SMALLEST) / SMALLEST) ** rng.random())
    if len(graph.near_node) and rng.random() < FROM_EDGES:
        start = graph.near_node[rng.integers(0, len(graph.near_node))]
        most = max(most, min(largest, 2 * (graph.near_at[start + 1] - graph.near_at[start])))
    else:
        start = rng.integers(0, len(graph.first) - 1)
    if graph.first[start + 1] - graph.first[start] < 2:
        return 0
    return grow(graph, tree, start, most, rng)


SPARSE = 8
"""Where a tree has less than one span for so many points, its pieces are found by sorting rather than by marking."""


@kernel
def cut_time(graph: Graph, tree: Tree, count: int, choice: Int32s, spare: Floats, price: Floats) -> int:
    """Cut time where a span of the tree begins or ends: room and price of each piece; how many pieces."""
    tree.span[0] = 0
    for i in range(count):
        v = tree.node[i]
        tree.span[i + 1] = tree.span[i] + graph.span_at[v + 1] - graph.span_at[v]
    marks = marks_of(graph, tree, count, len(spare))
    pieces = max(len(marks) - 1, 0)
    for k in range(len(marks)):
        tree.mark[marks[k]] = k
    tree.load[: pieces + 1] = 0.0
    for i in range(count):
        v = tree.node[i]
        skip = graph.span_at[v] - tree.span[i]
        for k in range(tree.span[i], tree.span[i + 1]):
            tree.left[k], tree.right[k] = tree.mark[graph.low[skip + k]], tree.mark[graph.high[skip + k]]
            # Differences at the marks: their running sum is what the tree itself uses in a piece.
            used = graph.usage[graph.usage_at[skip + k] + choice[v]]
            tree.load[tree.left[k]] += used
            tree.load[tree.right[k]] -= used
    for k in range(len(marks)):
        tree.mark[marks[k]] = 0
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
def marks_of(graph: Graph, tree: Tree, count: int, points: int) -> Int64s:
    """The points at which a span of the tree begins or ends, in order."""
    spans = tree.span[count]
    if SPARSE * spans >= points:
        for i in range(count):
            for u in range(graph.span_at[tree.node[i]], graph.span_at[tree.node[i] + 1]):
                tree.mark[graph.low[u]] = 1
                tree.mark[graph.high[u]] = 1
        return np.flatnonzero(tree.mark)
    marks = np.empty(2 * spans, np.int64)
    at = 0
    for i in range(count):
        for u in range(graph.span_at[tree.node[i]], graph.span_at[tree.node[i] + 1]):
            marks[at], marks[at + 1] = graph.low[u], graph.high[u]
            at += 2
    return np.unique(marks)


@kernel
def excess(graph: Graph, tree: Tree, count: int, pieces: int, chosen: Int32s) -> float:
    """By how much choices [count] pass the room, added up over the pieces; by how much in each into `load`."""
    tree.load[: pieces + 1] = 0.0
    for i in range(count):
        skip = graph.span_at[tree.node[i]] - tree.span[i]
        for k in range(tree.span[i], tree.span[i + 1]):
            used = graph.usage[graph.usage_at[skip + k] + chosen[i]]
            tree.load[tree.left[k]] += used
            tree.load[tree.right[k]] -= used
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
            for u in range(graph.span_at[v], graph.span_at[v + 1]):
                at = graph.usage_at[u]
                more = graph.usage[at + tree.found[i]] - graph.usage[at + choice[v]]
                if more != 0.0:
                    for t in range(graph.low[u], graph.high[u]):
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
