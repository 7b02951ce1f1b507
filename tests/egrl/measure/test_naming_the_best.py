"""Which mapping of a noisy board is named the best: by a board that lives, while nothing else is measured."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest

from egrl.core.archive import Archive, proposals
from egrl.measure.board import BoardDied
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.config import EvaluatorConfig
from egrl.measure.confirming import contenders
from egrl.measure.evaluator import FunctionBoard
from egrl.measure.records import EvaluatorLog, Measurements
from egrl.runs.naming import choose
from hwsim.mappings import sample_uniformly
from hwsim.problem import Evaluation
from toys import ToyRagged


class Leaving(FunctionBoard):
    """A noisy board that is pulled out after so many measurements."""

    def __init__(self, left: int) -> None:
        super().__init__(lambda rows: 1.0 + 0.1 * (self.left % 3))
        self.left = left

    def measure(self, request, timeout_s):
        self.left -= 1
        if self.left < 0:
            raise BoardDied("pulled out")
        return super().measure(request, timeout_s)


@pytest.mark.parametrize("named", [True, False])
def test_the_best_is_named_by_a_board_that_lives_and_by_none_where_the_last_one_leaves(named):
    problem = ToyRagged()
    config = EvaluatorConfig(restarts=1, retries=0)
    boards = BoardExecutor(problem, [Leaving(6), Leaving(1000)], config, Measurements(), EvaluatorLog())
    try:
        boards.measure_baseline()
        archive = Archive([problem])
        keys = np.arange(12, dtype=np.uint64)
        mapping = sample_uniformly(problem, keys)
        boards.submit(proposals(mapping, "test").numbered(0), keys)
        rows: list = []
        asked = 12
        while len(rows) < asked or len(boards.living) > 1:
            rows += boards.ready(0.2)
            if (
                len(rows) >= asked and len(boards.living) > 1
            ):  # the other board was so quick that it did them all
                keys = np.arange(asked, asked + 12, dtype=np.uint64)
                mapping = sample_uniformly(problem, keys)
                boards.submit(proposals(mapping, "test").numbered(asked), keys)
                asked += 12
        assert len(boards.living) == 1
        for row, evaluation in sorted(rows, key=lambda pair: int(pair[0].tickets[0])):
            archive.append(row, evaluation)
        if not named:
            boards.living[0]._board.left = 0
        found = choose(boards, archive)
        assert (found is not None) == named
    finally:
        boards.close()


def test_the_best_is_named_while_nothing_else_is_measured():
    """A run of so many seconds ends with proposals under way, which must not share a board with the naming."""
    at_once, shared = threading.Lock(), []

    class Slow(FunctionBoard):
        def measure(self, request, timeout_s):
            if not at_once.acquire(blocking=False):
                shared.append(request)
                raise BoardDied("asked twice at once")
            try:
                time.sleep(0.01)
                return super().measure(request, timeout_s)
            finally:
                at_once.release()

    problem, archive = ToyRagged(), Archive([ToyRagged()])
    costs = itertools.cycle([1.0, 1.1, 0.9])
    boards = BoardExecutor(
        problem, [Slow(lambda rows: next(costs))], EvaluatorConfig(rounds=3), Measurements(), EvaluatorLog()
    )
    try:
        boards.measure_baseline()
        keys = np.arange(60, dtype=np.uint64)
        mapping = sample_uniformly(problem, keys)
        boards.submit(proposals(mapping, "test").numbered(0), keys)
        rows: list = []
        while len(rows) < 5:
            rows += boards.ready(0.2)
        for row, evaluation in sorted(rows, key=lambda pair: int(pair[0].tickets[0]))[:5]:
            archive.append(row, evaluation)
        assert choose(boards, archive) is not None
        assert not shared
        assert boards.usage().failures == 0
    finally:
        boards.close()


def test_contenders_are_different_mappings_within_the_noise_best_first():
    problem = ToyRagged()
    archive = Archive([problem])
    keys = np.arange(6, dtype=np.uint64)
    mapping = sample_uniformly(problem, keys)
    mapping[5] = mapping[1]
    costs = np.array([1.2, 1.0, np.nan, 1.05, 0.9, 1.0])
    status = np.array([0, 0, 2, 0, 0, 0], np.int8)
    partial = np.array([False] * 4 + [True] + [False])
    blank = np.zeros(6)
    archive.append(
        proposals(mapping, "test").numbered(0),
        Evaluation(1 / costs, costs, 1 / costs, blank, status, partial, mapping),
    )
    assert contenders(archive, 0.02, 10) == [1, 3]
    assert contenders(archive, 0.1, 10) == [1, 3, 0]
    assert contenders(archive, 0.1, 1) == [1]
