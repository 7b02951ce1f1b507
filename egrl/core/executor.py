"""The contract of executors, which measure proposals (`egrl/measure/` has them)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from egrl.core.archive import Archive
from egrl.core.proposals import Proposals
from hwsim.problem import Evaluation, Keys


class Executor(Protocol):
    """Measures proposals; results may come in any order and grouping."""

    def submit(self, proposals: Proposals, key: Keys) -> None:
        """Queue the rows; `key` uint64 [B] decides the noise of each."""

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """What has been measured since the last call; waits up to `timeout_s` for the first result."""

    def rest(self) -> bool:
        """Begin nothing more; True if everything submitted will still be answered."""

    def close(self) -> None:
        """End everything that the executor has started."""


CONFIRMED = ("confirmed_speedup", "confirmed_low", "confirmed_high")
"""Columns of metrics: the confirmed speedup over the baseline, and its 95% interval; NaN before it is known."""


@runtime_checkable
class Confirms(Protocol):
    """An executor that measures the best mapping again during the search."""

    def confirm(self, generation: int, archive: Archive) -> Mapping[str, float]:
        """At the end of a generation: the columns `CONFIRMED` of its row of metrics."""
