"""The flow of proposals: `ask` gives a batch; its rows are measured in any order and archived in ticket order; `tell`
gets the whole batch.

    ask k        before  ask k + 1
    ask k + a    before  tell k        a: the method's `ahead`; so nothing depends on when results come
    tell k       before  ask k + a + 1

If a batch reaches beyond the budget, its last rows are not submitted, and `tell` gets the batch only if the run is
resumed. A checkpoint keeps the open batches; a resumed run submits their rows without results again.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from threadpoolctl import ThreadpoolController

from egrl.core.archive import START, Archive, Proposals, proposals
from egrl.core.contracts import Executor
from egrl.core.method import Context, Method
from hwsim.keys import EVALUATION, run_keys
from hwsim.problem import Evaluation, Keys
from workloads.errors import InputError

WAIT_S = 0.2


def one_thread() -> AbstractContextManager[object]:
    """While methods think, linear algebra has one thread.

    Their matrices are so small that threads wait for each other longer than they work, a hundred times as long on a
    busy machine; and what a method proposes must not depend on the number of cores.
    """
    limit: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
    return limit


@functools.lru_cache(1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those that are loaded while so many modules are: looking for them takes longer than a small `ask`."""
    return ThreadpoolController()


@dataclass
class _Batch:
    """A batch between `ask` and `tell`.

    `submitted` is the ticket after the last row that was submitted, `archived` the results of the first rows.
    """

    proposals: Proposals
    submitted: int
    archived: list[Evaluation] = field(default_factory=list)

    @property
    def first(self) -> int:
        return int(self.proposals.tickets[0])

    @property
    def end(self) -> int:
        return self.first + len(self.proposals)

    @property
    def whole(self) -> bool:
        return sum(len(part) for part in self.archived) == len(self.proposals)

    def tell(self, method: Method) -> None:
        method.tell(self.proposals, Evaluation.concatenate(self.archived))

    def tree(self) -> dict[str, Any]:
        """The batch as a checkpoint keeps it, without the results, which are in the archive."""
        asked = self.proposals
        return {
            "first": self.first,
            "known": asked.known,
            "mapping": asked.mapping,
            "source": asked.source.tolist(),
            "problem": asked.problem,
        }


class Flow:
    """Passes proposals from one method to one executor, and the results to the archive and back.

    Attributes:
        finished: the method has nothing more to propose.
        halted: nothing more may begin.
    """

    def __init__(
        self,
        method: Method,
        executor: Executor,
        context: Context,
        last: int | None,
        pending: Sequence[dict[str, Any]] = (),
        archive: Archive | _Reread | None = None,
    ) -> None:
        """`pending`: open batches of the checkpoint from which method and archive were restored.

        `last`: the first ticket that is never submitted (None: there is no end). `archive`: default the context's.
        """
        self._method, self._executor, self._context, self._last = method, executor, context, last
        self._archive = context.archive if archive is None else archive
        self._starts = _starts(context)
        self._open: deque[_Batch] = deque()
        self._asked = len(self._archive)
        self._measured: dict[int, tuple[Proposals, Evaluation]] = {}
        self._under_way = 0
        self.finished = self.halted = False
        self._all_come_back, self._got_results = True, True
        self._learning = False
        self._pending = pending

    def start(self) -> None:
        """Submit the open batches of the checkpoint, and the starts that have not been measured."""
        for tree in self._pending:
            self._reopen(tree)
        for start in self._starts[self._asked :]:
            self._begin(start)

    @property
    def starts(self) -> int:
        """Number of the start mappings, which have the first tickets."""
        return len(self._starts)

    @property
    def submitted(self) -> int:
        """The ticket after the last row that was submitted."""
        return max([len(self._archive), *(batch.submitted for batch in self._open)])

    @property
    def holds(self) -> bool:
        """True if it has the results that come next in ticket order."""
        return len(self._archive) in self._measured

    @property
    def all_reported(self) -> bool:
        """True if `tell` has got every batch with complete results."""
        return not (self._open and self._open[0].whole)

    @property
    def over(self) -> bool:
        """True if nothing more will happen."""
        if self.halted:
            comes = self._under_way > 0 and (self._all_come_back or self._got_results)
            return not comes and not self.holds
        if self._last is not None and len(self._archive) >= self._last:
            return self.all_reported
        return self.finished and not self._open

    def halt(self) -> None:
        """Let nothing more begin; what has begun is measured to its end."""
        if not self.halted:
            self.halted, self._all_come_back = True, self._executor.rest()

    def advance(self, goal: int) -> list[tuple[Proposals, Evaluation]]:
        """One turn: ask for a batch if one is due, take results, and pass complete batches to `tell`.

        Returns the rows that were archived, in order, none from ticket `goal` on; nothing where the method needs more
        time or results have not come.
        """
        asked = self._ask() if self.due else None
        wait = asked is None and self._under_way > 0
        learning = wait and self._learning and not self.halted
        results = self._executor.ready(WAIT_S if wait and not learning else 0.0)
        if learning and not results:
            self._learning = bool(self._method.learn())
        self._got_results = bool(results)
        for part, evaluation in results:
            self._measured[int(part.tickets[0])] = (part, evaluation)
            self._under_way -= len(part)
        return self._take(goal)

    def extend(self, last: int | None) -> None:
        """Move the end to another ticket, and submit what was left of open batches."""
        self._last = last
        for batch in self._open:
            self._submit(batch)

    # ---- asking

    @property
    def due(self) -> bool:
        """True if a batch is to be asked for: there is room for it, and it can be submitted or `tell` waits for it."""
        if self.finished or self.halted or len(self._archive) < len(self._starts):
            return False
        if len(self._open) > self._method.ahead:
            return False
        return self._last is None or self._asked < self._last or not self.all_reported

    def _ask(self) -> Proposals | None:
        batch = self._method.ask()
        if batch is None:
            self.finished = True
        elif len(batch):
            known = self._open[0].first if self._open else self._asked
            self._begin(batch.numbered(self._asked, known))
            self._learning = bool(self._method.learn())
        return batch

    def _begin(self, batch: Proposals) -> None:
        """Open a numbered batch, and submit it."""
        self._open.append(_Batch(batch, int(batch.tickets[0])))
        self._asked = self._open[-1].end
        self._submit(self._open[-1])

    def _submit(self, batch: _Batch) -> None:
        """Submit what may be measured and has not been."""
        first = max(batch.submitted, len(self._archive))
        end = batch.end if self._last is None else min(batch.end, self._last)
        if first < end:
            rows = batch.proposals.rows(slice(first - batch.first, end - batch.first))
            self._executor.submit(rows, run_keys(self._context.seed, rows.tickets, EVALUATION))
            self._under_way += len(rows)
            batch.submitted = end

    # ---- results

    def _take(self, goal: int) -> list[tuple[Proposals, Evaluation]]:
        """Archive what comes next in ticket order, up to `goal`, and tell batches that are whole."""
        archive, taken = self._archive, []
        self._tell()
        while len(archive) < goal and len(archive) in self._measured:
            part, evaluation = self._measured.pop(len(archive))
            room = goal - len(archive)
            if len(part) > room:
                self._measured[goal] = (part.rows(slice(room, None)), evaluation.rows(slice(room, None)))
                part, evaluation = part.rows(slice(room)), evaluation.rows(slice(room))
            archive.append(part, evaluation)
            next(batch for batch in self._open if not batch.whole).archived.append(evaluation)
            taken.append((part, evaluation))
            self._tell()
        return taken

    def _tell(self) -> None:
        """Tell the batches that are whole and have been asked `ahead` of."""
        while self._open and self._open[0].whole:
            start = self._open[0].end <= len(self._starts)
            if not (start or self.finished or len(self._open) > self._method.ahead):
                return
            self._open[0].tell(self._method)
            self._open.popleft()

    # ---- checkpoints

    def pending(self) -> list[dict[str, Any]]:
        """The open batches, as trees that `checkpoint` can store."""
        return [batch.tree() for batch in self._open]

    def _reopen(self, tree: dict[str, Any]) -> None:
        batch = proposals(tree["mapping"], tree["source"], int(tree["problem"]))
        self._begin(batch.numbered(int(tree["first"]), int(tree["known"])))
        self._open[-1].archived = _archived(self._archive, self._open[-1])


def _starts(context: Context) -> list[Proposals]:
    """The start mappings, or the rules, a batch each, numbered."""
    starts = [(number, start) for number, start in enumerate(context.start) if start is not None]
    known = [*starts, *((0, rule) for rule in context.rules)]
    return [
        proposals(start[None], START, number).numbered(ticket) for ticket, (number, start) in enumerate(known)
    ]


class _Reread:
    """An archive that is read again from its first evaluation, as the archive and the executor of a flow.

    What it holds counts as measured as soon as it is submitted, and as archived as soon as the flow takes it.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive, self._taken = archive, 0
        self._ready: list[tuple[Proposals, Evaluation]] = []

    def __len__(self) -> int:
        return self._taken

    def append(self, part: Proposals, evaluation: Evaluation) -> None:
        self._taken += len(part)

    def evaluation(self, ticket: int) -> Evaluation:
        return self._archive.evaluation(ticket)

    def submit(self, part: Proposals, key: Keys) -> None:
        self._ready.append(
            (part, Evaluation.concatenate([self.evaluation(t) for t in part.tickets.tolist()]))
        )

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        results, self._ready = self._ready, []
        return results

    def rest(self) -> bool:
        return True

    def close(self) -> None:
        return


def replay(method: Method, context: Context) -> list[dict[str, Any]]:
    """Bring a new method without a state to where the archive ends; returns the batches that are open then.

    It is asked again, and gets what is archived. InputError if the archive has let the first of that go.
    """
    archive = context.archive
    if len(archive) > archive.window:
        raise InputError(
            f"--resume: expected at most {archive.window} evaluations, from which this method is brought back,"
            f" found {len(archive)}"
        )
    known = _Reread(archive)
    flow = Flow(method, known, context, len(archive), archive=known)
    with one_thread():
        flow.start()
        while not flow.over:
            flow.advance(len(archive))
    return flow.pending()


def _archived(archive: Archive | _Reread, batch: _Batch) -> list[Evaluation]:
    """What the archive holds of a batch."""
    return [archive.evaluation(ticket) for ticket in range(batch.first, min(batch.end, len(archive)))]
