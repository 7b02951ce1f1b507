"""What boards are told to do, and what they have done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from egrl.core.proposals import Proposals
from egrl.measure.op_seconds import ReadProfile, no_profile
from egrl.measure.records import Record
from hwsim.problem import Evaluation


@dataclass
class Job:
    """One mapping to be measured, and who waits for it; see `Keeper.measure`.

    Attributes:
        key: the mapping's digest.
        read: reads the profiles of the mapping.
        rows: of proposals, with what the problem says of them.
        afresh: is told the record, which is then kept nowhere else; None: it is a measurement like all others.
    """

    key: str
    request: dict[str, Any]
    timeout_s: float
    better_than: float
    read: ReadProfile = no_profile
    rows: list[tuple[Proposals, Evaluation]] = field(default_factory=list)
    afresh: Callable[[Record], None] | None = None


@dataclass(frozen=True)
class Usage:
    """What the boards did: for the summary of a run."""

    boards: int
    requests: int
    failures: int
    restarts: int
    busy_s: float
    elapsed_s: float

    @property
    def busy(self) -> float:
        """Share of the time in which a board was measuring, 0..1."""
        return min(1.0, self.busy_s / max(1e-9, self.elapsed_s * self.boards))
