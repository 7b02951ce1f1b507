"""How an agent learns from the moves that it remembers: segments drawn, searched anew, and a gradient step each.

Sources: MuZero (Schrittwieser et al., Nature 588, 2020); Reanalyse (Schrittwieser et al., "Online and offline
reinforcement learning by planning with a learned model", 2021).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.config import PlayConfig
from egrl_muzero.learner import MuZeroLearner
from egrl_muzero.move_chooser import MoveChooser
from egrl_muzero.potential import Potential
from egrl_muzero.ring import Ring, Window
from egrl_muzero.targets import ends_of, targets

RECENT = 4
"""Slices whose moves a policy that plays without search learns from."""

Segments = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where segments of remembered moves begin: times and slots, int64 [B] each."""


class Trainer:
    """Draws segments from the ring and gives them to the learner.

    Attributes:
        rng: every draw of segments.
    """

    def __init__(
        self,
        config: PlayConfig,
        ring: Ring,
        chooser: MoveChooser,
        learner: MuZeroLearner,
        potential: Potential,
        rng: np.random.Generator,
    ) -> None:
        self._config, self._ring, self._chooser = config, ring, chooser
        self._learner, self._potential, self.rng = learner, potential, rng

    def _draw(self, window: Window, count: int) -> Segments:
        """Times and slots [count] of remembered moves: without search of the latest that were drawn from a policy,
        since they teach the one that played them.
        """
        first, slots = window.first, np.arange(self._ring.slots)
        if self._config.ablation == "no-search":
            first = max(first, window.end - RECENT * self._config.chunk)
            drawn = np.flatnonzero(~self._chooser.greedy)
            slots = drawn if len(drawn) else slots
        last = max(first + 1, window.end - self._config.learner.unroll)
        return self.rng.integers(first, last, count), slots[self.rng.integers(0, len(slots), count)]

    def reanalyse(self, window: Window) -> Segments | None:
        """Search segments of remembered moves anew, so many that they have their share; where they begin.

        What their returns end in is valued anew by the networks, too.
        """
        config, unroll = self._config, self._config.learner.unroll + 1
        if not config.searches_anew:
            return None
        played = config.chunk * config.slots
        count = max(1, round(played * config.reanalyse / (1 - config.reanalyse) / unroll))
        time, slot = self._draw(window, count)
        when, where = ends_of(self._ring, window.end, time, slot, unroll - 1, config.learner.steps)
        values = self._ring.scalars["value"]
        values[when % self._ring.rows, where] = self._chooser.values(*self._ring.recall(when, where))
        times = time[:, None] + np.arange(unroll)
        known = times < window.end
        when, where = times[known], np.broadcast_to(slot[:, None], times.shape)[known]
        row = when % self._ring.rows
        _, self._ring.policy[row, where], values[row, where] = self._chooser.again(
            *self._ring.recall(when, where)
        )
        return time, slot

    def train(self, window: Window, fresh: Segments | None) -> None:
        """One gradient step; a share of the segments is of those that were searched anew."""
        config = self._config.learner
        time, slot = self._draw(window, config.batch)
        if fresh is not None:
            share = round(self._config.reanalyse * config.batch)
            pick = self.rng.integers(0, len(fresh[0]), share)
            time[:share], slot[:share] = fresh[0][pick], fresh[1][pick]
        wanted = targets(self._ring, window.end, time, slot, config.unroll, config.steps, self._potential)
        self._learner.step(self._ring.seen(time, slot), wanted)
