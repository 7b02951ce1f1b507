"""Solve sharding: a mapping that only improves, and a bound that only rises, for as long as one likes.

The instance is made smaller without loss (`reduce.py`). If few choices are left, all are tried. Otherwise one thread
raises the bound (`prover.py`), and every other one looks for solutions (`searcher.py`); once the bound has come to
rest, the first thread spends most of its time searching, too.

How far each gets in a second depends on the machine, and the threads learn of each other's results when these come:
runs with equal seeds need not be equal. plugins/shard/docs/explanations/shard-exact.md has the proof of the bound.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from egrl_shard.exact.graph import ALLOWED, Graph, Int32s, profile, total_cost
from egrl_shard.exact.prover import Prover
from egrl_shard.exact.reduce import Reduced, reduce
from egrl_shard.exact.searcher import Searcher
from egrl_shard.exact.solution import Common, Solution
from egrl_shard.sharding import Sharding
from hwsim.jit import kernel

MOST = 20_000
"""As many choices are tried in well under a second."""


def few(graph: Graph) -> bool:
    """Whether all choices can be tried."""
    return float(np.log(np.diff(graph.first)).sum()) <= np.log(MOST)


@kernel
def best_of_all(graph: Graph) -> tuple[bool, Int32s]:
    """Whether a choice is valid, and the one of least cost, int32 [n], the first in order."""
    counts = np.diff(graph.first)
    choice = np.zeros(len(counts), np.int32)
    best, least, found = choice.copy(), np.inf, False
    while True:
        cost = total_cost(graph, choice)
        if cost < min(least, ALLOWED) and (profile(graph, choice) <= graph.room).all():
            best[:] = choice
            least, found = cost, True
        v = len(counts) - 1
        while v >= 0 and choice[v] == counts[v] - 1:
            choice[v] = 0
            v -= 1
        if v < 0:
            return found, best
        choice[v] += 1


PROVING = 0.25
"""The share of its time that a thread proves, if it does both."""
TURN_S = 2.0
"""A turn of a thread that does both, in seconds."""


class Solver:
    """See the module."""

    def __init__(
        self, sharding: Sharding, seed: int, threads: int = 2, start: NDArray[np.int16] | None = None
    ) -> None:
        """Reduce the instance; `start` int16 [N] is the first solution to be improved."""
        reduced = reduce(sharding)
        self._common = Common(sharding, reduced)
        self._possible = reduced.possible
        self._searchers: list[Searcher] = []
        if not reduced.possible:
            self._common.prove(math.inf, "the reductions leave no valid mapping")
        elif few(reduced.graph):
            self._list(reduced)
        else:
            self._prover = Prover(self._common)
            first = None if start is None else Solution(reduced, reduced.lower(start))
            rngs = np.random.default_rng(seed).spawn(threads)
            self._searchers = [
                Searcher(self._common, rng, first if worker + 1 == threads else None)
                for worker, rng in enumerate(rngs)
            ]

    def _list(self, reduced: Reduced) -> None:
        """Solve what is left by trying all."""
        self._possible, choice = best_of_all(reduced.graph)
        if self._possible:
            self._common.offer(Solution(reduced, choice))
            self._common.prove(
                float(self._common.best_cost or 0), "reductions, then all that is left was tried"
            )
        else:
            self._common.prove(math.inf, "no mapping is valid: all that the reductions leave were tried")

    @property
    def best(self) -> NDArray[np.int16] | None:
        """int16 [N], the best mapping found; None before there is any."""
        return self._common.best

    @property
    def best_cost(self) -> int | None:
        """What it costs, an exact integer."""
        return self._common.best_cost

    @property
    def bound(self) -> float:
        """No valid mapping costs less; infinite if there is none."""
        return self._common.bound

    @property
    def proof(self) -> str:
        """How the bound was obtained, for people."""
        return self._common.proof

    @property
    def done(self) -> bool:
        """Whether nothing is left to do: the mapping is proved best, or that there is none."""
        return not self._possible or self._common.done

    def work(self, seconds: float) -> None:
        """Go on for about so many seconds, or until nothing is left to do."""
        if self.done:
            return
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(len(self._searchers)) as pool:
            jobs = [pool.submit(searcher.work, until) for searcher in self._searchers[1:]]
            jobs.append(pool.submit(self._do_both, until, alone=not jobs))
            for job in jobs:
                job.result()

    def _do_both(self, until: float, alone: bool) -> None:
        """Prove; search where the bound rests, or no other thread does."""
        while (now := time.monotonic()) < until and not self.done:
            self._prover.work(min(until, now + PROVING * TURN_S) if alone or self._prover.rests else until)
            if alone or self._prover.rests:
                self._searchers[0].work(min(until, time.monotonic() + (1.0 - PROVING) * TURN_S))
