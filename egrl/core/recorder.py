"""The recorder, which keeps the results of a search, and observers, which are called with its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from egrl.core.archive import Archive
from hwsim.problem import Problem

if TYPE_CHECKING:
    from policies.store import StoredPolicy

POLICY_EVERY = 10
"""Generations between saved policies, by default."""


def policy_is_due(generation: int, every: int = POLICY_EVERY) -> bool:
    """True if a run saves its policy at this generation. It also saves the last policy at its end."""
    return generation == 1 or generation % every == 0


class Recorder(Protocol):
    """Keeps the results of a search (`egrl.runs.folder.RunFolder`: on disk).

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
        """Write a checkpoint of everything so far, from which `restore` continues."""

    def restore(
        self, archive: Archive, fingerprints: Sequence[str], load: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any] | None:
        """Fill the archive up to the last checkpoint. Returns its states ("loop", "method"); None if there is none.

        They are given to `load` while nothing has been changed that was kept: it may refuse them.
        """

    def write_policy(self, generation: int, policy: StoredPolicy, problem: Problem) -> None:
        """Keep the deployable policy of a generation."""


class Memory:
    """Keeps metrics and the last policy in memory; there is no checkpoint to continue from.

    Attributes:
        rows: the rows of metrics, one per generation.
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

    def restore(
        self, archive: Archive, fingerprints: Sequence[str], load: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any] | None:
        """There is nothing to go on from."""
        return None

    def write_policy(self, generation: int, policy: StoredPolicy, problem: Problem) -> None:
        """Keep the last one."""
        self.policy = policy


class Observer:
    """Is called with the progress of a search; each method does nothing unless a subclass overrides it.

    Rows of metrics leave the loop only through observers; the recorder is the first of them.
    """

    def phase(self, text: str) -> None:
        """What the method does now, if that takes long; else ""."""

    def evaluations(self, count: int, best_speedup: float) -> None:
        """`count` evaluations have been made; the best speedup is 0 until one is valid."""

    def bound(self, speedup: float) -> None:
        """It has been proved that no mapping has a speedup above this."""

    def generation(self, row: Mapping[str, Any]) -> None:
        """A generation has ended with this row of metrics."""
