"""The one search loop: any method on any problem, within a budget, leaving a run recorder.

    the start is measured -> ask -> submit -> learn (while measuring) -> archive in ticket order -> tell whole batches
    a row of metrics a generation, checkpoints in between

A generation is so many evaluations, whatever the size of batches; the budget may cut off the last one. `flow` has the
order of calls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Archive
from egrl.core.budget import Budget
from egrl.core.executor import Executor
from egrl.core.flow import Flow, replay
from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals
from egrl.core.recorder import Observer, Recorder, policy_is_due
from hwsim.problem import Evaluation, Floats, Status


@dataclass(frozen=True)
class Champion:
    """The best evaluation of a problem so far: valid, whole, finite; the earliest among equals."""

    reward: float
    cost: float
    speedup: float
    source: str
    ticket: int
    mapping: NDArray[np.int16]


@dataclass
class SearchState:
    """How far a run has come; what a checkpoint holds of the loop."""

    generation: int = 0
    seconds: float = 0.0
    finished: bool = False
    champions: list[Champion | None] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)

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
            list(tree.get("pending", [])),
        )


def search(
    method: Method,
    context: Context,
    executor: Executor,
    budget: Budget,
    recorder: Recorder,
    *,
    observer: Observer,
    state: SearchState | None = None,
    stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = 20.0,
) -> SearchState:
    """Run `method` until the budget is spent, it has nothing more to propose, or `stop()` says so.

    `method` was built from `context`; `state` goes on from a checkpoint (see `resume`). A checkpoint is taken first,
    about every `checkpoint_seconds`, and last. Returns the state reached; its `generation` counts whole generations.
    """
    state, archive = state or SearchState(champions=[None] * len(context.problems)), context.archive
    before, started = state.seconds, time.monotonic()
    flow = Flow(method, executor, context, budget.evaluations, state.pending)
    fingerprints = [problem.fingerprint() for problem in context.problems]
    diary = _Diary(method, context, fingerprints, recorder, observer, state, flow, budget.generation_evals)
    if len(archive) == 0:
        diary.save()
    saved_at = started
    while not flow.over:
        observer.phase(method.phase)
        boundary = (state.generation + 1) * budget.generation_evals
        for part, evaluation in flow.advance(boundary):
            _crown(state, part, evaluation)
            observer.evaluations(len(archive), best_speedup(state))
        state.seconds = before + time.monotonic() - started
        if len(archive) == boundary and flow.settled:
            diary.end_generation()
        if time.monotonic() - saved_at >= checkpoint_seconds:
            diary.save()
            saved_at = time.monotonic()
        out_of_time = budget.seconds is not None and state.seconds >= budget.seconds
        if stop() or (out_of_time and len(archive) > 0):  # something is measured, however short the time
            flow.halt()
    state.finished = flow.finished and flow.settled and not flow.pending()
    diary.close()
    return state


@dataclass(frozen=True)
class _Diary:
    """What a search writes: checkpoints, a row of metrics a generation, policies."""

    method: Method
    context: Context
    fingerprints: list[str]
    recorder: Recorder
    observer: Observer
    state: SearchState
    flow: Flow
    generation_evals: int

    def save(self) -> None:
        """A checkpoint."""
        self.state.pending = self.flow.pending()
        self.recorder.save(
            self.state.generation,
            self.method.state_dict(),
            {**self.state.to_tree(), "fingerprints": self.fingerprints},
            self.context.archive,
        )

    def end_generation(self) -> None:
        """Count a generation, and write its row and its policy, where one is due."""
        self.state.generation += 1
        self._record(self.state.generation)
        if policy_is_due(self.state.generation, self.recorder.policy_every):
            self._write_policy(self.state.generation)

    def _record(self, generation: int) -> None:
        self._ask_for_champions()
        first = (generation - 1) * self.generation_evals
        row = metrics_row(generation, self.state, self.context.archive, first, self.method)
        self.recorder.append_metrics(row)
        self.observer.generation(row)

    def _ask_for_champions(self) -> None:
        for number in range(len(self.context.problems)):
            ticket = self.method.champion(number)
            if ticket is not None:
                self.state.champions[number] = _champion_of(self.context.archive, ticket, number)

    def _write_policy(self, generation: int) -> None:
        if policy := self.method.policy():
            self.recorder.write_policy(generation, policy, self.context.problems[0])

    def close(self) -> None:
        """The last policy, the last checkpoint, and what there is of a generation that the budget cut off.

        The last generation of a method that has nothing more to propose is a whole one, however short.
        """
        state = self.state
        begun = len(self.context.archive) > state.generation * self.generation_evals
        if begun and state.finished:
            state.generation += 1
            self._record(state.generation)
        if state.generation and (
            (begun and state.finished) or not policy_is_due(state.generation, self.recorder.policy_every)
        ):
            self._write_policy(state.generation)
        self.save()
        if begun and not state.finished:
            # The checkpoint does not count this row and policy: a run that goes on cuts them back, and writes those of
            # the whole generation.
            self._record(state.generation + 1)
            self._write_policy(state.generation + 1)


def _crown(state: SearchState, part: Proposals, evaluation: Evaluation) -> None:
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
        )


def _champion_of(archive: Archive, ticket: int, problem: int) -> Champion:
    """The evaluation that a method keeps. ValueError where it did not run, or is of another problem."""
    ran = 0 <= ticket < len(archive) and archive.column("status")[ticket] == Status.OK
    if not ran or archive.column("problem")[ticket] != problem:
        raise ValueError(
            f"champion: expected the ticket of a valid evaluation of problem {problem}, received {ticket}"
        )
    reward, cost, speedup = (float(archive.column(name)[ticket]) for name in ("reward", "cost", "speedup"))
    mapping = archive.mappings(np.array([ticket]))[0]
    return Champion(reward, cost, speedup, str(archive.column("source")[ticket]), ticket, mapping)


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

    best_speedup is that of the function; best_reward the champions' mean reward, NaN until each problem has one.
    """
    rows = slice(first, len(archive))
    ok = archive.column("status")[rows] == Status.OK
    crowned = [c for c in state.champions if c is not None]
    return {
        "generation": generation,
        "evaluations": len(archive),
        "seconds": round(state.seconds, 3),
        "best_speedup": best_speedup(state),
        "best_reward": float(np.mean([np.nan if c is None else c.reward for c in state.champions])),
        "mean_reward": _mean(archive.column("reward")[rows]),
        "mean_speedup": float(np.mean(archive.column("speedup")[rows])),
        "valid_fraction": float(np.mean(ok)),
        "mean_epsilon": float(np.mean(archive.column("epsilon")[rows])),
        "champion_source": max(crowned, key=lambda c: c.ticket).source if crowned else "",
        **{name: float(value) for name, value in method.metrics().items()},
    }


def _mean(rewards: Floats) -> float:
    """Of what was measured: a measurement that failed has no reward. NaN where all did."""
    known = rewards[np.isfinite(rewards)]
    return float(known.mean()) if len(known) else math.nan


def resume(method: Method, recorder: Recorder, context: Context) -> SearchState:
    """Bring a new method, and the empty archive of its context, to where the folder's last checkpoint left them.

    Raises InputError as `RunFolder.restore` does. A method without state is replayed through the archive.
    """
    tree = recorder.restore(context.archive, [problem.fingerprint() for problem in context.problems])
    if tree is None:
        return SearchState(champions=[None] * len(context.problems))
    state = SearchState.of_tree(tree["loop"])
    if tree["method"] is not None:
        method.load_state_dict(tree["method"])
    else:
        state.pending = replay(method, context)
    return state
