"""The one search loop: any method on any problem, within a budget.

    the start is measured -> ask -> submit -> learn (while measuring) -> archive in ticket order -> tell whole batches
    a row of metrics per generation, checkpoints in between

A generation is so many evaluations, whatever the size of batches; the budget may cut off the last one. `flow` has the
order of calls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import START, Archive, Proposals
from egrl.core.contracts import Budget, Confirms, Executor, Observer, Recorder, policy_is_due
from egrl.core.flow import Flow, one_thread, replay
from egrl.core.log import LOG, NAMES, ROW
from egrl.core.method import Context, Method
from hwsim.jit import clock
from hwsim.problem import Evaluation, Floats, Status
from workloads.errors import InputError, RunFailure
from workloads.references import ran_outside

OTHER_CONTENT = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What reading a checkpoint raises if another version of a method wrote it."""


def search(
    method: Method,
    context: Context,
    executor: Executor,
    budget: Budget,
    recorder: Recorder,
    *,
    observers: Sequence[Observer] = (),
    state: SearchState | None = None,
    stop: Callable[[], bool] = lambda: False,
    enough: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = 20.0,
) -> SearchState:
    """Run `method` until the budget is spent, it has nothing more to propose, or `stop()` or `enough()` is true.

    After `stop` everything submitted is still measured; after `enough` the search ends as if its budget were spent.

    `method` was built from `context`; `state` continues from a checkpoint (see `resume`). Checkpoints are written at
    the beginning, about every `checkpoint_seconds`, and at the end. Returns the last state, whose `generation` counts
    complete generations.
    """
    loop = Loop(method, context, executor, budget, recorder, observers, state, checkpoint_seconds)
    loop.start()
    if enough():
        loop.cut()
    with one_thread():
        while not loop.over:
            loop.turn()
            if stop():
                loop.halt()
            elif enough():
                loop.cut()
        return loop.close()


class Loop:
    """A search that a caller runs turn by turn; `search` runs one to its end.

    Attributes:
        state: how far it has come.
        flow: between method, executor and archive.
    """

    def __init__(
        self,
        method: Method,
        context: Context,
        executor: Executor,
        budget: Budget,
        recorder: Recorder,
        observers: Sequence[Observer] = (),
        state: SearchState | None = None,
        checkpoint_seconds: float = 20.0,
    ) -> None:
        """As `search`."""
        self.state = state or SearchState(champions=[None] * len(context.problems))
        self._method, self._context, self._budget = method, context, budget
        self._recorder, self._observers, self._executor = recorder, observers, executor
        self.flow = Flow(method, executor, context, budget.evaluations, self.state.pending)
        self._fingerprints = [problem.fingerprint() for problem in context.problems]
        self._before, self._started = self.state.seconds, clock()
        self._saved_at, self._save_every = time.monotonic(), checkpoint_seconds

    def start(self) -> None:
        """Submit what a checkpoint left open and the start; a new search takes a checkpoint."""
        self.flow.start()
        if len(self._context.archive) == 0:
            self.save()

    @property
    def over(self) -> bool:
        """True if nothing more will happen."""
        return self.flow.over

    def halt(self) -> None:
        """Submit nothing more; everything submitted is still measured."""
        self.flow.halt()

    def cut(self) -> None:
        """End the budget with the last archived row; a search that is resumed measures what was under way."""
        self.flow.extend(len(self._context.archive))

    def turn(self) -> None:
        """One turn of the flow; then write what is due, and halt if the time is spent."""
        state, archive = self.state, self._context.archive
        boundary = (state.generation + 1) * self._budget.generation_evals
        for observer in self._observers:
            observer.phase(self._method.phase)
        for part, evaluation in self.flow.advance(boundary):
            update_champion(state, part, evaluation, part.known <= self.flow.starts)
            for observer in self._observers:
                observer.evaluations(len(archive), best_speedup(self.named()))
        now = time.monotonic()
        state.seconds = self._before + clock() - self._started
        state.model_calls, state.model_seconds = (
            self._context.model_use.calls,
            self._context.model_use.seconds,
        )
        if len(archive) == boundary and self.flow.all_reported:
            self._end_generation()
        if now - self._saved_at >= self._save_every:
            self.save()
            self._saved_at = time.monotonic()
        limit_s = self._budget.seconds
        if limit_s is not None and state.seconds >= limit_s and len(archive) > 0:
            self.halt()  # something is measured, however short the time

    def close(self) -> SearchState:
        """Write the last policy, the last checkpoint, and what there is of a generation that was cut off.

        The last generation of a method that has nothing more to propose is a whole one, however short.
        """
        state = self.state
        state.finished = self.flow.finished and not self.flow.pending()
        begun = len(self._context.archive) > state.generation * self._budget.generation_evals
        written = state.generation > 0 and policy_is_due(state.generation, self._recorder.policy_every)
        if begun and state.finished:
            state.generation += 1
            self._record(state.generation)
            written = False
        if state.generation and not written:
            self._write_policy(state.generation)
        self.save()
        if begun and not state.finished:
            # The checkpoint does not count this row and policy: a run that goes on cuts them back, and writes those of
            # the whole generation.
            self._record(state.generation + 1)
            self._write_policy(state.generation + 1)
        return self.named()

    def save(self) -> None:
        """Take a checkpoint."""
        self.state.pending = self.flow.pending()
        self._recorder.save(
            self.state.generation,
            self._method.state_dict(),
            {**self.state.to_tree(), "fingerprints": self._fingerprints},
            self._context.archive,
        )

    def named(self) -> SearchState:
        """The state with the champion of each problem that the method names, else the one of the highest reward."""
        champions = []
        for number, best in enumerate(self.state.champions):
            ticket = self._method.champion(number)
            champions.append(best if ticket is None else champion_of(self._context.archive, ticket, number))
        return replace(self.state, champions=champions)

    # ---- what is written

    def _end_generation(self) -> None:
        """Count a generation, and write its row and its policy, where one is due."""
        self.state.generation += 1
        self._record(self.state.generation)
        if policy_is_due(self.state.generation, self._recorder.policy_every):
            self._write_policy(self.state.generation)

    def _record(self, generation: int) -> None:
        archive = self._context.archive
        first = (generation - 1) * self._budget.generation_evals
        row = metrics_row(generation, self.named(), archive, first, self._method)
        if isinstance(self._executor, Confirms):
            row |= self._executor.confirm(generation, archive)
        names = ", ".join(problem.about.workload for problem in self._context.problems)
        rows: Sequence[Recorder | Observer] = (self._recorder, *self._observers, LogRows(names))
        for each in rows:
            each.generation(row)

    def _write_policy(self, generation: int) -> None:
        if policy := self._method.policy():
            self._recorder.write_policy(generation, policy, self._context.problems[0])


class LogRows(Observer):
    """Logs each row of metrics, of the workloads `names`; trackers take the row from the record."""

    def __init__(self, names: str) -> None:
        self._names = names

    def generation(self, row: Mapping[str, Any]) -> None:
        LOG.info(
            "%s: generation %d, %d evaluations, %.1f s, best %.4fx",
            self._names, row["generation"], row["evaluations"], row["seconds"], row["best_speedup"],
            extra={ROW: row, NAMES: self._names},
        )  # fmt: skip


def resume(method: Method, recorder: Recorder, context: Context) -> SearchState:
    """Restore a new method and the empty archive of its context from the folder's last checkpoint.

    A method without state is replayed through the archive.

    Raises InputError as `RunFolder.restore` does, and if the checkpoint holds another state than this method's.
    Exceptions of code from outside the package are not changed.
    """
    problems = context.problems

    def load(tree: dict[str, Any]) -> None:
        SearchState.of_tree(tree["loop"])
        if tree["method"] is not None:
            method.load_state_dict(tree["method"])

    try:
        tree = recorder.restore(context.archive, [problem.fingerprint() for problem in problems], load)
        if tree is None:
            return SearchState(champions=[None] * len(problems))
        state = SearchState.of_tree(tree["loop"])
    except (InputError, RunFailure):
        raise
    except OTHER_CONTENT as error:
        if ran_outside(error):  # a mistake in someone else's method, whose author needs the traceback
            raise
        raise InputError(
            f"the checkpoint: expected what a run leaves, found other content: {error}"
        ) from error
    if tree["method"] is None:
        state.pending = replay(method, context)
    # What bringing it back took is not counted twice.
    context.model_use.calls, context.model_use.seconds = state.model_calls, state.model_seconds
    return state


@dataclass(frozen=True)
class Champion:
    """The best evaluation of a problem so far: valid, complete, of finite reward; the first, if several are equal.

    Attributes:
        untaught: True if the method proposed it before it had a result, but for those of starts.
    """

    reward: float
    cost: float
    speedup: float
    source: str
    ticket: int
    mapping: NDArray[np.int16]
    untaught: bool = False


@dataclass
class SearchState:
    """The state of the loop, as a checkpoint holds it.

    Attributes:
        champions: one per problem, with the highest reward; None before anything ran (see `Loop.named`).
    """

    generation: int = 0
    seconds: float = 0.0
    finished: bool = False
    champions: list[Champion | None] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    model_calls: float = 0.0
    model_seconds: float = 0.0

    def to_tree(self) -> dict[str, Any]:
        """A tree that `checkpoint` can store."""
        return {**asdict(self), "champions": [None if c is None else asdict(c) for c in self.champions]}

    @staticmethod
    def of_tree(tree: dict[str, Any]) -> SearchState:
        """The inverse of `to_tree`."""
        champions = [None if c is None else Champion(**c) for c in tree["champions"]]
        return SearchState(
            int(tree["generation"]),
            float(tree["seconds"]),
            bool(tree["finished"]),
            champions,
            list(tree["pending"]),
            float(tree["model_calls"]),
            float(tree["model_seconds"]),
        )


def update_champion(
    state: SearchState, part: Proposals, evaluation: Evaluation, untaught: bool = False
) -> None:
    """Make the best of some rows the champion, if it is better than the champion so far."""
    eligible = (evaluation.status == Status.OK) & ~evaluation.partial & np.isfinite(evaluation.reward)
    if not eligible.any():
        return
    row = int(np.argmax(np.where(eligible, evaluation.reward, -np.inf)))
    best = state.champions[part.problem]
    if best is None or evaluation.reward[row] > best.reward:
        state.champions[part.problem] = Champion(
            float(evaluation.reward[row]),
            float(evaluation.cost[row]),
            float(evaluation.speedup[row]),
            str(part.source[row]),
            int(part.tickets[row]),
            evaluation.repaired[row].copy(),
            untaught and str(part.source[row]) != START,
        )


def champion_of(archive: Archive, ticket: int, problem: int) -> Champion:
    """The evaluation that a method keeps. ValueError where it did not run, or is of another problem."""
    ran = 0 <= ticket < len(archive) and archive.column("status")[ticket] == Status.OK
    if not ran or archive.column("problem")[ticket] != problem:
        raise ValueError(
            f"champion: expected the ticket of a valid evaluation of problem {problem}, received {ticket}"
        )
    reward, cost, speedup = (float(archive.column(name)[ticket]) for name in ("reward", "cost", "speedup"))
    mapping = archive.mappings(np.array([ticket]))[0]
    return Champion(reward, cost, speedup, str(archive.sources(np.array([ticket]))[0]), ticket, mapping)


def best_speedup(state: SearchState) -> float:
    """The geometric mean of the champions' speedups over problems; 0 until each has a valid mapping."""
    speedups = [0.0 if c is None else c.speedup for c in state.champions]
    if not all(s > 0 for s in speedups):
        return 0.0
    return math.exp(sum(math.log(s) for s in speedups) / len(speedups))


def metrics_row(
    generation: int, state: SearchState, archive: Archive, first: int, method: Method
) -> dict[str, Any]:
    """The metrics of the generation whose evaluations begin at ticket `first`.

    `best_speedup` is that of the function above; `best_reward` is the mean reward of the champions, NaN until each
    problem has one.
    """
    rows = slice(first, len(archive))
    ok = archive.column("status")[rows] == Status.OK
    champions = [c for c in state.champions if c is not None]
    return {
        "generation": generation,
        "evaluations": len(archive),
        "seconds": round(state.seconds, 3),
        "model_calls": round(state.model_calls, 3),
        "model_seconds": round(state.model_seconds, 3),
        "best_speedup": best_speedup(state),
        "best_reward": float(np.mean([np.nan if c is None else c.reward for c in state.champions])),
        "mean_reward": _mean(archive.column("reward")[rows]),
        "mean_speedup": float(np.mean(archive.column("speedup")[rows])),
        "valid_fraction": float(np.mean(ok)),
        "mean_epsilon": float(np.mean(archive.column("epsilon")[rows])),
        "champion_source": max(champions, key=lambda c: c.ticket).source if champions else "",
        **{name: float(value) for name, value in method.metrics().items()},
    }


def _mean(rewards: Floats) -> float:
    """The mean of the rewards that are finite (a failed measurement has none); NaN if none is."""
    known = rewards[np.isfinite(rewards)]
    return float(known.mean()) if len(known) else math.nan
