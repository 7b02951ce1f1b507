"""What the loop works with: budget, executor, recorder, observers.

An executor measures proposals (`egrl/measure/` has them), the recorder keeps the results, observers see the progress.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from egrl.core.archive import Archive, Proposals
from hwsim.problem import Evaluation, Keys, Problem
from workloads.errors import InputError

if TYPE_CHECKING:
    from policies.store import StoredPolicy


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


GENERATION = 21
"""Evaluations a generation, unless a run says otherwise: a population of 20 and one rollout of the learner."""
DEFAULT_GENERATIONS = 200
BUDGETS = ("gens", "evals", "seconds")
REQUESTS = "requests"
"""A limit that is made one of evaluations before a run begins."""


@dataclass(frozen=True)
class Budget:
    """When to stop; each limit may be None.

    Attributes:
        evaluations: measured exactly, unless the method has no more to propose.
        seconds: of searching; after that no measurement starts.
        generation_evals: evaluations a generation, which is how often a row of metrics is written.
    """

    evaluations: int | None
    seconds: float | None
    generation_evals: int = GENERATION

    @staticmethod
    def of(given: Mapping[str, float], generation_evals: int = GENERATION) -> Budget:
        """The budget of limits by name, at most one of `BUDGETS`; none: `DEFAULT_GENERATIONS`.

        InputError where two are given, or nothing could be measured.
        """
        if len(given) > 1:
            raise InputError(
                f"expected one of --gens, --evals and --seconds, found {', '.join('--' + k for k in given)}"
            )
        for key, value in given.items():
            least = 0 if key == "seconds" else 1
            if not (value >= least and math.isfinite(value)):
                raise InputError(f"--{key}: expected at least {least}, found {value}")
        if "seconds" in given:
            return Budget(None, given["seconds"], generation_evals)
        if "evals" in given:
            return Budget(int(given["evals"]), None, generation_evals)
        return Budget.of_generations(int(given.get("gens", DEFAULT_GENERATIONS)), generation_evals)

    @staticmethod
    def of_generations(generations: int, generation_evals: int = GENERATION) -> Budget:
        """So many whole generations."""
        return Budget(generations * generation_evals, None, generation_evals)

    @property
    def generations(self) -> int | None:
        """Generations that are begun; None where the limit is in seconds."""
        return None if self.evaluations is None else -(-self.evaluations // self.generation_evals)
