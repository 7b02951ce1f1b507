"""Evaluating in a process that may die: what kills it is found, has failed, and is not tried again.

The problems and the rows go to the process's stdin, pickled; an `Attempt` comes back for each group of rows. If it dies
over a batch, the next process gets the batch one row at a time: the row that has no answer then is the one that kills.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Sequence
from copy import copy as copy_of
from typing import Any

import numpy as np

from egrl.measure.attempt import Attempt, Failures, attempted, failed, joined
from egrl.measure.child import end_with_parent
from hwsim.capabilities import HasRace
from hwsim.problem import Evaluation, Keys, Mapping16, Problem
from workloads.errors import RunFailure

CHILD = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
    " from egrl.measure.apart import serve; serve()"
)
MOST_DEATHS = 3
"""So many processes may die in a row, over rows of which none was ever measured."""


class Apart:
    """A process beside this one, started with the first rows and again after it died.

    Attributes:
        deaths: how often it died.
        measured: whether anything was measured yet, here or elsewhere.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Raises what `pickle` does where a problem does not pickle."""
        self._data = pickle.dumps(sys.path) + pickle.dumps(list(problems))
        self._process: subprocess.Popen[bytes] | None = None
        self._deadly: dict[bytes, str] = {}
        self.measured = False
        self.deaths = 0

    def measure(self, problem: int, mapping: Mapping16, key: Keys, one_by_one: bool = False) -> Attempt:
        """Measure mappings int16 [B, N, H] of a problem by its number; those that kill the process have failed.

        RunFailure where processes die without having measured anything. Raises what the problem's mistakes raise.
        """
        known = [row.tobytes() in self._deadly for row in mapping]
        if not one_by_one and not any(known):
            whole = self._asked(problem, mapping, key)
            if not isinstance(whole, str):
                return whole
        return joined([self._row(problem, mapping[k : k + 1], key[k : k + 1]) for k in range(len(mapping))])

    def _row(self, problem: int, mapping: Mapping16, key: Keys) -> Attempt:
        name = mapping.tobytes()
        if name not in self._deadly:
            found = self._asked(problem, mapping, key)
            if not isinstance(found, str):
                return found
            self._deadly[name] = f"it ended the process that measured it, which {found}"
        return Attempt(failed(mapping), (self._deadly[name],))

    def _asked(self, problem: int, mapping: Mapping16, key: Keys) -> Attempt | str:
        """The answer of the process; how it ended, where it died."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((problem, mapping, key), process.stdin)
            process.stdin.flush()
            found: Any = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            return self._ended()
        if isinstance(found, Exception):
            raise found
        self.measured = True
        return found if isinstance(found, Attempt) else Attempt(failed(mapping), (str(found),))

    def _ended(self) -> str:
        """How the process ended. RunFailure where none has measured anything."""
        assert self._process is not None
        self.close()
        code, self._process = self._process.returncode, None
        self.deaths += 1
        how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        if not self.measured and self.deaths > MOST_DEATHS:
            raise RunFailure(
                f"worker processes died {self.deaths} times, the last {how}; none measured anything"
            )
        return how

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(self._data)
            process.stdin.flush()
        self._process = process
        return process

    def close(self) -> None:
        """End the process."""
        process = self._process
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


GRACE_S = 2.0
"""How long the process may take to end once its stdin is closed."""


def sheltered(problem: Problem) -> Problem:
    """The problem, whose `evaluate` works in a process apart, wherever it is called; it pickles as what it was.

    The problem itself where it does not pickle, cannot be copied, or measures on this machine: that has a memory.
    """
    if problem.about.measured or isinstance(problem, HasRace):
        return problem
    try:
        apart, copy = Apart([problem]), copy_of(problem)
        copy.__class__ = _sheltered_class(type(problem), apart, problem)
    except (pickle.PicklingError, AttributeError, TypeError):
        return problem
    weakref.finalize(copy, apart.close)
    return copy


def _sheltered_class(kind: type, apart: Apart, original: Problem) -> type:
    """A class that is as `kind`, but for where it evaluates, and how it pickles."""
    failures, calls = Failures(), itertools.count()

    def evaluate(self: Problem, mapping: Mapping16, key: Keys) -> Evaluation:
        return failures.take(apart.measure(0, np.ascontiguousarray(mapping), key), next(calls))

    def reduce(self: Problem, protocol: int) -> tuple[Any, ...]:
        return _same, (original,)

    names = {
        "evaluate": evaluate,
        "__reduce_ex__": reduce,
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
    }
    return type(kind.__name__, (kind,), {**names, "__qualname__": kind.__qualname__})


def _same(problem: Problem) -> Problem:
    return problem


def serve() -> None:
    """The work of the process: measure what stdin asks for, and write attempts to stdout."""
    end_with_parent()
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # a problem may print what it likes
        problems = pickle.load(sys.stdin.buffer)
        while True:
            try:
                problem, mapping, key = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            out.write(answer(problems[problem], mapping, key))
            out.flush()


def answer(problem: Problem, mapping: Mapping16, key: Keys) -> bytes:
    """A pickled `Attempt`, or the exception that ends the run."""
    found: Attempt | Exception
    try:
        found = attempted(problem, mapping, np.ascontiguousarray(key))
    except Exception as error:
        found = error
    try:
        return pickle.dumps(found)
    except Exception:  # an exception with what does not pickle
        first = ValueError(found.reasons[0]) if isinstance(found, Attempt) else ValueError(str(found))
        return pickle.dumps(
            Attempt(found.evaluation, found.reasons, first) if isinstance(found, Attempt) else first
        )
