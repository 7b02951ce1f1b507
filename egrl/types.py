"""The central types between methods, executors and the loop.

A *ticket* is the number of an evaluation in its run, counted from 0. It is also the evaluation's place in the
archive. Methods hear of their proposals strictly in ticket order, whatever the executor did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Evaluation, Keys, Mapping16, Problem

if TYPE_CHECKING:
    from egrl.archive import Archive
    from policies.store import StoredPolicy

GENERATION = 21
"""Evaluations a generation: a population of 20 and one rollout of the learner; the same for every method."""


class RunFailure(RuntimeError):
    """The program, the disk or the board failed (exit code 1); the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


@dataclass(frozen=True)
class Proposals:
    """Mappings that a method wants measured, all for one problem.

    Attributes:
        mapping: int16 [B, N, H]; -1 = unused.
        source: str [B], who proposes ("gnn", "boltzmann", "learner", "start" …).
        problem: index of the problem in the run.
        ticket: int64 [B]; methods leave it out, the loop numbers the rows.
    """

    mapping: Mapping16
    source: NDArray[np.str_]
    problem: int = 0
    ticket: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.mapping)

    def numbered(self, first: int) -> Proposals:
        """The same rows with tickets first, first + 1, …"""
        return replace(self, ticket=np.arange(first, first + len(self), dtype=np.int64))

    @property
    def tickets(self) -> NDArray[np.int64]:
        """int64 [B]; ValueError before the loop has numbered the rows."""
        if self.ticket is None:
            raise ValueError("proposals: expected numbered rows, received rows without tickets")
        return self.ticket

    def rows(self, index: slice) -> Proposals:
        """Some of the rows."""
        ticket = None if self.ticket is None else self.ticket[index]
        return replace(self, mapping=self.mapping[index], source=self.source[index], ticket=ticket)


def proposals(mapping: Mapping16, source: str | Sequence[str], problem: int = 0) -> Proposals:
    """Proposals [B, N, H] from one source, or a source a row."""
    names = [source] * len(mapping) if isinstance(source, str) else list(source)
    if len(names) != len(mapping):
        raise ValueError(f"source: expected {len(mapping)} names, received {len(names)}")
    return Proposals(np.ascontiguousarray(mapping, dtype=np.int16), np.array(names, dtype=np.str_), problem)


class Method(Protocol):
    """A search method. One page of contract, held by `tests/egrl/methods/test_conformance.py`:

    - `ask(room)` proposes up to `room` rows for one problem; 0 rows: it worked a slice or waits for results;
      None: it has nothing more to propose, ever. What is proposed must not depend on `room`, only how it is
      sliced.
    - `learn()` does the training that is owed; called after a batch has been submitted, before its results are
      told, so that it overlaps with measuring.
    - `tell(proposals, evaluation)` brings results in ticket order; rows may be grouped otherwise than in `ask`.
    - `state_dict()` is a tree of dicts, lists, numbers, strings and arrays; None: the method is resumed by
      replaying the archive through `ask` and `tell`.
    """

    metric_names: tuple[str, ...]

    def ask(self, room: int) -> Proposals | None: ...
    def learn(self) -> None: ...
    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None: ...
    def metrics(self) -> Mapping[str, float]:
        """A value for each of `metric_names`, at the end of a generation (NaN where there is none yet)."""

    def policy(self) -> StoredPolicy | None:
        """The deployable policy, for transfer; None where the method has none."""

    def state_dict(self) -> dict[str, Any] | None: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Setting:
    """What every method is built from.

    Attributes:
        problems: at least one.
        archive: every evaluation so far; the loop appends, methods read.
        seed: of the run.
        start: for each problem a mapping int16 [N, H] to begin with, or None (cold).
        init: a saved policy to begin with, or None.
        threads: of a learner's tensor operations.
        device: torch device of the networks.
    """

    problems: Sequence[Problem]
    archive: Archive
    seed: int
    start: Sequence[Mapping16 | None]
    init: StoredPolicy | None = None
    threads: int = 1
    device: str = "cpu"

    def generator(self, stream: str) -> np.random.Generator:
        """A generator of its own for each named stream of the run's seed."""
        return np.random.Generator(np.random.PCG64([self.seed, *stream.encode()]))


class Executor(Protocol):
    """Measures proposals; results may come in any order and grouping.

    Attributes:
        ahead: it measures elsewhere and gains from being asked for more than the generation under way.
    """

    @property
    def ahead(self) -> bool: ...
    def submit(self, proposals: Proposals, key: Keys) -> None: ...
    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """What has been measured since the last call; waits up to `timeout_s` for the first result."""

    def close(self) -> None: ...
