"""The one search loop: any method on any problem, within a budget, leaving a run recorder.

    ask -> submit -> learn (what is due, while measuring) -> tell in ticket order -> a metrics row a generation

A generation is `GENERATION` evaluations; the budget may cut off the last one. Checkpoints hold what is under way; see
`flow`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Archive
from egrl.core.budget import GENERATION, Budget
from egrl.core.executor import Executor
from egrl.core.flow import Flow
from egrl.core.method import Method
from egrl.core.proposals import Proposals
from egrl.core.recorder import Observer, Recorder, policy_is_due
from hwsim.problem import Evaluation, Floats, Problem, Status
from workloads.errors import InputError


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
    problems: Sequence[Problem],
    executor: Executor,
    budget: Budget,
    recorder: Recorder,
    *,
    archive: Archive,
    seed: int,
    observer: Observer,
    state: SearchState | None = None,
    stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = 20.0,
) -> SearchState:
    """Run `method` until the budget is spent, it has nothing more to propose, or `stop()` says so.

    `state` and `archive` go on from a checkpoint (see `resume`). A checkpoint is taken first, at least every
    `checkpoint_seconds`, and last. Returns the state reached; its `generation` counts whole generations.
    """
    state = state or SearchState(champions=[None] * len(problems))
    before, started = state.seconds, time.monotonic()
    saved_at = started
    flow = Flow(method, executor, archive, seed, budget.evaluations)
    flow.submit_again(state.pending)
    fingerprints = [problem.fingerprint() for problem in problems]
    diary = _Diary(method, problems[0], fingerprints, recorder, observer, archive, state, flow)

    def spent() -> bool:  # something is measured, however short the time
        return len(archive) > 0 and budget.spent(len(archive), before + time.monotonic() - started)

    if len(archive) == 0:
        diary.save()
    while not (state.finished or stop() or (spent() and flow.idle)):
        known, first = len(archive), len(archive) // GENERATION * GENERATION
        for part, evaluation in flow.generation(spent):
            _crown(state, part, evaluation)
        state.finished = flow.finished and flow.idle
        state.seconds = before + time.monotonic() - started
        if len(archive) == known or (len(archive) < first + GENERATION and not state.finished):
            break
        state.generation += 1
        diary.record(state.generation, first)
        if policy_is_due(state.generation, recorder.policy_every):
            diary.write_policy(state.generation)
        if time.monotonic() - saved_at >= checkpoint_seconds:
            diary.save()
            saved_at = time.monotonic()
    diary.close()
    return state


@dataclass(frozen=True)
class _Diary:
    """What a search writes: checkpoints, a row of metrics a generation, policies."""

    method: Method
    problem: Problem
    fingerprints: list[str]
    recorder: Recorder
    observer: Observer
    archive: Archive
    state: SearchState
    flow: Flow

    def save(self) -> None:
        self.state.pending = self.flow.pending()
        self.recorder.save(
            self.state.generation,
            self.method.state_dict(),
            {**self.state.to_tree(), "fingerprints": self.fingerprints},
            self.archive,
        )

    def record(self, generation: int, first: int) -> None:
        """The row of a generation whose evaluations begin at ticket `first`."""
        row = metrics_row(generation, self.state, self.archive, first, self.method)
        self.recorder.append_metrics(row)
        self.observer.generation(row)

    def write_policy(self, generation: int) -> None:
        if policy := self.method.policy():
            self.recorder.write_policy(generation, policy, self.problem)

    def close(self) -> None:
        """The last policy, the last checkpoint, and what there is of a generation that the budget cut off."""
        generation = self.state.generation
        if generation and not policy_is_due(generation, self.recorder.policy_every):
            self.write_policy(generation)
        self.save()
        first = len(self.archive) // GENERATION * GENERATION
        if len(self.archive) > first and not self.state.finished:
            # The checkpoint does not count this row and policy: a run that goes on cuts them back, and writes those of
            # the whole generation.
            self.record(generation + 1, first)
            self.write_policy(generation + 1)


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


def metrics_row(
    generation: int, state: SearchState, archive: Archive, first: int, method: Method
) -> dict[str, Any]:
    """The metrics of the generation whose evaluations begin at ticket `first`.

    best_speedup is the champions' geometric mean over problems, 0 until each has a valid mapping; best_reward their
    mean reward, NaN until then.
    """
    rows = slice(first, len(archive))
    ok = archive.column("status")[rows] == Status.OK
    speedups = [0.0 if c is None else c.speedup for c in state.champions]
    best = (
        math.exp(sum(math.log(s) for s in speedups) / len(speedups)) if all(s > 0 for s in speedups) else 0.0
    )
    crowned = [c for c in state.champions if c is not None]
    return {
        "generation": generation,
        "evaluations": len(archive),
        "seconds": round(state.seconds, 3),
        "best_speedup": best,
        "best_reward": float(np.mean([np.nan if c is None else c.reward for c in state.champions])),
        "mean_reward": _mean(archive.column("reward")[rows]),
        "mean_speedup": float(np.mean(archive.column("speedup")[rows])),
        "valid_fraction": float(np.mean(ok)),
        "mean_epsilon": float(np.mean(archive.column("epsilon")[rows])),
        "champion_source": max(crowned, key=lambda c: c.ticket).source if crowned else "",
        **{name: float(method.metrics()[name]) for name in method.metric_names},
    }


def _mean(rewards: Floats) -> float:
    """Of what was measured: a measurement that failed has no reward. NaN where all did."""
    known = rewards[np.isfinite(rewards)]
    return float(known.mean()) if len(known) else math.nan


def resume(method: Method, recorder: Recorder, archive: Archive, problems: Sequence[Problem]) -> SearchState:
    """Bring a new method and an empty archive to where the folder's last checkpoint left them.

    Raises InputError as `RunFolder.restore` does. A method without state is replayed through the archive.
    """
    tree = recorder.restore(archive, [problem.fingerprint() for problem in problems])
    if tree is None:
        return SearchState(champions=[None] * len(problems))
    state = SearchState.of_tree(tree["loop"])
    if tree["method"] is not None:
        method.load_state_dict(tree["method"])
    else:
        replay(method, archive)
        state.pending = []  # the replayed method proposes it again
    return state


def replay(method: Method, archive: Archive) -> None:
    """Ask a fresh method again for every archived evaluation and tell it the archived result.

    Raises InputError where the archive has let the first of them go.
    """
    if len(archive) > archive.window:
        raise InputError(
            f"--resume: expected at most {archive.window} evaluations, from which this method is brought back,"
            f" found {len(archive)}"
        )
    asked = 0
    while asked < len(archive):
        room = min(GENERATION - asked % GENERATION, len(archive) - asked)
        batch = method.ask(room)
        if batch is None:
            break
        method.learn()
        batch = batch.numbered(asked)
        for row in range(len(batch)):
            method.tell(batch.rows(slice(row, row + 1)), archive.evaluation(asked + row))
        asked += len(batch)
