"""Raise the bound: message passing in turn with steps of the prices of memory."""

from __future__ import annotations

import math
import time

import numpy as np

from hwsim.shard.exact.certify import certified
from hwsim.shard.exact.messages import Messages, decode, node_prices, silent, sweep
from hwsim.shard.exact.solution import Common, Solution
from hwsim.shard.exact.starts import dearer

FIRST_PRICES = 0.01
"""All room, at the prices to begin with, costs this share of the first bound."""
FALL = 30
"""Iterations after which a step of the prices is half the first."""
FALLEN = 0.7
"""Where the bound falls to this share of the best, the prices go back and their steps are halved."""
LOOK = 10
"""Iterations between two bounds that are safe against rounding, and between two hints for the search."""
REST = 200
"""Iterations after which the bound must have risen …"""
RISE = 1e-5
"""… by this share of itself, or the prover is at rest."""


class Prover:
    """Messages and prices, and how far they are. `rests` says whether the bound has come to rest."""

    def __init__(self, common: Common) -> None:
        self._common = common
        self._messages = silent(common.graph)
        self._price = np.zeros(len(common.graph.room))
        self._good, self._value = self._price, -math.inf
        self._rate = 1.0
        self._marked = 0.0
        self.rests = False
        self._iteration = 0

    def work(self, until: float) -> None:
        """Go on until that time of the monotonic clock, or until the bound is seen to rest."""
        if self._iteration == 0:
            self._begin()
        while time.monotonic() < until and not self._common.done:
            self._iterate()
            if self._iteration % REST == 0:
                bound = self._common.bound
                self.rests, self._marked = bound < (1.0 + RISE) * self._marked, bound
                if self.rests:
                    break

    def _begin(self) -> None:
        graph = self._common.graph
        for _ in range(3):
            sweep(graph, self._messages, np.zeros(graph.nodes), True)
            least = sweep(graph, self._messages, np.zeros(graph.nodes), False)
        self._price[:] = FIRST_PRICES * least / max(float(graph.room.sum()), 1.0)

    def _iterate(self) -> None:
        graph, messages = self._common.graph, self._messages
        byte = node_prices(graph, self._price)
        sweep(graph, messages, byte, True)
        choice = decode(graph, messages, byte)
        if self._iteration % LOOK == 0:
            self._report(Solution(self._common.reduced, choice))
        rate = self._rate / (1.0 + self._iteration / FALL)
        price = dearer(graph, self._price, choice, self._common.limit, rate)
        value = sweep(graph, messages, byte, False) - float((self._price * graph.room).sum())
        if value > self._value:
            self._good, self._value = self._price, value
        elif value < FALLEN * self._value:
            price, self._rate = self._good.copy(), 0.5 * self._rate
        self._price = price
        self._iteration += 1

    def _report(self, solution: Solution) -> None:
        """Prove a bound by the messages of a forward sweep; give hints, and the solution that was read off."""
        common, m = self._common, self._messages
        bound = certified(common.graph, m, self._price, common.reduced.constant)
        bound -= abs(bound) * common.reduced.rounding
        common.prove(
            bound, f"reductions, then message passing at prices of memory, {self._iteration} iterations"
        )
        common.hints = Messages(m.to_a.copy(), m.to_b.copy(), m.at_a, m.at_b), self._price.copy()
        common.offer(solution)
