"""What no schedule can beat, and why.

Computing. An op runs in at least one step, there for slices that together cover its output, since a matrix product
needs all of its inputs and a pointwise op the same part of each. By R2 slices take no less than the native tiles of
the whole output, times the depth. So the ops together take at least `Book.compute_floor` of each; and a step takes no
less than it computes, because it is a sum of moments, each at least as long as its computing (R10).

Moving. A graph input is loaded at least once, and a graph output stored at least once, in whole: inputs cannot be
retained without being loaded (R8), and what a tile or slice leaves out another one needs.

Covers (small instances). A schedule has a set M of outputs of steps, with all outputs of the graph, and each step
reads only inputs of the graph and members of M. So it costs at least the least, over all M, of the sum over M of the
cheapest subgraph that ends there and reads only what M has. For each subgraph `cost.least_latency` looks at all
widths, heights and depths, with a bound on all orders of tiles. Where a tensor could stay in fast memory, the
cheapest way counts for every subgraph, whether or not these ways fit together. This is proved in floating point; the
bound gives away a millionth of a millionth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from mlsys2026.cost import least_latency
from mlsys2026.grouping import Book, Group

MOST_OPS = 6
MOST_TILES = 2**18
"""Of widths times heights of a tile: more would take too long."""
ROUNDING = 1 - 1e-12
WORK = 20_000
"""Tiles and depths that are looked at in one piece."""


def simple_bound(book: Book) -> tuple[float, str]:
    """The better of computing and moving, and which it is."""
    instance = book.instance
    computing = math.fsum(map(book.compute_floor, range(len(instance))))
    moved = sum(
        instance.size(t) for t, op in enumerate(instance.producer) if (op < 0) != instance.is_output(t)
    )
    moving = moved / instance.bandwidth
    if computing >= moving:
        return computing * ROUNDING, "all ops compute whole native tiles"
    return moving * ROUNDING, "all inputs are loaded, and all outputs stored, once"


class Covers:
    """The bound over all covers of a small instance, sharper with every subgraph that is looked at.

    Attributes:
        cost: the bound so far.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        groups = [
            book.group(sink, ops) for sink in range(len(book.instance)) for ops in self._subgraphs(sink)
        ]
        self._least = {group: self._first(group) for group in groups}
        self._looked: set[Group] = set()
        self._under_way: Iterator[float | None] | None = None
        self.cost = 0.0
        self._cover: list[Group] = []
        self._choose()

    @staticmethod
    def serves(book: Book) -> bool:
        """True if the instance is small enough, and of shapes for which moments can be joined in the proof."""
        instance = book.instance
        areas = (instance.size(t) for t in instance.outputs)
        deep = (instance.depth(op) for op in range(len(instance)) if instance.matmul[op])
        return (
            len(instance) <= MOST_OPS
            and max(areas) <= MOST_TILES
            and all(depth % native == 0 for depth in deep for native in instance.native)
        )

    def look(self, known: float) -> bool:
        """Look at a piece of one more subgraph of the cheapest cover, for about a tenth of a second.

        False if the bound is `known`, or all of the cover has been looked at.
        """
        rough = next((group for group in self._cover if group not in self._looked), None)
        if rough is None or self.cost >= known * ROUNDING:
            return False
        if self._under_way is None:
            self._under_way = self._pieces(rough, known)
        least = next(self._under_way)
        if least is not None:
            self._under_way = None
            self._looked.add(rough)
            self._least[rough] = least
            self._choose()
        return True

    def _subgraphs(self, sink: int) -> Iterator[frozenset[int]]:
        """All sets of ops of which only `sink` has an output that none of them reads."""
        instance = self._book.instance
        above, pending = set(), [sink]
        while pending:
            for tensor in instance.inputs[pending.pop()]:
                op = instance.producer[tensor]
                if op >= 0 and op not in above:
                    above.add(op)
                    pending.append(op)
        for count in range(len(above) + 1):
            for chosen in itertools.combinations(sorted(above), count):
                ops = frozenset((*chosen, sink))
                if all(ops & set(instance.consumers[instance.outputs[op]]) for op in chosen):
                    yield ops

    def _first(self, group: Group) -> float:
        """What a subgraph computes, or moves if nothing stays in fast memory."""
        instance, plan = self._book.instance, group.plan
        moved = sum(instance.size(t) for t in plan.external if not self._fits(t))
        moved += 0 if self._fits(instance.outputs[group.sink]) else plan.width * plan.height
        return max(group.floor, moved / instance.bandwidth)

    def _fits(self, tensor: int) -> bool:
        """True if the tensor can stay in fast memory."""
        instance = self._book.instance
        passed_on = instance.producer[tensor] >= 0 and not instance.is_output(tensor)
        return passed_on and instance.size(tensor) <= instance.capacity

    def _pieces(self, group: Group, known: float) -> Iterator[float | None]:
        """In the end at most the latency of a subgraph, whatever stays in fast memory, or `known`; before that None."""
        instance, plan, book = self._book.instance, group.plan, self._book
        shape = np.array([plan.width, plan.height, plan.sink_matmul, plan.roots], np.int64)
        at = np.array([known, 0.0, 0.0])
        for tensor in (-1, *(t for t in plan.external if self._fits(t))):
            for retain in (False, True) if self._fits(instance.outputs[group.sink]) else (False,):
                at[0], at[1], at[2] = min(at[0], book.cost(group, tensor, retain)), plan.width, plan.height
                while at[1] >= 1:
                    least_latency(
                        plan.loads,
                        plan.runs,
                        shape,
                        plan.depths,
                        book.chip,
                        book.sizes,
                        tensor,
                        retain,
                        at,
                        WORK,
                    )
                    yield None
        yield float(at[0])

    def _choose(self) -> None:
        """The cheapest cover by what is known."""
        instance = self._book.instance
        outputs = {op for op, fixed in enumerate(self._book.fixed) if fixed}
        free = [op for op in range(len(instance)) if op not in outputs]
        self.cost = math.inf
        for count in range(len(free) + 1):
            for more in itertools.combinations(free, count):
                chosen = [self._cheapest(sink, outputs | set(more)) for sink in (*outputs, *more)]
                total = math.fsum(map(self._least.__getitem__, chosen))
                if total < self.cost:
                    self.cost, self._cover = total, chosen
        self.cost *= ROUNDING

    def _cheapest(self, sink: int, kept: set[int]) -> Group:
        """The cheapest subgraph that ends at an op and reads only what is kept."""
        instance = self._book.instance
        fitting = (
            group
            for group in self._least
            if group.sink == sink
            and all(instance.producer[t] < 0 or instance.producer[t] in kept for t in group.plan.external)
        )
        return min(fitting, key=self._least.__getitem__)
