"""From which tensors are kept to the best schedule that keeps them: subgraphs, what stays in fast memory, the order.

A subgraph ends at a tensor that is kept and holds all ops between it and other kept tensors or inputs of the graph, so
that an op between is run again in each subgraph that needs it. What is kept is thus all that is to decide:

- The best tiles of a subgraph do not depend on the others (`cost.best_grain`).
- A tensor stays in fast memory for the next step alone, so that it can stay only if one subgraph reads it, which comes
  next. Any choice of such pairs in which no subgraph has two of them has an order: on each path from the first of a
  pair to anything else lies the second. The pairs form trees, and the best choice follows from the leaves down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from mlsys2026.cost import ALONG_COLUMNS, FROM_THE_END, LAST_LINE_FIRST, best_grain, choices
from mlsys2026.instance import Instance
from mlsys2026.plan import Plan, build_plan
from mlsys2026.schedule import Step

MOST_OPS = 40
"""Of a subgraph: larger ones are not tried."""
NEAR = 1.0 + 1e-12


Best = tuple[float, tuple[int, int, int], int]
"""A latency, the granularity and the order of tiles that lead to it."""
NOTHING: Best = (np.inf, (1, 1, 1), 0)


@dataclass(eq=False)
class Group:
    """A subgraph and what it takes: by resident tensor (-1: none) and whether its output stays."""

    sink: int
    plan: Plan
    floor: float
    found: dict[tuple[int, bool], Best] = field(default_factory=dict)


@dataclass(frozen=True)
class Stays:
    """The best latency of a subgraph with all that has to come before it, and the op whose output is then resident."""

    cost: float
    child: int


class Book:
    """All that is known of the subgraphs of an instance, each worked out once."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.chip = np.array(
            [instance.capacity, instance.bandwidth, *instance.native, instance.tiles_divide], np.int64
        )
        self.sizes = np.array([instance.size(t) for t in range(len(instance.widths))], np.int64)
        self._groups: dict[tuple[int, frozenset[int]], Group] = {}
        self.fixed = tuple(instance.is_output(t) for t in instance.outputs)
        """For each op, True if its output is an output of the graph, which is always kept."""
        self.rank = [0] * len(instance)
        for place, op in enumerate(instance.order):
            self.rank[op] = place

    def inside(self, sink: int, kept: Sequence[bool]) -> frozenset[int]:
        """The ops of the subgraph that ends at an op."""
        found, pending = {sink}, [sink]
        instance = self.instance
        while pending:
            for tensor in instance.inputs[pending.pop()]:
                op = instance.producer[tensor]
                if op >= 0 and not kept[op] and op not in found:
                    found.add(op)
                    pending.append(op)
        return frozenset(found)

    def group(self, sink: int, ops: frozenset[int]) -> Group:
        """The subgraph with these ops."""
        known = self._groups.get((sink, ops))
        if known is None:
            plan = build_plan(self.instance, sink, ops, self.chip, self.sizes)
            known = Group(sink, plan, sum(self.compute_floor(op) for op in ops))
            self._groups[sink, ops] = known
        return known

    def compute_floor(self, op: int) -> float:
        """The least time that an op computes, in whole native tiles (proof: `bound.py`)."""
        instance, out = self.instance, self.instance.outputs[op]
        wholes = (instance.widths[out], instance.heights[out])
        sides = [Fraction(whole, native) for whole, native in zip(wholes, instance.native, strict=True)]
        if not instance.matmul[op]:
            return float(instance.base_costs[op] * math.ceil(sides[0]) * math.ceil(sides[1]))
        depth = Fraction(instance.depth(op), instance.native[0])
        return float(instance.base_costs[op] * sides[0] * sides[1] * depth)

    def cost(self, group: Group, tensor: int, retain: bool) -> float:
        """The best latency of a subgraph; infinite if no tile fits."""
        return self._best(group, tensor, retain)[0]

    def _best(self, group: Group, tensor: int, retain: bool) -> Best:
        known = group.found.get((tensor, retain))
        if known is None:
            known = self._worked_out(group, tensor, retain)
            group.found[tensor, retain] = known
        return known

    def _worked_out(self, group: Group, tensor: int, retain: bool) -> Best:
        plan = group.plan
        if len(plan.ops) > MOST_OPS:
            return NOTHING
        (columns, rows), divide = self.instance.native, self.instance.tiles_divide
        wide, high = choices(plan.width, columns, divide), choices(plan.height, rows, divide)
        best = best_grain(plan.made, wide, high, tensor, retain, group.floor * NEAR)
        return float(best[0]), (int(best[1]), int(best[2]), int(best[3])), int(best[4])

    def groups(self, kept: Sequence[bool]) -> dict[int, Group]:
        """The subgraph of each kept op."""
        return {op: self.group(op, self.inside(op, kept)) for op in range(len(kept)) if kept[op]}

    def stays(self, groups: dict[int, Group]) -> tuple[float, dict[tuple[int, bool], Stays]]:
        """The cost of the best schedule with these subgraphs, and the best choice for each op, if it stays and if
        not."""
        readers: dict[int, int] = {}
        for op, group in groups.items():
            for tensor in group.plan.external:
                readers[tensor] = -1 if tensor in readers else op
        best: dict[tuple[int, bool], Stays] = {}
        total = 0.0
        for op in sorted(groups, key=self.rank.__getitem__):
            total += self._settle(groups, op, readers, best)
        return total, best

    def _settle(
        self,
        groups: dict[int, Group],
        op: int,
        readers: dict[int, int],
        best: dict[tuple[int, bool], Stays],
    ) -> float:
        """Settle one subgraph; returns what it adds to the total, with all that was settled for it."""
        group, instance = groups[op], self.instance
        plain = self.cost(group, -1, False)
        best[op, False] = Stays(plain, -1)
        out = instance.outputs[op]
        may_stay = not self.fixed[op] and readers.get(out, -1) >= 0 and self.sizes[out] <= instance.capacity
        if may_stay:
            best[op, True] = Stays(self.cost(group, -1, True), -1)
        for tensor in group.plan.external:
            child = instance.producer[tensor]
            extra = best.get((child, True))
            if extra is None:
                continue
            more = extra.cost - best[child, False].cost
            for retain in (False, True) if may_stay else (False,):
                if group.floor + more < best[op, retain].cost / NEAR:  # else it gains nothing
                    took = self.cost(group, tensor, retain) + more
                    if took < best[op, retain].cost:
                        best[op, retain] = Stays(took, child)
        return best[op, False].cost

    def schedule(self, kept: Sequence[bool]) -> list[Step]:
        """The best schedule that keeps these tensors."""
        groups = self.groups(kept)
        _, best = self.stays(groups)
        resident: dict[int, int] = {}  # op -> the op whose output is resident while it runs
        retained: set[int] = set()
        for op in sorted(groups, key=self.rank.__getitem__, reverse=True):
            child = best[op, op in retained].child
            if child >= 0:
                resident[op] = child
                retained.add(child)
        return [
            self._step(groups[op], resident.get(op, -1), op in retained)
            for op in self._order(groups, resident)
        ]

    def _order(self, groups: dict[int, Group], resident: dict[int, int]) -> list[int]:
        """An order in which each subgraph comes after what it reads, and directly after what stays for it."""
        producer = self.instance.producer
        chains: list[list[int]] = []
        for last in sorted(set(groups) - set(resident.values()), key=self.rank.__getitem__):
            chain = [last]
            while chain[0] in resident:
                chain.insert(0, resident[chain[0]])
            chains.append(chain)
        needs = {op: {producer[t] for t in group.plan.external} - {-1} for op, group in groups.items()}
        order: list[int] = []
        while chains:
            ready = next(chain for chain in chains if all(needs[op] <= {*order, *chain} for op in chain))
            order += ready
            chains.remove(ready)
        return order

    def _step(self, group: Group, child: int, retain: bool) -> Step:
        instance = self.instance
        tensor = -1 if child < 0 else instance.outputs[child]
        _, grain, order = self._best(group, tensor, retain)
        return Step(
            group.plan.ops,
            grain,
            (instance.outputs[group.sink],) if retain else (),
            snake(group.plan.width, group.plan.height, grain, order),
        )


def snake(width: int, height: int, grain: tuple[int, int, int], order: int) -> tuple[int, ...] | None:
    """The numbers of the tiles in an order of `cost.py`: every other line runs backwards. None for a single tile."""
    across, down = -(-width // grain[0]), -(-height // grain[1])
    if across * down == 1:
        return None
    tiles = np.arange(across * down).reshape(down, across)
    lines = tiles.T if order & ALONG_COLUMNS else tiles
    if order & LAST_LINE_FIRST:
        lines = lines[::-1]
    if order & FROM_THE_END:
        lines = lines[:, ::-1]
    return tuple(np.concatenate([line[:: -1 if at % 2 else 1] for at, line in enumerate(lines)]).tolist())
