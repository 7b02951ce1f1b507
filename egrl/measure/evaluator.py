"""Builds the executor for `--evaluator "CMD"` or a Python function, with one board per worker.

A function is called with the rows of best_mapping.json, [{"node": …, head: choice, …}, …], and returns seconds, a
list of seconds, or an answer as a board gives it ({"invalid": true, "epsilon": 0.2}); an exception counts as a crash.
With several workers it is called from as many threads. It cannot be interrupted: time-outs are for commands.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from egrl.measure.board import Answer, Board, BoardFailure, answer_of, excerpt
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.board_process import BoardProcess
from egrl.measure.config import EvaluatorConfig
from egrl.measure.records import EvaluatorLog, Measurements
from egrl.measure.reported import REPORTED
from hwsim.problem import Problem
from workloads.errors import InputError

Function = Callable[[Sequence[Mapping[str, Any]]], Any]
PYTHON = "python:"
"""How the name of a function begins where that of a command would stand."""


class FunctionBoard:
    """A Python function as a board."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def measure(self, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """Call the function with rows of its own; an exception is a failure as a command's, and tried again."""
        try:
            found = self._function([dict(row) for row in request["mapping"]])
            if isinstance(found, np.ndarray | np.generic):
                found = found.tolist()
            return answer_of(found if isinstance(found, Mapping) else {"latency_s": found}, excerpt)
        except BoardFailure:
            raise
        except Exception as error:
            raise BoardFailure(excerpt(f"{type(error).__name__}: {error}")) from error

    def close(self) -> None:
        """Nothing to end."""


def name_of(evaluator: str | Function) -> str:
    """What a config holds of an evaluator: the command, or the function's name. InputError where it is neither."""
    if isinstance(evaluator, str):
        if not evaluator.strip():
            raise InputError("--evaluator: expected a command, found an empty one")
        return evaluator
    if not callable(evaluator):
        raise InputError(f"evaluator: expected a command or a function, found {evaluator!r}")
    kind = getattr(evaluator, "__qualname__", type(evaluator).__qualname__)
    return f"{PYTHON}{getattr(evaluator, '__module__', '')}.{kind}"


def is_command(name: str) -> bool:
    """Whether what a config holds of an evaluator is a command, which can be started again."""
    return bool(name) and name != REPORTED and not name.startswith(PYTHON)


def boards_of(name: str, function: Function | None, workers: int, config: EvaluatorConfig) -> list[Board]:
    """`workers` boards.

    InputError where the command is none or names no program, or the function of a run is not at hand.
    """
    if function is not None:
        return [FunctionBoard(function) for _ in range(workers)]
    if name == REPORTED:
        raise InputError(
            "--evaluator: the seconds of this run were reported by its caller: expected egrl.Search(resume=…), or"
            ' --evaluator "CMD" with a command that measures the same, found neither'
        )
    if name.startswith(PYTHON):
        raise InputError(
            f"--evaluator {name}: this run is measured by a Python function: expected egrl.search(resume=…,"
            " evaluator=that function)"
        )
    try:
        command = shlex.split(name)
    except ValueError as error:
        raise InputError(f"--evaluator {name!r}: expected a command: {error}") from error
    if not command:
        raise InputError(f"--evaluator {name!r}: expected a command, found none")
    if shutil.which(command[0]) is None:
        there = "a file that cannot be run" if os.path.exists(command[0]) else "no such program"
        raise InputError(
            f"--evaluator {name!r}: expected a command that can be started, found {there}: {command[0]}"
        )
    return [BoardProcess(command, config.start_timeout_s) for _ in range(workers)]


def board_executor(
    problem: Problem, evaluator: str, workers: int, config: EvaluatorConfig, function: Function | None
) -> BoardExecutor:
    """The executor of `--evaluator`, a board a worker; nothing is started yet. Raises InputError as `boards_of`."""
    made = boards_of(evaluator, function, workers, config)
    return BoardExecutor(problem, made, config, Measurements(), EvaluatorLog())
