"""How far the best of a search is from what is proven, seen from outside: the search never sees the bound.

A search that stops because its best is near enough is the beginning of one that goes on. While a run goes on, a note
says once that going on hardly pays; its summary says what `--until-gap` would have saved.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from egrl.core.contracts import Budget, Observer
from egrl.core.loop import Champion
from egrl.measure.child import end_with_parent
from egrl.runs import progress
from egrl.runs.config import NEVER, RunOptions, share_of
from egrl.runs.progress import IDLE, Gains
from egrl.runs.text import OPTIMAL, PROVED, percent_up
from hwsim.capabilities import HasBound, HasSolving
from hwsim.problem import UNPROVED, Bound, Problem
from workloads.errors import InputError

SMALL = 2**17
"""A problem with no more mappings than these is solved before the search begins: that takes a second at most."""

UNPICKLABLE = (pickle.PicklingError, AttributeError, TypeError)
"""Errors of a problem that cannot be sent to another process."""
ALONE = "no bound is proved beside the search"


def check(options: RunOptions, problem: Problem) -> None:
    """InputError where a gap is asked for, and no bound says anything of the costs that are searched."""
    asked = options.until_gap not in ("", NEVER)
    if asked and not options.evaluator and (reason := unbounded(problem)):
        raise InputError(f"--until-gap {options.until_gap}: expected {reason}, found {problem.about.name}")


def unbounded(problem: Problem) -> str:
    """What is missing to compare a problem's best with a bound, in words; "" if nothing is."""
    if not isinstance(problem, HasBound):
        return "a problem with a bound"
    if problem.about.measured:
        return "costs of a model, since a bound says nothing of measured ones"
    twice = np.stack([problem.baseline.mapping] * 2)
    first, second = problem.evaluate(twice, np.array([1, 2], np.uint64)).cost
    return "" if first == second or np.isnan([first, second]).any() else "a chip without noise"


class Gap(Observer):
    """Knows how far the best is from what is proved, and whether that is near enough to stop.

    With `--until-gap` a process proves beside the search. Without, the search stops only at an optimum, by a bound that
    is known at its beginning: equal runs stop at the same evaluation then.

    Attributes:
        proven: the best bound so far.
        reached: True if the best is near enough.
        begun_with: the bound that was known at the beginning.
        unasked: True if a gap to stop at could have been asked for, and was not.
    """

    def __init__(
        self,
        problem: Problem,
        options: RunOptions,
        best: Champion | None,
        bar: Observer,
        quiet: bool,
        proves: bool = False,
    ) -> None:
        """`best` is the champion that a run goes on with; `bar` shows the bound; `proves`: the method proves one."""
        self._problem, self._bar, self._quiet = problem, bar, quiet
        self.proven, self.begun_with, self.reached = UNPROVED, UNPROVED, False
        self._proving: Proving | None = None
        self._limit = share_of(options.until_gap)
        if options.evaluator or unbounded(problem):
            self._limit = None
        self.unasked = self._limit is not None and not options.until_gap
        if self._limit is None:
            return
        self._take(_known(problem, 0.0 if proves else options.bound_seconds))
        self.begun_with = self.proven
        if best is not None:
            self._look(best.speedup, best.reward)
        rises = proves and isinstance(problem, HasSolving)
        if options.until_gap and not self.reached and not rises:
            try:
                self._proving = Proving(problem)
            except UNPICKLABLE as error:
                progress.note(f"{ALONE}: {error}", quiet)

    def __enter__(self) -> Gap:
        return self

    def __exit__(self, *error: object) -> None:
        if self._proving is not None:
            self._proving.close()

    def evaluations(self, count: int, best_speedup: float) -> None:
        """Look, if the method itself has proved more: it may propose very little."""
        if self._limit is not None and isinstance(self._problem, HasSolving) and self._take(self._own()):
            self._look(best_speedup, math.nan)

    def generation(self, row: Mapping[str, Any]) -> None:
        """Look, with what has been proved meanwhile."""
        if self._limit is None:
            return
        if self._proving is not None:
            self._take(self._proving.bound)
            if self._proving.failure:
                progress.note(f"{ALONE}: {self._proving.failure}", self._quiet)
                self._proving.failure = ""
        self._look(float(row["best_speedup"]), float(row["best_reward"]))

    def to(self, speedup: float, bound: float | None = None) -> float:
        """The gap of a best with this speedup to a bound on costs (None: to what is proved); infinite if unknown."""
        if bound is None:
            bound = 0.0 if math.isfinite(self.proven.reward) else self.proven.cost
        return self._problem.baseline.cost / speedup / bound - 1.0 if bound > 0 and speedup > 0 else math.inf

    def proved(self, seconds: float) -> Bound:
        """What the search stopped at, or what was proved beside it if `seconds` more would prove no better; else
        `UNPROVED`.
        """
        if self._proving is None:
            return self.proven if self.reached else UNPROVED
        self._take(self._proving.bound)
        enough = self.reached or self._proving.over or self.proven.seconds >= seconds
        return self.proven if enough else UNPROVED

    def _own(self) -> Bound:
        return self._problem.bound(0.0) if isinstance(self._problem, HasBound) else UNPROVED

    def _take(self, bound: Bound) -> bool:
        """Keep the bound if it is better, and show it."""
        if not better(bound, self.proven):
            return False
        self.proven = bound
        if bound.cost > 0:
            self._bar.bound(self._problem.baseline.cost / bound.cost)
        return True

    def _look(self, speedup: float, reward: float) -> None:
        assert self._limit is not None
        bound = self.proven
        if math.isfinite(bound.reward):
            self.reached |= bound.reward - reward <= max(self._limit, PROVED) * abs(bound.reward)
        else:
            self.reached |= self.to(speedup) <= max(self._limit, OPTIMAL)


def _known(problem: Problem, seconds: float) -> Bound:
    """The bound at the beginning of a search: one known already, or that of a problem with few mappings."""
    assert isinstance(problem, HasBound)
    known = problem.bound(0.0)
    live = problem.space.num_choices[problem.space.live]
    few = float(np.log2(live.astype(np.float64)).sum()) <= math.log2(SMALL)
    if few and seconds > 0 and not better(known, UNPROVED):
        return problem.bound(seconds)
    return known


FIRST_S = 2.0
"""Time limit of the first proof, where a proof begins anew each time; that of the next is twice as long."""
STALE = 2
"""After so many proofs in a row that gave no better bound, no further one is tried."""
STEP_S = 1.0
"""How long a model that is solved in steps is worked on between two looks at its bound."""
CHILD = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
    " from egrl.runs.gap import serve; serve()"
)


def better(one: Bound, other: Bound) -> bool:
    """True if `one` is a better bound than `other`."""
    return one.cost > other.cost or one.reward < other.reward


def rising(fresh: Callable[[], Problem]) -> Iterator[Bound]:
    """Bounds of a problem, each better than the last; it ends where there is nothing more to try.

    `fresh` gives the problem as it was at first: some keep the first bound that they prove.
    """
    problem, best = fresh(), UNPROVED
    if isinstance(problem, HasSolving):
        solving = problem.solving(0, 1, problem.baseline.mapping)
        while not solving.done:
            solving.work(STEP_S)
            if better(solving.bound, best):
                yield (best := solving.bound)
        return
    limit_s, stale = FIRST_S, 0
    while isinstance(problem, HasBound) and stale < STALE:
        stale += 1
        if better(found := problem.bound(limit_s), best):
            stale = 0
            yield (best := found)
        limit_s *= 2
        problem = fresh()


class Proving:
    """The process that proves bounds. The search never waits for it.

    Attributes:
        bound: the best so far.
        over: True if it will not become better.
        failure: why nothing more is proved, "" where that is no mistake.
    """

    def __init__(self, problem: Problem) -> None:
        """Start it. Raises what `pickle` does if the problem does not pickle."""
        self.bound, self.over, self.failure = UNPROVED, False, ""
        data = pickle.dumps(sys.path) + pickle.dumps(problem)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._thread = threading.Thread(target=self._listen, args=(data,), daemon=True)
        self._thread.start()

    def _listen(self, data: bytes) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(OSError):
            stdin.write(data)
        with contextlib.suppress(OSError):
            stdin.close()
        answer: dict[str, Any] = {}
        for line in stdout:
            answer = json.loads(line)
            if "bound" in answer:
                self.bound = Bound(**answer["bound"])
        if "over" not in answer:
            self.failure = answer.get("failure", "its process ended")
        self.over = True

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._thread.join()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def serve() -> None:
    """The work of the process: read the problem from stdin, and write a line of JSON per bound to stdout."""
    end_with_parent()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)  # solvers write to stdout what they like
        data = sys.stdin.buffer.read()

        def say(**answer: object) -> None:
            print(json.dumps(answer), file=out, flush=True)

        try:
            for bound in rising(lambda: pickle.loads(data)):
                say(bound=vars(bound))
        except Exception as error:  # it is said by whoever started this process
            say(failure=f"{type(error).__name__}: {error}")
            raise
        say(over=True)


NEAR = 5e-3
"""The gap below which going on hardly pays, if nothing was gained for long. Assumption."""
LONG = 20
"""Generations without a gain after which that is said. Assumption."""
WIDEST = 0.05
"""The widest gap that `--until-gap` is advised with: a wider one says little of another seed. Assumption."""


class HardlyPays(Observer):
    """Says once per run that going on hardly pays: the gap is below `NEAR`, and `LONG` generations gained nothing."""

    def __init__(
        self, gap: Gap, gains: Gains, budget: Budget, rows: Sequence[Mapping[str, Any]], quiet: bool
    ) -> None:
        """`rows` are the metrics of a run that is resumed: what was said then is not said again."""
        self._gap, self._gains, self._budget, self._quiet = gap, gains, budget, quiet
        before = Gains(budget.generation_evals)
        self._said = False
        for row in rows:
            before.generation(row)
            self._said = self._said or self._due(row, before)

    def generation(self, row: Mapping[str, Any]) -> None:
        """Look, after `gap` and `gains` have; nothing is said where the search ends anyway."""
        over = self._gap.reached or self._gains.count == self._budget.evaluations
        if self._said or over or not self._due(row, self._gains):
            return
        self._said = True
        left = self._gap.to(float(row["best_speedup"]))
        progress.note(
            f"at most {percent_up(left)} can still be gained, and {LONG} generations have gained nothing; Ctrl-C ends"
            " the run and keeps the best",
            self._quiet,
        )

    def _due(self, row: Mapping[str, Any], gains: Gains) -> bool:
        return gains.idle(LONG) > 0 and self._gap.to(float(row["best_speedup"])) < NEAR


def sooner(gap: Gap, gains: Gains, document: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `--until-gap` saves a run that was not given it, for the `document` of its summary; None if that is little.

    It is little if less than half of the evaluations came after the last gain, or fewer than `IDLE` generations.

    Returns:
        `until_gap`, the share to give; `evaluations`, after which the best was so near to the bound; `rest`, the share
        by which all others improved it; `known`, True if the bound was known from the beginning.
    """
    from egrl.runs.summary import BUDGET

    cost, (count, speedup) = document["bound"], gains.last()
    late = 2 * count > gains.count or not gains.idle(IDLE)
    if not gap.unasked or document["stopped"] != BUDGET or cost is None or "reward_bound" in document or late:
        return None
    if gap.to(speedup, cost) > WIDEST:
        return None
    for share in _shares(gap.to(speedup, cost)):
        limit = max(share_of(share) or 0.0, OPTIMAL)
        stop = next(rise for rise in gains.rises if gap.to(rise[1], cost) <= limit)
        if stop[0] == count:
            break
    rest = document["best"]["speedup"] / stop[1] - 1.0
    known = gap.begun_with.cost >= cost
    return {"until_gap": share, "evaluations": stop[0], "rest": rest, "known": known}


def _shares(gap: float) -> tuple[str, ...]:
    """Shares above a gap (of an optimum: 0), as `--until-gap` takes them, the rounder one first."""
    if gap <= OPTIMAL:
        return ("0%",)
    return f"{(math.floor(gap * 1e3) + 1) / 10:g}%", f"{(math.floor(gap * 1e4) + 1) / 100:g}%"
