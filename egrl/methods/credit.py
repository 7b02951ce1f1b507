"""How often each source of proposals was successful, and its share of the next proposals.

`Credit` counts, `RoundShare` divides rounds between one member of a portfolio and the rest, `Member` is such a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from egrl.core.method import Method
from hwsim.problem import Floats

FADE = 0.9
"""Factor on earlier successes and tries at each batch."""
LEAST_SHARE = 0.1
"""What each source gets beside its share of the success rates, which add up to 1."""

TWIN, PROFILE_MODEL = "twin", "profile_model"
"""The sources of batches that are the twin's or the profile model's alone."""
REST = "rest"
OTHERS = ("network", "boltzmann", "learner", TWIN, PROFILE_MODEL)
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
    """Divides the rounds between one member of a portfolio and the rest by their successes.

    A mapping among the best of all is a success of its source. Each side has a least share: it is tried again and
    again, and a side that finds nothing costs little. The member begins.
    """

    def __init__(self, source: str, first: int) -> None:
        """`source` of the member's mappings; the first `first` rows are its own."""
        self._source = source
        self._credit = Credit.fresh((source, REST))
        self._due = -float(first)

    @property
    def own(self) -> bool:
        """True if the next round is the member's: no rows are due to the rest."""
        return self._due <= 0

    @property
    def share(self) -> float:
        """The member's share of the rows."""
        return float(self._credit.shares()[0])

    def asked(self, rows: int) -> None:
        """The member has proposed so many rows in a round of its own."""
        self._due += rows * float(self._credit.shares()[1])

    def waited(self, rows: int) -> None:
        """The rest have proposed so many rows."""
        self.asked(rows)
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


class Member(Method):
    """A method that takes turns with those after it in a portfolio.

    An empty batch says in `phase` that it thinks, or that it has nothing to propose now.

    Attributes:
        name: of the member, and of what it proposes.
        rounds: how the rounds are divided between it and those after it.
    """

    name: str
    rounds: RoundShare

    @property
    def its_turn(self) -> bool:
        """True if the next round is its own."""
        return self.rounds.own
