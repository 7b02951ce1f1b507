"""What no schedule can beat, and why.

Computing. An op runs in at least one step, there for slices that together cover its output, since a matrix product
needs all of its inputs and a pointwise op the same part of each. By R2 slices take no less than the native tiles of
the whole output, times the depth. So the ops together take at least `Book.compute_floor` of each; and a step takes no
less than it computes, because it is a sum of moments, each at least as long as its computing (R10).

Moving. A graph input is loaded at least once, and a graph output stored at least once, in whole: inputs cannot be
retained without being loaded (R8), and what a tile or slice leaves out another one needs.

Covers (small instances). A schedule has a set M of outputs of steps, with all outputs of the graph, and each step
reads only inputs of the graph and members of M. Some ops are *shared*: more than one way leads from them to outputs of
the graph. For a given choice of the shared ops in M, the cost is at least the sum of

- for each of these, the cheapest subgraph that ends there and reads only inputs and shared ops in M (what lies before
  a shared op is shared);
- for each output of the graph, the cheapest subgraph that ends there, and so on for all else that it reads.

For these steps are different ones: an op that is not shared has one reader, which belongs to no two of the steps chosen
for an output, since one that has it inside has all the way down to its own end inside. So the bound is the least, over
all choices of shared ops in M, of that sum. For each subgraph `cost.least_latency` looks at all widths, heights and
depths, with a bound on all orders of tiles. Where a tensor could stay in fast memory, the cheapest way counts for every
subgraph, whether or not these ways fit together. A subgraph of the cheapest cover is looked at only until the cover is
known to cost no less than the best schedule. This is proved in floating point; the bound gives away a millionth of a
millionth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from mlsys2026.cost import least_latency
from mlsys2026.grouping import Book, Group
from mlsys2026.instance import Instance

MOST_SHARED, MOST_OPS = 6, 24
MOST_GROUPS = 4096
MOST_TILES = 2**19
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
        self._shared = shared_ops(book.instance)
        self._ending: list[list[Group]] = [[] for _ in range(len(book.instance))]
        self._kind: dict[Group, str] = {}
        self._least: dict[str, float] = {}
        for sink in range(len(book.instance)):
            for ops in subgraphs(book, sink):
                group = book.group(sink, ops)
                self._ending[sink].append(group)
                kind = self._kind[group] = self._kind_of(group)
                self._least[kind] = self._first(group)
        self._looked: set[str] = set()
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
            and len(shared_ops(instance)) <= MOST_SHARED
            and max(areas) <= MOST_TILES
            and all(depth % native == 0 for depth in deep for native in instance.native)
            and sum(len(subgraphs(book, sink)) for sink in range(len(instance))) <= MOST_GROUPS
        )

    def look(self, known: float) -> bool:
        """Look at a piece of one more subgraph of the cheapest cover, for about a tenth of a second.

        False if the bound is `known`, or all of the cover has been looked at.
        """
        rough = next((group for group in self._cover if self._kind[group] not in self._looked), None)
        if rough is None or self.cost >= known * ROUNDING:
            return False
        if self._under_way is None:
            self._under_way = self._pieces(rough, self._least[self._kind[rough]] + known - self.cost)
        least = next(self._under_way)
        if least is not None:
            self._under_way = None
            self._looked.add(self._kind[rough])
            self._least[self._kind[rough]] = least
            self._choose()
        return True

    def _kind_of(self, group: Group) -> str:
        """Equal for subgraphs that differ in nothing but the numbers of tensors and ops."""
        plan, tables = group.plan, []
        for table, fits in ((plan.made.loads, self._fits), (plan.made.runs, lambda op: False)):
            rows: dict[int, list[list[int]]] = {}
            for first, *rest in table.tolist():
                rows.setdefault(first, []).append(rest)
            tables.append(sorted((fits(each), sorted(found)) for each, found in rows.items()))
        stays = self._fits(self._book.instance.outputs[group.sink])
        return repr((tables, plan.made.shape.tolist(), stays))

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

    def _pieces(self, group: Group, enough: float) -> Iterator[float | None]:
        """At last `enough`, or at most the latency of a subgraph, whatever stays in fast memory; before that None."""
        plan, book = group.plan, self._book
        at = np.array([enough, 0.0, 0.0])
        for tensor in (-1, *(t for t in plan.external if self._fits(t))):
            for retain in (False, True) if self._fits(book.instance.outputs[group.sink]) else (False,):
                at[0], at[1], at[2] = min(at[0], book.cost(group, tensor, retain)), plan.width, plan.height
                while at[1] >= 1:
                    least_latency(plan.made, tensor, retain, at, WORK)
                    yield None
        yield float(at[0])

    def _choose(self) -> None:
        """The cheapest cover by what is known."""
        outputs = [op for op, fixed in enumerate(self._book.fixed) if fixed]
        self.cost = math.inf
        for count in range(len(self._shared) + 1):
            for kept in itertools.combinations(self._shared, count):
                best = self._cheapest(kept)
                total = math.fsum(best[op][0] for op in (*kept, *outputs))
                if total < self.cost:
                    self.cost = total
                    self._cover = [group for op in (*kept, *outputs) for group in best[op][1]]
        self.cost *= ROUNDING

    def _cheapest(self, kept: Sequence[int]) -> dict[int, tuple[float, list[Group]]]:
        """For each op that a step may end at, the least cost of it and all that it needs but shared ops; and how."""
        instance, best = self._book.instance, dict[int, tuple[float, list[Group]]]()
        for sink in instance.order:
            if sink in self._shared and sink not in kept:
                continue
            least, way = math.inf, [self._ending[sink][0]]
            for group in self._ending[sink]:
                read = [instance.producer[t] for t in group.plan.external if instance.producer[t] >= 0]
                if all(op in best for op in read):
                    before = [best[op] for op in read if op not in self._shared]
                    total = math.fsum((self._least[self._kind[group]], *(cost for cost, _ in before)))
                    if total < least:
                        least, way = total, [group, *(each for _, groups in before for each in groups)]
            best[sink] = least, way
        return best


def shared_ops(instance: Instance) -> list[int]:
    """The ops from which more than one way leads to outputs of the graph."""
    shared: set[int] = set()
    for op in reversed(instance.order):
        readers = instance.consumers[instance.outputs[op]]
        if len(readers) > 1 or not shared.isdisjoint(readers):
            shared.add(op)
    return sorted(shared)


def subgraphs(book: Book, sink: int) -> list[frozenset[int]]:
    """All sets of ops of which only `sink` has an output that none of them reads, or a few more than MOST_GROUPS."""
    instance = book.instance
    above = book.inside(sink, [False] * len(instance)) - {sink}
    found = [frozenset([sink])]
    for op in sorted(above, key=book.rank.__getitem__, reverse=True):
        readers = instance.consumers[instance.outputs[op]]
        found += [ops | {op} for ops in found if not ops.isdisjoint(readers)]
        if len(found) > MOST_GROUPS:
            break
    return found
