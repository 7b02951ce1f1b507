"""The recorder, which keeps what a search finds, and observers, which learn how it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from egrl.core.archive import Archive
from hwsim.problem import Problem

if TYPE_CHECKING:
    from policies.store import StoredPolicy

POLICY_EVERY = 10
"""Generations between saved policies, unless a recorder says otherwise."""


def policy_is_due(generation: int, every: int = POLICY_EVERY) -> bool:
    """Whether a run saves its policy at this generation; at its end it saves the last one, too."""
    return generation == 1 or generation % every == 0


class Recorder(Protocol):
    """Keeps what a search finds (`egrl.runs.folder.RunFolder`: on disk).

    Attributes:
        policy_every: generations between saved policies.
    """

    policy_every: int

    def generation(self, row: Mapping[str, Any]) -> None:
        """Keep the row of metrics of a generation."""

    def save(
        self,
        generation: int,
        method_state: dict[str, Any] | None,
        loop_state: dict[str, Any],
        archive: Archive,
    ) -> None:
        """Make everything so far durable, as a checkpoint that `restore` goes on from."""

    def restore(self, archive: Archive, fingerprints: Sequence[str]) -> dict[str, Any] | None:
        """Fill the archive up to the last checkpoint; its states ("loop", "method"), None where there is none."""

    def write_policy(self, generation: int, policy: StoredPolicy, problem: Problem) -> None:
        """Keep the deployable policy of a generation."""


class Memory:
    """Keeps metrics and the last policy in memory, and nothing to go on from.

    Attributes:
        rows: of metrics, one a generation.
        policy: the last deployable policy, or None.
    """

    policy_every = POLICY_EVERY

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.policy: StoredPolicy | None = None

    def generation(self, row: Mapping[str, Any]) -> None:
        """Keep the row."""
        self.rows.append(dict(row))

    def save(
        self,
        generation: int,
        method_state: dict[str, Any] | None,
        loop_state: dict[str, Any],
        archive: Archive,
    ) -> None:
        """Nothing is saved."""

    def restore(self, archive: Archive, fingerprints: Sequence[str]) -> dict[str, Any] | None:
        """There is nothing to go on from."""
        return None

    def write_policy(self, generation: int, policy: StoredPolicy, problem: Problem) -> None:
        """Keep the last one."""
        self.policy = policy


class Observer:
    """Learns how a search goes on; each kind of news is ignored unless a subclass takes it.

    Rows of metrics leave the loop through observers alone, the recorder being the first of them.
    """

    def phase(self, text: str) -> None:
        """What the method does now, where that takes long; "" where there is nothing to say."""

    def evaluations(self, count: int, best_speedup: float) -> None:
        """So many evaluations have been made; the best speedup is 0 until something is valid."""

    def bound(self, speedup: float) -> None:
        """No mapping has a speedup above this: that has been proved."""

    def generation(self, row: Mapping[str, Any]) -> None:
        """A generation is over; its row of metrics."""
