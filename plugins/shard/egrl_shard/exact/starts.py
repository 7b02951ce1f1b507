"""Solutions to begin with: read off messages, at prices that are shaken.

A dive avoids forbidden pairs: each choice is followed by what it rules out. If every choice of a node rules out all
choices of another, the first is taken as it is, and nothing follows from it.

Source of the dive: maintaining arc consistency (Sabin and Freuder, 1994), without search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_shard.exact.graph import ALLOWED, Floats, Graph, Int32s, memory_cost, profile
from egrl_shard.exact.messages import Messages, believe, decode, sweep
from hwsim.jit import kernel


class Domains(NamedTuple):
    """What is left to choose from.

    Attributes:
        alive: bool [S].
        left: int32 [n], how many choices of a node are alive.
        trail: int32 [S], the choices taken away, in order; `ends` int64 [1] says how many.
        queue, waits: int32 [n], bool [n], nodes of which choices went, and whether a node is among them.
    """

    alive: NDArray[np.bool_]
    left: Int32s
    trail: Int32s
    ends: NDArray[np.int64]
    queue: Int32s
    waits: NDArray[np.bool_]


@kernel
def strict_edges(graph: Graph) -> NDArray[np.bool_]:
    """bool [E]: whether an edge forbids a pair."""
    strict = np.zeros(len(graph.a), np.bool_)
    for e in range(len(graph.a)):
        for i in range(graph.at[e], graph.at[e + 1]):
            if graph.table[i] >= ALLOWED:
                strict[e] = True
                break
    return strict


@kernel
def take_away(graph: Graph, d: Domains, v: int, s: int) -> None:
    """Choice s of node v goes."""
    d.alive[graph.first[v] + s] = False
    d.left[v] -= 1
    d.trail[d.ends[0]] = graph.first[v] + s
    d.ends[0] += 1


@kernel
def revise(graph: Graph, d: Domains, v: int, w: int, e: int) -> bool:
    """Take away the choices of w without a partner alive at v; whether any went."""
    own, other = graph.first[v + 1] - graph.first[v], graph.first[w + 1] - graph.first[w]
    across, along = (other, 1) if v < w else (1, own)
    gone = False
    for t in range(other):
        if not d.alive[graph.first[w] + t]:
            continue
        found = False
        for s in range(own):
            if d.alive[graph.first[v] + s] and graph.table[graph.at[e] + s * across + t * along] < ALLOWED:
                found = True
                break
        if not found:
            take_away(graph, d, w, t)
            gone = True
    return gone


@kernel
def follow(graph: Graph, d: Domains, strict: NDArray[np.bool_], start: int) -> bool:
    """Take away all that the choices left at `start` rule out; False if a node has none left."""
    head, tail, nodes = 0, 1, len(d.queue)
    d.queue[0] = start
    d.waits[start] = True
    sound = True
    while head < tail:
        v = d.queue[head % nodes]
        head += 1
        d.waits[v] = False
        if not sound:
            continue
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            w, e = graph.near_node[q], graph.near_edge[q]
            if strict[e] and revise(graph, d, v, w, e):
                if d.left[w] == 0:
                    sound = False
                    break
                if not d.waits[w]:
                    d.waits[w] = True
                    d.queue[tail % nodes] = w
                    tail += 1
    return sound


@kernel
def undo(d: Domains, owner: Int32s, ends: int) -> None:
    """Bring back all choices that went since the trail had `ends`."""
    while d.ends[0] > ends:
        d.ends[0] -= 1
        row = d.trail[d.ends[0]]
        d.alive[row] = True
        d.left[owner[row]] += 1


@kernel
def dive(graph: Graph, messages: Messages, own: Floats) -> Int32s:
    """Choices int32 [n], one node after the other; `own` as of `decode`."""
    nodes = len(graph.first) - 1
    counts = np.diff(graph.first)
    rows = len(graph.cost)
    owner = np.zeros(rows, np.int32)
    for v in range(nodes):
        owner[graph.first[v] : graph.first[v + 1]] = v
    d = Domains(
        np.ones(rows, np.bool_),
        counts.astype(np.int32),
        np.zeros(rows, np.int32),
        np.zeros(1, np.int64),
        np.zeros(nodes, np.int32),
        np.zeros(nodes, np.bool_),
    )
    strict = strict_edges(graph)
    chosen = np.zeros(nodes, np.int32)
    belief = np.zeros(counts.max())
    for v in range(nodes):
        believe(graph, messages, own, chosen, v, belief)
        order = np.argsort(belief[: counts[v]])
        # The most promising choice first. One that leaves another node without a choice is undone, and the next tried.
        sound = False
        first = -1
        for s in order:
            if not d.alive[graph.first[v] + s]:
                continue
            if first < 0:
                first = s
            ends = d.ends[0]
            for t in range(counts[v]):
                if t != s and d.alive[graph.first[v] + t]:
                    take_away(graph, d, v, t)
            sound = d.ends[0] == ends or follow(graph, d, strict, v)
            if sound:
                chosen[v] = s
                break
            undo(d, owner, ends)
        # If none is sound the best is kept: what it breaks is left to the search.
        if not sound:
            chosen[v] = max(first, 0)
    return chosen


MOST_STEP = 0.5
"""Of the logarithm of a price, in one step."""


def dearer(graph: Graph, price: Floats, choice: Int32s, limit: float, rate: float) -> Floats:
    """Prices float64 [T] after a step: they rise where choices pass the limit, and fall where there is room."""
    over = (profile(graph, choice) - graph.room) / limit
    moved: Floats = price * np.exp(np.clip(rate * over, -MOST_STEP, MOST_STEP))
    return moved


def shaken_start(
    graph: Graph, messages: Messages, price: Floats, limit: float, rng: np.random.Generator
) -> Int32s:
    """A solution from messages at shaken prices, int32 [n], by a dive or by decoding; the messages are changed."""
    read = dive if rng.random() < 0.5 else decode
    noise = rng.normal(0.0, rng.choice([0.0, 0.2, 0.7]), 1 + rng.integers(0, 12))
    windows = np.sort(rng.integers(0, len(price) + 1, len(noise) - 1))
    price = price * np.exp(np.repeat(noise, np.diff([0, *windows, len(price)])))
    rate = float(rng.choice([0.3, 1.0, 3.0]))
    for _ in range(int(rng.integers(1, 8))):
        own = graph.cost + memory_cost(graph, price)
        sweep(graph, messages, own, True)
        choice = read(graph, messages, own)
        price = dearer(graph, price, choice, limit, rate)
        sweep(graph, messages, own, False)
    return choice
