"""The resource manager: who gets how many evaluations, by what they have returned.

Source: Khadka et al., "Collaborative evolutionary reinforcement learning" (ICML 2019), section 3: a manager divides the
rollouts among the learners of a portfolio.

Deviations:
- CERL takes upper confidence bounds of returns. Here a share is a least one and a rate of successes, mappings among the
  best of all, in which earlier batches count less: what a learner returns falls once the others know it.
- It divides rounds between each learner that thinks for long (profile model, twin) and the rest. SAC has a fixed number
  of the rows of each round of the population: dividing these by success made no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwsim.problem import Floats

FADE = 0.9
"""Factor on earlier successes and tries at each batch."""
LEAST_SHARE = 0.1
"""What each source gets beside its share of the success rates, which add up to 1."""

NETWORK, BOLTZMANN, SAC, TWIN, PROFILE_MODEL = "network", "boltzmann", "sac", "twin", "profile_model"
"""The sources of what members of the population and learners propose."""
REST = "rest"
OTHERS = (NETWORK, BOLTZMANN, SAC, TWIN, PROFILE_MODEL)
"""Sources that count for the rest, except the member's own."""


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


class RoundShare:
    """Divides the rounds between one learner of a portfolio and the rest by their successes.

    A mapping among the best of all is a success of its source. Each side has a least share: it is tried again and
    again, and a side that finds nothing costs little. The learner begins.
    """

    def __init__(self, source: str, first: int) -> None:
        """`source` of the learner's mappings; at least the first `first` rows are its own."""
        self._source = source
        self._credit = Credit.fresh((source, REST))
        self._due = -float(first)

    @property
    def is_due(self) -> bool:
        """True if the next round is the learner's: no rows are due to the rest."""
        return self._due <= 0

    @property
    def share(self) -> float:
        """The learner's share of the rows."""
        return float(self._credit.shares()[0])

    def charge(self, rows: int) -> None:
        """The learner has proposed so many rows in a round of its own."""
        self._due += rows * float(self._credit.shares()[1])

    def credit_others(self, rows: int) -> None:
        """The rest have proposed so many rows."""
        self.charge(rows)
        self._due -= rows

    def count(self, sources: Sequence[str], good: Sequence[bool]) -> None:
        """Rows of these sources turned out to be among the best of all, or not."""
        kinds = [source if source == self._source else REST if source in OTHERS else "" for source in sources]
        self._credit.count(kinds, good)

    def state_dict(self) -> dict[str, Any]:
        """Successes, tries, and the rows that are due to the rest."""
        return {"success": self._credit.success, "tries": self._credit.tries, "due": self._due}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`; other entries are left alone."""
        self._credit = Credit(self._credit.sources, state["success"], state["tries"])
        self._due = state["due"]
