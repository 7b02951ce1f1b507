"""What sources of proposals earned, and the shares of the next ones that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwsim.problem import Floats

FADE = 0.9
"""A success counts for so much less after each batch."""
LEAST_SHARE = 0.1
"""What each source gets beside its earnings, in units of all earnings."""


@dataclass
class Credit:
    """What K sources earned: successes and tries, both fading, float64 [K]."""

    sources: tuple[str, ...]
    success: Floats
    tries: Floats

    @staticmethod
    def fresh(sources: tuple[str, ...]) -> Credit:
        """Before anything was tried."""
        return Credit(sources, np.ones(len(sources)), np.full(len(sources), 2.0))

    def shares(self) -> Floats:
        """float64 [K], sum 1."""
        rate = self.success / self.tries
        share = LEAST_SHARE + rate / rate.sum()
        return np.asarray(share / share.sum())

    def count(self, sources: Sequence[str], success: Sequence[bool]) -> None:
        """Take in how a batch did."""
        self.success, self.tries = self.success * FADE, self.tries * FADE
        for source, good in zip(sources, success, strict=True):
            if source in self.sources:
                self.tries[self.sources.index(source)] += 1
                self.success[self.sources.index(source)] += good
