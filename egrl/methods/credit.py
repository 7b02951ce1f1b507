"""How often each source of proposals was successful, and its share of the next proposals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwsim.problem import Floats

FADE = 0.9
"""Factor on earlier successes and tries at each batch."""
LEAST_SHARE = 0.1
"""What each source gets beside its share of the success rates, which add up to 1."""


@dataclass
class Credit:
    """Successes and tries of K sources, float64 [K], in which earlier batches count less (`FADE`)."""

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
        """Count the rows of a batch: the source of each, and whether it was a success."""
        self.success, self.tries = self.success * FADE, self.tries * FADE
        for source, good in zip(sources, success, strict=True):
            if source in self.sources:
                self.tries[self.sources.index(source)] += 1
                self.success[self.sources.index(source)] += good
