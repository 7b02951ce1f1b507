"""Whose turn it is: one member (the twin, or the critic) and all others divide the rounds by their successes.

A mapping that is among the best of all is a success of its source. Each side has a least share, so that it is tried
again, and a side that finds nothing costs little. The member begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egrl.methods.credit import Credit

EVERYBODY = "everybody"
OTHERS = ("gnn", "boltzmann", "learner", "twin", "critic")
"""Sources that count for everybody, except the member's own."""


class RoundShare:
    """See the module."""

    def __init__(self, source: str, first: int) -> None:
        """`source` of the member's mappings; it is due so many rows before anybody else."""
        self._source = source
        self._credit = Credit.fresh((source, EVERYBODY))
        self._due = -float(first)

    @property
    def own(self) -> bool:
        """The next round is the member's, unless more rows are due to everybody than their share of all rows."""
        return self._due <= 0

    @property
    def share(self) -> float:
        """The member's share of the rows."""
        return float(self._credit.shares()[0])

    def asked(self, rows: int) -> None:
        """The member has asked for so many rows in its turn."""
        self._due += rows * float(self._credit.shares()[1])

    def waited(self, rows: int) -> None:
        """It was everybody's turn, with so many rows."""
        self.asked(rows)
        self._due -= rows

    def count(self, sources: Sequence[str], good: Sequence[bool]) -> None:
        """Rows of these sources turned out to be among the best of all, or not."""
        kinds = [
            source if source == self._source else EVERYBODY if source in OTHERS else "" for source in sources
        ]
        self._credit.count(kinds, good)

    def state_dict(self) -> dict[str, Any]:
        """What both earned, and what is due."""
        return {"success": self._credit.success, "tries": self._credit.tries, "due": self._due}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`; other entries are left alone."""
        self._credit = Credit(self._credit.sources, state["success"], state["tries"])
        self._due = state["due"]
