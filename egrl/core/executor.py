"""The contract of executors: who measures proposals (`egrl/measure/` has them)."""

from __future__ import annotations

from typing import Protocol

from egrl.core.proposals import Proposals
from hwsim.problem import Evaluation, Keys


class Executor(Protocol):
    """Measures proposals; results may come in any order and grouping."""

    def submit(self, proposals: Proposals, key: Keys) -> None: ...
    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """What has been measured since the last call; waits up to `timeout_s` for the first result."""

    def rest(self) -> bool:
        """Begin nothing more that was submitted; whether all of it comes back all the same, having begun."""

    def close(self) -> None: ...
