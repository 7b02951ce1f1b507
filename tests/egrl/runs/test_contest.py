"""What boards say of fewer changes: on drawn boards most of the gain is kept, or that is said not to be sure."""

from __future__ import annotations

import numpy as np
import pytest

import egrl
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.config import EvaluatorConfig
from egrl.measure.evaluator import FunctionBoard
from egrl.measure.records import EvaluatorLog, Measurements
from egrl.problems import build_problem
from egrl.runs.contest import contest
from egrl.runs.measured_front import candidates, measure_few
from egrl.runs.simplified import simplify
from hwsim.mappings import sample_uniformly
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError, RunFailure


class Drawn:
    """A board whose tensors save and cost what was drawn, whatever the chip file says."""

    def __init__(self, problem: Problem, best: Mapping16, seed: int, noise: float) -> None:
        self.rng, self.problem, self.noise = np.random.default_rng(seed), problem, noise
        changed = best != problem.baseline.mapping
        gains = np.where(changed, self.rng.exponential(1.0, changed.shape), 0.0)
        self.saved = 0.05 * gains / gains.sum()

    def true(self, mapping: Mapping16, best: Mapping16) -> float:
        base = self.problem.baseline.mapping
        taken = (mapping == best) & (best != base)
        return 1e-3 * (1.0 - float(self.saved[taken].sum()))

    def boards(self, best: Mapping16) -> BoardExecutor:
        def seconds(rows):
            mapping = egrl.mapping_of(self.problem, rows)
            return self.true(mapping, best) * float(np.exp(self.noise * self.rng.standard_normal()))

        board = FunctionBoard(seconds)
        return BoardExecutor(self.problem, [board], EvaluatorConfig(), Measurements(), EvaluatorLog())


@pytest.fixture(scope="module")
def problem():
    return build_problem("nnpi", "resnet18", "npu", [], "")


@pytest.fixture(scope="module")
def best(problem):
    """The best of some valid mappings by the model, with many changes."""
    drawn = sample_uniformly(problem, np.arange(400, dtype=np.uint64))
    found = problem.evaluate(drawn, np.zeros(400, np.uint64))
    mapping = found.repaired[int(np.nanargmin(found.cost))]
    assert (mapping != problem.baseline.mapping).sum() > 10
    return mapping


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "requests"), [(0.0, 60), (0.0005, 120), (0.02, 60)])
def test_most_of_the_gain_is_kept_or_it_is_said_that_this_is_not_sure(problem, best, noise, requests):
    said, kept, fewer = 0, 0, 0
    for seed in range(12):
        drawn = Drawn(problem, best, seed, noise)
        boards = drawn.boards(best)
        few = measure_few(boards, simplify(problem, best, 0.95, 600), best, 0.95, requests)
        boards.close()
        assert boards.usage().requests <= requests + 1
        truth = [drawn.true(mapping, best) for mapping in (problem.baseline.mapping, best, few.mapping)]
        share = (truth[0] - truth[2]) / (truth[0] - truth[1])
        said += few.confirmed
        kept += share >= 0.95 or not few.confirmed
        fewer += few.changes < few.of
    assert kept >= 11
    assert said == 12 or noise > 0
    assert fewer > 0 or noise > 0.01


def test_candidates_run_have_fewer_changes_and_are_no_more_than_asked_for(problem, best):
    found = simplify(problem, best, 0.95, 600)
    few = candidates(found, best, 3)
    assert 0 < len(few) <= 3
    counts = [(mapping != problem.baseline.mapping).sum() for mapping in few]
    assert counts == sorted(counts)
    assert max(counts) < (best != problem.baseline.mapping).sum()
    assert not any(problem.judge(mapping) for mapping in candidates(found, best, 99))


def test_a_mapping_that_cannot_be_measured_is_left_out_and_a_baseline_ends_it(problem, best):
    base = problem.baseline.mapping

    def board_that_fails(bad: Mapping16) -> BoardExecutor:
        def seconds(rows):
            if (egrl.mapping_of(problem, rows) == bad).all():
                return {"error": "no such kernel"}
            return 1e-3

        return BoardExecutor(
            problem, [FunctionBoard(seconds)], EvaluatorConfig(), Measurements(), EvaluatorLog()
        )

    found = contest(board_that_fails(best), [base, best], 8)
    assert (found.runs(0), found.runs(1)) == (True, False)
    with pytest.raises(RunFailure, match="the baseline cannot be measured"):
        contest(board_that_fails(base), [base, best], 8)
    with pytest.raises(InputError, match="expected at least 4, 2 for each mapping"):
        contest(board_that_fails(best), [base, best], 3)


def test_noise_that_is_known_counts_only_if_the_baseline_is_what_it_was(problem, best):
    drawn = Drawn(problem, best, 0, 0.0)
    boards = drawn.boards(best)
    alike, other = (1e-3, 1.001e-3, 0.999e-3), (2e-3, 2.001e-3)
    mappings = [problem.baseline.mapping, best]
    assert contest(boards, mappings, 8, [alike]).noise.relative > 0
    found = contest(boards, mappings, 8, [other])
    assert not found.same
    assert found.noise.relative == 0
