"""Search for what to keep: from all kept, greedily fewer, then annealing in rounds that begin at the best so far.

Each round is as long as a power of two allows and ends cold, so that the work does not depend on how much time there
is. One neighbour flips whether a tensor is kept, or moves the end of a subgraph to an op beside it. The subgraphs
that a flip changes are the only ones that are looked up anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hwsim.jit import clock
from mlsys2026.grouping import NEAR, Book, Group

FIRST_ROUND = 256
LONGEST_ROUND = 16384
HOT, COLD = 0.5, 0.002
"""Temperatures, as shares of what a kept tensor costs above its computing, on average."""


class Search:
    """A search that goes on for as long as it is asked to.

    Attributes:
        book: of the instance.
        best: for each op, True if its output is kept; of the best schedule so far.
        cost: of that schedule.
        looks: schedules that were looked at.
    """

    def __init__(self, book: Book, seed: int, start: Sequence[bool] | None = None) -> None:
        self.book = book
        self._rng = np.random.default_rng([seed, 2026])
        self._free = [op for op in range(len(book.fixed)) if not book.fixed[op]]
        self.looks = 0
        self._round = FIRST_ROUND
        self._left = 0
        self._greedy: list[int] = list(book.instance.order)
        self._improved = False
        self.adopt([True] * len(book.fixed))
        if start is not None:
            self.offer(start)

    def offer(self, kept: Sequence[bool]) -> None:
        """Go on from a schedule if it is better than the best so far."""
        before = self.best, self.cost
        self.adopt(kept)
        if self._now > before[1]:
            self.adopt(before[0])

    def adopt(self, kept: Sequence[bool]) -> None:
        """Go on from a schedule; it is the best now."""
        self._kept = list(kept)
        self._groups = self.book.groups(self._kept)
        self._now = self.book.stays(self._groups)[0]
        self.looks += 1
        self.best, self.cost = list(self._kept), self._now

    def work(self, seconds: float = math.inf, looks: float = math.inf, enough: float = 0.0) -> None:
        """Go on until so many seconds are over, so many more schedules have been looked at, or one costs `enough`."""
        stop = clock() + seconds
        until = self.looks + looks
        while self._free and self.looks < until and self.cost > enough * NEAR and clock() < stop:
            if self._greedy or self._improved:
                self._descend()
            else:
                self._anneal()

    def _descend(self) -> None:
        """One step of the greedy descent: leave one tensor out if that is no worse."""
        if not self._greedy:
            self._improved = False
            self._greedy = list(self.book.instance.order)
        op = self._greedy.pop(0)
        if op in self._free and self._try([op], self._now):
            self._improved = True

    def _anneal(self) -> None:
        if self._left == 0:
            self._left = self._round
            self._length = self._round
            self._round = min(2 * self._round, LONGEST_ROUND)
            if self._kept != self.best:
                self._kept = list(self.best)
                self._groups = self.book.groups(self._kept)
                self._now = self.cost
            above = self._now - sum(group.floor for group in self._groups.values())
            self._scale = max(above, 1e-9 * self._now) / len(self._groups)
        share = 1 - self._left / self._length
        heat = self._scale * HOT * (COLD / HOT) ** share
        self._left -= 1
        flips = [self._free[int(self._rng.integers(len(self._free)))]]
        if self._rng.random() < 0.4:
            near = self._beside(flips[0])
            if near:
                flips.append(near[int(self._rng.integers(len(near)))])
        self._try(flips, self._now - heat * math.log(1.0 - self._rng.random()))

    def _beside(self, op: int) -> list[int]:
        instance = self.book.instance
        sources = [instance.producer[t] for t in instance.inputs[op]]
        found = [*sources, *instance.consumers[instance.outputs[op]]]
        return [each for each in dict.fromkeys(found) if each >= 0 and each in self._free and each != op]

    def _try(self, flips: Sequence[int], most: float) -> bool:
        """Flip ops, and stay there if the cost is then at most `most`. True if it is below what it was."""
        book = self.book
        kept = self._kept
        touched = set(flips)
        for op, group in self._groups.items():
            if not touched.isdisjoint(group.plan.ops) or any(
                book.instance.outputs[flip] in group.plan.external for flip in flips
            ):
                touched.add(op)
        for op in flips:
            kept[op] = not kept[op]
        changed: dict[int, Group] = {op: book.group(op, book.inside(op, kept)) for op in touched if kept[op]}
        groups = {op: group for op, group in self._groups.items() if op not in touched} | changed
        self.looks += 1
        dear = any(group.floor > most for group in changed.values())
        cost = math.inf if dear else book.stays(groups)[0]
        if cost > most:
            for op in flips:
                kept[op] = not kept[op]
            return False
        better = cost < self._now
        self._groups, self._now = groups, cost
        if cost < self.cost:
            self.best, self.cost = list(kept), cost
        return better
