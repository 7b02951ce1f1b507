"""The flow of proposals: asked for, submitted, measured in any order, told in ticket order.

Executors that measure elsewhere (`ahead`) are fed a generation more than the one under way, so that a board does not
wait for the slowest of a generation. A run is the same with and without: what a method proposes depends on what it
was told, never on when. What is under way when a checkpoint is taken is kept in it and submitted again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from egrl.core.archive import Archive
from egrl.core.budget import GENERATION
from egrl.core.executor import Executor
from egrl.core.keys import EVALUATION, run_keys
from egrl.core.method import Method
from egrl.core.proposals import Proposals, proposals
from hwsim.problem import Evaluation

WAIT_S = 0.2


class Flow:
    """Between one method, one executor and the archive.

    Attributes:
        finished: the method has nothing more to propose.
        halted: nothing more may begin.
    """

    def __init__(
        self, method: Method, executor: Executor, archive: Archive, seed: int, last: int | None
    ) -> None:
        """`last`: never ask for this ticket or a later one (None: no such end)."""
        self._method, self._executor, self._archive, self._seed = method, executor, archive, seed
        self._last = last
        self._asked = len(archive)
        self._under_way: list[Proposals] = []
        self._measured: dict[int, tuple[Proposals, Evaluation]] = {}
        self.finished = self.halted = False
        self._all_come_back = True

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return self._asked == len(self._archive)

    def generation(self, halted: Callable[[], bool]) -> list[tuple[Proposals, Evaluation]]:
        """Tell the method the results up to the end of this generation; returns them in order.

        Fewer where the method has finished, where `last` comes first, or where `halted()` says that nothing more may
        begin: then what has begun is told as far as it comes back in order, and the rest stays under way.
        """
        goal = (len(self._archive) // GENERATION + 1) * GENERATION
        horizon = goal + GENERATION if self._executor.ahead else goal
        if self._last is not None:
            goal, horizon = min(goal, self._last), min(horizon, self._last)
        told: list[tuple[Proposals, Evaluation]] = []
        while len(self._archive) < goal:
            if not self.halted and halted():
                self.halted, self._all_come_back = True, self._executor.rest()
            asked = not self.halted and self._ask(horizon)
            if self.idle:
                if self.finished or self.halted:
                    break
                continue
            results = self._executor.ready(0.0 if asked else WAIT_S)
            for part, evaluation in results:
                self._measured[int(part.tickets[0])] = (part, evaluation)
            told += self._tell(goal)
            if self.halted and not results and not self._all_come_back:
                break
        return told

    def _ask(self, horizon: int) -> bool:
        """Ask for more where there is room, and let the method learn meanwhile; whether anything was asked for."""
        if self._asked >= horizon or self.finished:
            return False
        batch = self._method.ask(horizon - self._asked)
        if batch is None:
            self.finished = True
            return False
        if not len(batch):
            return False
        if len(batch) > horizon - self._asked:
            raise ValueError(f"ask: expected at most {horizon - self._asked} rows, received {len(batch)}")
        self._submit(batch.numbered(self._asked))
        self._method.learn()
        return True

    def _submit(self, batch: Proposals) -> None:
        self._executor.submit(batch, run_keys(self._seed, batch.tickets, EVALUATION))
        self._under_way.append(batch)
        self._asked += len(batch)

    def _tell(self, goal: int) -> list[tuple[Proposals, Evaluation]]:
        """Archive and tell what is next in ticket order, up to ticket `goal`."""
        archive, told = self._archive, []
        while len(archive) < goal and len(archive) in self._measured:
            part, evaluation = self._measured.pop(len(archive))
            room = goal - len(archive)
            if len(part) > room:
                self._measured[goal] = (part.rows(slice(room, None)), evaluation.rows(slice(room, None)))
                part, evaluation = part.rows(slice(room)), evaluation.rows(slice(room))
            archive.append(part, evaluation)
            self._method.tell(part, evaluation)
            told.append((part, evaluation))
        while self._under_way and self._under_way[0].tickets[-1] < len(archive):
            self._under_way.pop(0)
        return told

    # ---- checkpoints

    def pending(self) -> list[dict[str, Any]]:
        """What is under way, as trees that `checkpoint` can store."""
        trees = []
        for batch in self._under_way:
            left = batch.rows(slice(max(0, len(self._archive) - int(batch.tickets[0])), None))
            trees.append({"mapping": left.mapping, "source": left.source.tolist(), "problem": left.problem})
        return trees

    def submit_again(self, pending: Sequence[dict[str, Any]]) -> None:
        """Submit what was under way at the checkpoint that the method and the archive were restored from."""
        for tree in pending:
            batch = proposals(tree["mapping"], tree["source"], int(tree["problem"]))
            self._submit(batch.numbered(self._asked))
