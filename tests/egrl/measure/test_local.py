"""Executors: the pool measures what the caller would, and survives a worker's death."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import subjects
from egrl.core.archive import proposals
from egrl.measure import attempt, local
from hwsim.mappings import sample_uniformly
from hwsim.problem import Evaluation
from workloads.errors import RunFailure


@pytest.fixture(scope="module")
def problem():
    """With noise, so that the keys of its rows matter."""
    return subjects.problem("nnpi-noisy")


def batch(problem, rows, first):
    keys = np.arange(first, first + rows, dtype=np.uint64)
    mapping = sample_uniformly(problem, keys)
    return proposals(mapping, "test").numbered(first), keys


def collect(pool, rows):
    parts = []
    while sum(len(part) for part, _ in parts) < rows:
        parts += pool.ready(0.5)
    parts.sort(key=lambda pair: pair[0].tickets[0])
    assert np.concatenate([part.tickets for part, _ in parts]).tolist() == list(range(rows))
    return Evaluation.concatenate([evaluation for _, evaluation in parts])


@pytest.mark.slow
def test_a_pool_measures_as_the_calling_process_does_and_outlives_a_killed_worker(problem):
    pool = local.build([problem], 2)
    assert isinstance(pool, local.ProcessPool)
    try:
        first, keys = batch(problem, 21, 0)
        pool.submit(first, keys)
        found = collect(pool, 21)
        expected = problem.evaluate(first.mapping, keys)
        for name in vars(expected):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        for worker in list(pool._pool._processes.values()):
            os.kill(worker.pid, signal.SIGKILL)
        again, keys = batch(problem, 21, 0)
        pool.submit(again, keys)
        np.testing.assert_array_equal(collect(pool, 21).cost, problem.evaluate(again.mapping, keys).cost)
    finally:
        pool.close()


class Deadly:
    """A problem whose measurement kills its process."""

    def evaluate(self, mapping, key):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.exhaustive
def test_a_pool_whose_workers_always_die_gives_up_in_one_line(problem):
    pool = local.ProcessPool([Deadly()], 1)
    try:
        pool.submit(*batch(problem, 8, 0))
        with pytest.raises(
            RunFailure,
            match="died 4 times, the last was killed by signal 9; none measured",
        ):
            collect(pool, 2)
    finally:
        pool.close()


def test_a_problem_gets_copies_and_its_answers_are_looked_at(problem):
    class Careless:
        about, answer = problem.about, staticmethod(lambda found: found)

        def evaluate(self, mapping, key):
            found = problem.evaluate(mapping, key)
            mapping[:] = 0
            return self.answer(found)

    proposed, keys = batch(problem, 3, 0)
    kept = proposed.mapping.copy()
    careless = Careless()
    assert np.array_equal(
        attempt.evaluated(careless, proposed.mapping, keys).cost, problem.evaluate(kept, keys).cost
    )
    assert (proposed.mapping == kept).all()
    careless.answer = lambda found: found.rows(slice(1))
    with pytest.raises(ValueError, match=rf"{problem.about.name}: evaluate: expected 3 rows"):
        attempt.attempted(careless, proposed.mapping, keys)
