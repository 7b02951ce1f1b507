"""Improve a solution by solving a region of nodes exactly, with all other nodes as they are.

Unlike a tree, a region may have cycles. Its nodes are eliminated one after the other: a node is replaced by a table
over its neighbours, of the least that it can cost. Where all tables would be too large, a node of many neighbours is
frozen: it stays as it is, and its neighbours have one less. The region is solved at several prices of memory, and the
best solution that fits is kept.

A few hundred tables of a region are work for numpy; each has another shape, so that there is no kernel for them.

Sources: bucket elimination (Dechter, 1999); freezing is the conditioning on a cutset of the same paper.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np

from egrl_shard.exact.graph import Floats, Graph, Int32s, Int64s, memory_cost, profile, total_cost
from egrl_shard.exact.solution import Solution
from egrl_shard.exact.starts import dearer

SMALLEST, LARGEST = 20, 600
"""Nodes of a region; sizes are spread evenly in their logarithm."""
LEAST_ENTRIES, MOST_ENTRIES = 1e3, 1e6
"""Of the largest table of an elimination; spread in the same way."""
TRIES = 8
"""Solutions of a region, each at other prices."""
RATE = 3.0
"""Of the first step of prices; the later ones are smaller."""
SPREAD = 0.5
"""Of the logarithm of the first prices."""


class Elimination(NamedTuple):
    """A node that is eliminated, and the nodes that its table is over: neighbours that are eliminated later."""

    node: int
    beside: tuple[int, ...]


class Part(NamedTuple):
    """A table [choices of nodes[0], choices of nodes[1], …] of what a region costs."""

    nodes: tuple[int, ...]
    table: Floats


class Regions:
    """Regions of a graph, for one thread."""

    def __init__(self, graph: Graph, rng: np.random.Generator) -> None:
        self._graph, self._rng = graph, rng
        self._counts: list[int] = np.diff(graph.first).tolist()

    def improve(self, solution: Solution, price: Floats, limit: float) -> None:
        """Solve one region; `solution`, a valid one, costs less afterwards, or no more.

        `price` is float64 [T], of a byte at each point, to begin with; `limit` that of the instance.
        """
        order = self.order(self.grow())
        inside = {step.node for step in order}
        parts = {v: self.parts(v, inside, solution.choice) for v in inside}
        price = price * np.exp(self._rng.normal(0.0, SPREAD))
        graph, choice = self._graph, solution.choice.copy()
        least = total_cost(graph, choice)
        for tries in range(TRIES):
            memory = memory_cost(graph, price)
            for v, chosen in self.solve(order, parts, memory).items():
                choice[v] = chosen
            cost = total_cost(graph, choice)
            if cost <= least and (profile(graph, choice) <= graph.room).all():
                least = cost
                solution.choice[:] = choice
            price = dearer(graph, price, choice, limit, RATE / (1 + tries))
        solution.refresh()

    def _near(self, v: int) -> Int32s:
        return self._graph.near_node[self._graph.near_at[v] : self._graph.near_at[v + 1]]

    def grow(self) -> set[int]:
        """Nodes around a random one, breadth first."""
        nodes = self._graph.nodes
        most = int(SMALLEST * (LARGEST / SMALLEST) ** self._rng.random())
        reached = [int(self._rng.integers(nodes))]
        region = set(reached)
        for v in reached:
            for w in self._rng.permutation(self._near(v)).tolist():
                if w not in region and len(region) < most:
                    region.add(w)
                    reached.append(w)
        return region

    def order(self, region: set[int]) -> list[Elimination]:
        """The nodes to eliminate, the one with the smallest table first; what is in none of them is frozen."""
        most = LEAST_ENTRIES * (MOST_ENTRIES / LEAST_ENTRIES) ** self._rng.random()
        near = {v: {w for w in self._near(v).tolist() if w in region} for v in region}

        def entries(v: int) -> int:
            return self._counts[v] * math.prod(self._counts[w] for w in near[v])

        heap = [(entries(v), v) for v in region]
        heapq.heapify(heap)
        order: list[tuple[int, set[int]]] = []
        frozen: set[int] = set()
        while heap:
            size, v = heapq.heappop(heap)
            if v not in near or size != (now := entries(v)):
                if v in near:
                    heapq.heappush(heap, (now, v))
                continue
            if size <= most:
                beside = near.pop(v)
                order.append((v, beside))
                for w in beside:
                    near[w] |= beside
                    near[w] -= {v, w}
            else:
                crowd = sorted({v, *near[v]})
                gone = max(crowd, key=lambda w: len(near[w]) * self._rng.random())
                frozen.add(gone)
                beside = near.pop(gone)
                for w in beside:
                    near[w].discard(gone)
            for w in (*beside, v):
                if w in near:
                    heapq.heappush(heap, (entries(w), w))
        # Nodes that were frozen later are in no table either.
        place = {v: i for i, (v, _) in enumerate(order)}
        return [Elimination(v, tuple(sorted(beside - frozen, key=place.__getitem__))) for v, beside in order]

    def parts(self, v: int, inside: set[int], choice: Int32s) -> list[Part]:
        """What a node costs by itself and with its neighbours outside; and the tables of its edges inside."""
        graph = self._graph
        own = graph.cost[graph.first[v] : graph.first[v + 1]].copy()
        parts = [Part((v,), own)]
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            w, e = int(graph.near_node[q]), graph.near_edge[q]
            table = graph.table[graph.at[e] : graph.at[e + 1]]
            table = table.reshape(self._counts[min(v, w)], self._counts[max(v, w)])
            if w not in inside:
                own += table[:, choice[w]] if v < w else table[choice[w]]
            elif v < w:
                parts.append(Part((v, w), table))
        return parts

    def solve(self, order: list[Elimination], parts: dict[int, list[Part]], memory: Floats) -> dict[int, int]:
        """The choices of least cost, where the memory of each choice costs `memory`, float64 [S]."""
        graph = self._graph
        place = {step.node: i for i, step in enumerate(order)}
        waiting: dict[int, list[Part]] = {step.node: [] for step in order}
        for v, own in parts.items():
            waiting[v].append(Part((v,), memory[graph.first[v] : graph.first[v + 1]]))
            for part in own:
                waiting[min(part.nodes, key=place.__getitem__)].append(part)
        best: list[Int64s] = []
        for v, beside in order:
            axes = (v, *beside)
            total = np.zeros([self._counts[w] for w in axes])
            for nodes, table in waiting.pop(v):
                # The axes of each table in the order of `axes`, those that it lacks with one entry.
                there = [w for w in axes if w in nodes]
                shape = [self._counts[w] if w in nodes else 1 for w in axes]
                total += table.transpose([nodes.index(w) for w in there]).reshape(shape)
            best.append(total.argmin(0))
            if beside:
                waiting[beside[0]].append(Part(beside, np.take_along_axis(total, best[-1][None], 0)[0]))
        chosen: dict[int, int] = {}
        for step, choices in zip(reversed(order), reversed(best), strict=True):
            chosen[step.node] = int(choices[tuple(chosen[w] for w in step.beside)])
        return chosen
