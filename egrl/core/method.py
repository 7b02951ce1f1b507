"""The contract of search methods, and what every method is built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from egrl.core.archive import Archive
from egrl.core.proposals import Proposals
from hwsim.problem import Evaluation, Mapping16, Problem

if TYPE_CHECKING:
    from policies.store import StoredPolicy


class Method(Protocol):
    """A search method. One page of contract, held by `tests/egrl/methods/test_conformance.py`:

    - `ask(room)` proposes up to `room` rows for one problem; 0 rows: it worked a slice or waits for results;
      None: it has nothing more to propose, ever. What is proposed must not depend on `room`, only how it is
      sliced.
    - `learn()` does the training that is due; called after a batch has been submitted, before its results are
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
