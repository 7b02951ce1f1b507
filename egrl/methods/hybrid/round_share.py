"""Shares of the rounds: one member (the twin, or the critic) and the rest divide the rounds by their successes.

A mapping among the best of all is a success of its source. Each side has a least share: it is tried again and again,
and a side that finds nothing costs little. The member begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egrl.methods.credit import Credit

REST = "rest"
OTHERS = ("network", "boltzmann", "learner", "twin", "critic")
"""Sources that count for the rest, except the member's own."""


class RoundShare:
    """See the module."""

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
