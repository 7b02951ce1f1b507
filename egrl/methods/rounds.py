"""A method made of one searcher a problem: proposals in rounds, starts, turns of problems, resuming.

A round is proposed when all before it has been told, so that nothing depends on when results come or how proposals
are sliced. Several problems are served in turn, a generation each; one that is exhausted is passed over.

The state is the rewards told so far: a searcher is brought back by proposing and telling again, which takes the time
of its own thinking and none of measuring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from egrl.core.budget import GENERATION
from egrl.core.keys import REPAIR, run_keys
from egrl.core.method import Setting
from egrl.core.proposals import Proposals, proposals
from hwsim.mappings import repair
from hwsim.problem import Evaluation, Mapping16, Status

if TYPE_CHECKING:
    from policies.store import StoredPolicy


class Searcher(Protocol):
    """What searches one problem; results come in the order of proposals, the start first where there is one."""

    def offer(self, mapping: Mapping16) -> None: ...
    def propose(self) -> Mapping16 | None:
        """int16 [N, H]; None where nothing can be proposed before more is told, or ever."""

    def tell(self, reward: float) -> None: ...
    def metrics(self) -> Mapping[str, float]: ...


class Rounds:
    """See the module; a `Method` of egrl/core/method.py."""

    def __init__(
        self, setting: Setting, searchers: Sequence[Searcher], width: int, source: str, mend: bool
    ) -> None:
        """`width`: most proposals of a round. `mend`: proposals pass through the problem's `repair`."""
        self._setting, self._searchers, self._width = setting, searchers, width
        self._source, self._mend = source, mend
        self._started = [start is None for start in setting.start]
        self._round: list[Mapping16] = []
        self._from, self._problem, self._at = source, 0, 0
        self._rewards: list[float] = []
        self._owners: list[int] = []
        self.metric_names = tuple(searchers[0].metrics())

    def ask(self, room: int) -> Proposals | None:
        """What is left of the round, or the next one when all has been told."""
        if self._at == len(self._round):
            if len(self._owners) > len(self._rewards):
                shape = (0, *self._setting.problems[self._problem].space.shape)
                return proposals(np.zeros(shape, np.int16), "", self._problem)
            if not self._begin_round():
                return None
        rows = self._round[self._at : self._at + room]
        numbers = np.arange(len(self._owners), len(self._owners) + len(rows))
        self._at += len(rows)
        self._owners += [self._problem] * len(rows)
        mapping = np.stack(rows)
        if self._mend and self._from != "start":
            keys = run_keys(self._setting.seed, numbers, REPAIR)
            mapping = repair(self._setting.problems[self._problem], mapping, keys)
        return proposals(mapping, self._from, self._problem)

    def _begin_round(self) -> bool:
        """Whether anything is left to be proposed."""
        asked, count = len(self._owners), len(self._searchers)
        most = self._width if count == 1 else min(self._width, GENERATION - asked % GENERATION)
        for turn in range(asked // GENERATION, asked // GENERATION + count):
            self._problem, self._at = turn % count, 0
            searcher, start = self._searchers[self._problem], self._setting.start[self._problem]
            if not self._started[self._problem] and start is not None:
                self._started[self._problem] = True
                searcher.offer(start)
                self._round, self._from = [start], "start"
                return True
            self._round, self._from = [], self._source
            while len(self._round) < most and (found := searcher.propose()) is not None:
                self._round.append(found)
            if self._round:
                return True
        return False

    def learn(self) -> None:
        """Nothing is learned meanwhile."""

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Each reward to the searcher that proposed it."""
        for status, reward in zip(evaluation.status, evaluation.reward, strict=True):
            ran = status in (Status.OK, Status.INVALID) and np.isfinite(reward)
            self._tell(float(reward) if ran else float("nan"))

    def _tell(self, reward: float) -> None:
        owner = self._owners[len(self._rewards)]
        self._rewards.append(reward)
        self._searchers[owner].tell(reward)

    def metrics(self) -> Mapping[str, float]:
        """Those of the first problem's searcher."""
        return self._searchers[0].metrics()

    def policy(self) -> StoredPolicy | None:
        """No policy."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """How many were asked for, and the rewards told."""
        return {"asked": len(self._owners), "rewards": np.array(self._rewards, np.float64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`, for a method that has not been asked yet."""
        for reward in state["rewards"].tolist():
            if len(self._owners) == len(self._rewards):
                self._propose_again(len(state["rewards"]), int(state["asked"]))
            self._tell(reward)
        while len(self._owners) < int(state["asked"]):
            self._propose_again(len(state["rewards"]), int(state["asked"]))

    def _propose_again(self, told: int, asked: int) -> None:
        if self._at == len(self._round) and not self._begin_round():
            raise ValueError(f"state: expected {asked} proposals, received a search that ends before")
        rows = min(len(self._round) - self._at, asked - len(self._owners))
        self._at += rows
        self._owners += [self._problem] * rows
