"""Relations of a graph that the solver uses: which node reaches which, and what follows from that for chips.

Three facts about an edge u -> w that is not the only path from u to w (it is *doubled*: inner nodes x lie on others),
under the rules of the MCM paper, section 3; proofs in papers/mcm/log/mcm.md:

- triangle: every inner node is on the chip of u or on that of w;
- no skipping: every chip strictly between those of u and w holds a node, which is neither an ancestor of u nor a
  descendant of w, nor, with the triangle rule, an inner node. So chip(w) - chip(u) <= 1 + the number of other nodes;
- only edges that are not doubled are needed to say who reaches whom.

The quick attempts read the same graph as `Positions`: renumbered so that every edge points to a later number, and with
edges as node numbers. `assignment.py` and `sweep.py` walk it front to back, and few arrays are passed to a call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.graph import Graph, topological
from hwsim.mcm.package import Constraints

MAX_INNER = 20_000_000
"""Inner nodes of all doubled edges together that are kept; beyond, edges with the most are left to the search."""


class Relations(NamedTuple):
    """Arrays of N nodes and E edges, read by the kernels. Lists are in rows: row i is list[start[i] : start[i + 1]].

    Attributes:
        edges: int64 [E, 2].
        order: int64 [N], nodes in an order in which every edge points forward: from the end, largest number first, so
            that copies of a node (`hwsim/mcm/network.py`) stand before their readers.
        out_start, out_edge: edges that leave a node, [N + 1] and [E].
        in_start, in_edge: edges that enter a node.
        single: bool [E], not doubled.
        slack: int64 [E], how much later than its source a reader's chip can be.
        inner_start, inner_node: inner nodes of each edge, [E + 1]; no inner nodes where the triangle rule is off.
        watch_start, watch_edge: doubled edges in which a node is an end or an inner node, [N + 1].
        weight: int64 [N], bytes.
        earliest, latest: int64 [N], no partition has a node on an earlier or a later chip (earliest > latest: there is
            none): what it reads, directly or not, fills chips before it, what reads it chips after it, and under the
            no-skip rule each chip before it holds a node that does not come after it.
        capacity: bytes of a chip, or -1 if memory is no rule.
        chips, no_skip, triangle: the rest of the rules (0 or 1).
    """

    edges: NDArray[np.int64]
    order: NDArray[np.int64]
    out_start: NDArray[np.int64]
    out_edge: NDArray[np.int64]
    in_start: NDArray[np.int64]
    in_edge: NDArray[np.int64]
    single: NDArray[np.bool_]
    slack: NDArray[np.int64]
    inner_start: NDArray[np.int64]
    inner_node: NDArray[np.int64]
    watch_start: NDArray[np.int64]
    watch_edge: NDArray[np.int64]
    weight: NDArray[np.int64]
    earliest: NDArray[np.int64]
    latest: NDArray[np.int64]
    capacity: int
    chips: int
    no_skip: int
    triangle: int


def relate(graph: Graph, chips: int, sram_bytes: int, rules: Constraints) -> Relations:
    """A graph under these rules, as the solver reads it.

    Raises:
        InputError: the graph has a cycle and the acyclic rule is on.
    """
    n = len(graph)
    edges = graph.edges if rules.acyclic else np.empty((0, 2), np.int64)
    order = n - 1 - topological(n, n - 1 - edges[:, ::-1])[::-1]
    out_start, out_edge = _rows(edges[:, 0], n)
    in_start, in_edge = _rows(edges[:, 1], n)
    after = _reached(order[::-1].copy(), out_start, out_edge, edges[:, 1].copy(), n)
    before = _reached(order, in_start, in_edge, edges[:, 0].copy(), n)
    inner = _inner_counts(edges, after, before)
    ancestors, descendants = _bits(before), _bits(after)
    others = n - 2 - ancestors[edges[:, 0]] - descendants[edges[:, 1]]
    if rules.triangle:
        others = others - inner
    # Each chip between source and reader must hold a node, and only so many nodes may lie there.
    slack = np.minimum(1 + others, chips) if rules.no_skip else np.full(len(edges), chips)
    kept = inner if rules.triangle else np.zeros_like(inner)
    if kept.sum() > MAX_INNER:
        # Keep the short lists: the search checks by itself what propagation then does not.
        smallest = np.argsort(kept, kind="stable")
        kept = kept.copy()
        kept[smallest[np.cumsum(kept[smallest]) > MAX_INNER]] = 0
    inner_start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    inner_node = _inner_nodes(edges, after, before, inner_start)
    doubled = np.flatnonzero(kept)
    of = np.concatenate([np.repeat(np.arange(len(edges)), kept), doubled, doubled])
    who = np.concatenate([inner_node, edges[doubled, 0], edges[doubled, 1]])
    watch_start, at = _rows(who, n)
    latest = np.minimum(n - 1 - descendants, chips - 1) if rules.no_skip else np.full(n, chips - 1)
    earliest = np.zeros(n, np.int64)
    if rules.memory:
        weight = graph.weight_bytes
        # -(-a // b) is a division that rounds up: chips that the bytes need, whatever is packed with them.
        earliest = np.maximum(-(-(_held(before, weight) + weight) // sram_bytes) - 1, 0)
        latest = np.minimum(latest, chips - -(-(_held(after, weight) + weight) // sram_bytes))
    return Relations(
        np.ascontiguousarray(edges),
        order,
        out_start,
        out_edge,
        in_start,
        in_edge,
        inner == 0,
        slack.astype(np.int64),
        inner_start,
        inner_node,
        watch_start,
        of[at].astype(np.int64),
        graph.weight_bytes,
        earliest.astype(np.int64),
        latest.astype(np.int64),
        sram_bytes if rules.memory else -1,
        chips,
        int(rules.no_skip),
        int(rules.triangle),
    )


def _rows(key: NDArray[np.int64], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of each key from 0 to n - 1, as rows: starts int64 [n + 1] and positions."""
    start = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=n))]).astype(np.int64)
    return start, np.argsort(key, kind="stable").astype(np.int64)


def _bits(sets: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many bits are set in each row."""
    return np.array([int(np.unpackbits(row.view(np.uint8)).sum()) for row in sets], np.int64)


@kernel
def _reached(
    order: NDArray[np.int64],
    start: NDArray[np.int64],
    edge: NDArray[np.int64],
    end: NDArray[np.int64],
    n: int,
) -> NDArray[np.uint64]:
    """Sets of nodes as bits, uint64 [n, ceil(n / 64)]: those that each node reaches, itself not one of them."""
    words = (n + 63) // 64
    out = np.zeros((n, words), np.uint64)
    # In this order every node comes after those that it leads to, whose sets are therefore complete.
    for v in order:
        for k in range(start[v], start[v + 1]):
            w = end[edge[k]]
            for i in range(words):
                out[v, i] |= out[w, i]
            out[v, w >> 6] |= np.uint64(1) << np.uint64(w & 63)
    return out


@kernel
def _held(sets: NDArray[np.uint64], weight: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of the nodes in each set, int64 [n]."""
    out = np.zeros(len(sets), np.int64)
    for v in range(len(sets)):
        for w in range(len(weight)):
            if sets[v, w >> 6] >> np.uint64(w & 63) & np.uint64(1):
                out[v] += weight[w]
    return out


@kernel
def _inner_counts(
    edges: NDArray[np.int64], after: NDArray[np.uint64], before: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Inner nodes of each edge, int64 [E]."""
    out = np.zeros(len(edges), np.int64)
    for e in range(len(edges)):
        u, w = edges[e]
        for i in range(after.shape[1]):
            # After the edge's source and before its reader: each turn clears the lowest bit of the word.
            word = after[u, i] & before[w, i]
            while word:
                word &= word - np.uint64(1)
                out[e] += 1
    return out


@kernel
def _inner_nodes(
    edges: NDArray[np.int64],
    after: NDArray[np.uint64],
    before: NDArray[np.uint64],
    start: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Inner nodes of each edge in rows, for edges whose row is not empty."""
    out = np.empty(start[-1], np.int64)
    for e in range(len(edges)):
        at = start[e]
        if start[e + 1] == at:  # no inner node, or an edge that nobody asks about
            continue
        u, w = edges[e]
        for i in range(after.shape[1]):
            word = after[u, i] & before[w, i]
            if word:
                for bit in range(64):
                    if word >> np.uint64(bit) & np.uint64(1):
                        out[at] = i * 64 + bit
                        at += 1
    return out


class Positions(NamedTuple):
    """Arrays of N positions. Row i of a list is list[start[i] : start[i + 1]].

    Attributes:
        node: int64 [N], the node at a position; order, its inverse.
        out_start, out: positions that read a position.
        into_start, into: positions that a position reads.
        earliest, latest: int64 [N], bounds of the chip in every partition.
        weight: int64 [N], bytes.
        inner_start, inner: doubled edges (numbers 0 to D - 1) of which a position is an inner node.
        source, reader: int64 [D], positions of the ends of doubled edges.
        inner_weight: int64 [D], bytes of all inner nodes of a doubled edge.
        capacity: bytes of a chip; more than all weights where memory is no rule.
        chips, no_skip, triangle: the rest of the rules (0 or 1).
    """

    node: NDArray[np.int64]
    order: NDArray[np.int64]
    out_start: NDArray[np.int64]
    out: NDArray[np.int64]
    into_start: NDArray[np.int64]
    into: NDArray[np.int64]
    earliest: NDArray[np.int64]
    latest: NDArray[np.int64]
    weight: NDArray[np.int64]
    inner_start: NDArray[np.int64]
    inner: NDArray[np.int64]
    source: NDArray[np.int64]
    reader: NDArray[np.int64]
    inner_weight: NDArray[np.int64]
    capacity: int
    chips: int
    no_skip: int
    triangle: int


def positions_of(relations: Relations) -> Positions:
    """The arrays of `relations`, renumbered by position."""
    count = len(relations.weight)
    position = np.empty(count, np.int64)
    position[relations.order] = np.arange(count)
    tail, head = position[relations.edges[:, 0]], position[relations.edges[:, 1]]
    inner = np.diff(relations.inner_start)
    doubled = np.flatnonzero(inner)
    out_start, out = _sorted_rows(tail, head, count)
    into_start, into = _sorted_rows(head, tail, count)
    doubled_of = np.repeat(np.arange(len(doubled)), inner[doubled])
    inner_weight = np.zeros(len(doubled), np.int64)
    np.add.at(inner_weight, doubled_of, relations.weight[relations.inner_node])
    inner_start, inner_edge = _sorted_rows(position[relations.inner_node], doubled_of, count)
    return Positions(
        relations.order,
        position,
        out_start,
        out,
        into_start,
        into,
        np.ascontiguousarray(relations.earliest[relations.order]),
        np.ascontiguousarray(relations.latest[relations.order]),
        np.ascontiguousarray(relations.weight[relations.order]),
        inner_start,
        inner_edge,
        tail[doubled],
        head[doubled],
        inner_weight,
        relations.capacity if relations.capacity >= 0 else int(relations.weight.sum()) + 1,
        relations.chips,
        relations.no_skip,
        relations.triangle,
    )


def _sorted_rows(
    key: NDArray[np.int64], value: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Values by key from 0 to count - 1, ascending, as rows: starts int64 [count + 1] and values."""
    start = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=count))]).astype(np.int64)
    return start, np.ascontiguousarray(value[np.lexsort((value, key))], np.int64)
