"""Bounds that a separate process proves while a search runs, each better than the one before."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from egrl.measure.local import end_with_parent
from hwsim.capabilities import HasBound, HasSolving
from hwsim.problem import UNPROVED, Bound, Problem

FIRST_S = 2.0
"""Time limit of the first proof, where a proof begins anew each time; that of the next is twice as long."""
STALE = 2
"""After so many proofs in a row that gave no better bound, no further one is tried."""
STEP_S = 1.0
"""How long a model that is solved in steps is worked on between two looks at its bound."""
CHILD = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
    " from egrl.runs.proving import serve; serve()"
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
