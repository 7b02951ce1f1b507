"""The plug-in's solver as a problem's own: a search in two processes, and a bound that small instances close."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import Solving
from hwsim.jit import clock
from hwsim.problem import Bound, Mapping16
from mlsys2026.bound import ROUNDING, Covers, simple_bound
from mlsys2026.grouping import Book
from mlsys2026.helper import Helper
from mlsys2026.search import Search

ALONE_S = 0.3
"""Seconds after which a second process begins: what is solved by then needs none."""
PATIENCE_S = 0.5
"""Seconds of search at a time, and at least before a small instance is proved."""
PATIENCE_PER_PAIR_S = 0.02
"""Seconds of search before that for each pair of ops."""
BESIDE_S = 0.03
"""Seconds of search after each piece of a proof."""


def mapping_of(kept: Sequence[bool], live: NDArray[np.bool_]) -> Mapping16:
    """int16 [N, 1]: 1 where the output of an op is kept, 0 where it is not, -1 where there is no choice."""
    return np.where(live[:, 0], np.array(kept, np.int16), np.int16(-1)).astype(np.int16)[:, None]


class MlsysSolving(Solving):
    """A solve that continues when `work` is called (`hwsim.capabilities.Solving`)."""

    def __init__(
        self, book: Book, live: NDArray[np.bool_], seed: int, threads: int, start: Sequence[bool] | None
    ) -> None:
        self._book, self._live, self._seed, self._threads = book, live, seed, threads
        self._search = Search(book, seed, start)
        self._cost, self._proof = simple_bound(book)
        self._covers: Covers | None = None
        self._proved = not Covers.serves(book)
        self._patience = max(PATIENCE_S, PATIENCE_PER_PAIR_S * len(book.instance) ** 2)
        self._helpers: list[Helper] = []
        self._seconds = 0.0

    def work(self, seconds: float) -> None:
        """Go on for about that many seconds, unless it is done."""
        begun = clock()
        left = seconds
        while left > 0 and not self.done:
            if not self._proved and self._seconds >= self._patience:
                self._prove()
                self._look(min(left, BESIDE_S))
            else:
                self._look(min(left, PATIENCE_S))
            passed = clock() - begun
            left = seconds - passed
            self._seconds += passed
            begun, seconds = clock(), left
        if self.done:
            self.close()

    def prove_for(self, seconds: float) -> None:
        """Go on with the bound of a small instance alone, for about so many seconds at most."""
        begun = clock()
        while not self._proved and not self.done and clock() - begun < seconds:
            self._prove()
        self._seconds += clock() - begun

    def work_fixed(self, looks: int, seconds: float) -> None:
        """Go on for so many schedules, in this process alone, but no longer than so many seconds."""
        self._search.work(seconds, looks, self._cost / ROUNDING)

    def _look(self, seconds: float) -> None:
        if not self._helpers and self._seconds > ALONE_S and len(self._book.instance) > 8:
            self._helpers = [
                Helper(self._book.instance, self._seed + 1 + i) for i in range(self._threads - 1)
            ]
        self._search.work(seconds=seconds, enough=self._cost / ROUNDING)
        for helper in self._helpers:
            found = helper.exchange(self._search.best)
            if found is not None:
                self._search.offer(found)

    def _prove(self) -> None:
        if self._covers is None:
            self._covers = Covers(self._book)
        self._proved = not self._covers.look(self._search.cost)
        if self._covers.cost > self._cost:
            self._cost, self._proof = self._covers.cost, "all covers by subgraphs are as dear"

    def close(self) -> None:
        """End the other processes."""
        for helper in self._helpers:
            helper.close()
        self._helpers = []

    @property
    def best(self) -> Mapping16:
        """The best mapping so far, int16 [N, 1]."""
        return mapping_of(self._search.best, self._live)

    @property
    def cost(self) -> float:
        """Its cost."""
        return self._search.cost

    @property
    def bound(self) -> Bound:
        """What is proved so far."""
        return Bound(min(self._cost, self.cost), math.inf, self._proof, self._seconds)

    @property
    def done(self) -> bool:
        """True if the best is proved to be the best possible, but for rounding."""
        return self._cost >= self.cost * ROUNDING * ROUNDING
