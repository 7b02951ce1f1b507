"""Every problem can have another baseline: a mapping that the user brings."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from hwsim.baseline import noise_free_cost, with_baseline
from hwsim.mappings import repair, sample_uniformly
from hwsim.problem import Mapping16, Problem, Status
from subjects import PROBLEMS
from workloads.errors import InputError

NOTHING_RANDOM = np.zeros(1, np.uint64)


def valid(problem: Problem) -> Mapping16:
    """A mapping [N, H] that runs and breaks no rule, and is not the baseline's."""
    keys = np.arange(60, dtype=np.uint64)
    drawn = repair(problem, sample_uniformly(problem, keys), keys)
    found = problem.evaluate(drawn, keys)
    for row in np.flatnonzero((found.status == Status.OK) & ~found.partial):
        mapping = found.repaired[row]
        same = (mapping == problem.baseline.mapping).all()
        if not same and not problem.judge(mapping) and np.isfinite(noise_free_cost(problem, mapping)):
            return mapping
    pytest.skip("none of 60 random mappings runs")


OWN_RIVAL = "toy-bag"
"""Its speedups are over what the same coins cost otherwise, whatever its baseline is."""


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != OWN_RIVAL])
def test_speedups_are_over_the_mapping_that_is_brought(name):
    problem = PROBLEMS[name]()
    mapping, before, about = valid(problem), problem.baseline, problem.about
    print_before = problem.fingerprint()
    other = with_baseline(problem, mapping, "vela.csv", "--baseline vela.csv")
    assert (problem.baseline, problem.about, problem.fingerprint()) == (before, about, print_before)
    assert (other.about.baseline_name, other.baseline.name, other.about.stands_for) == (
        "vela.csv",
        "vela.csv",
        "",
    )
    assert other.baseline.rules().keys() == before.rules().keys()
    assert other.fingerprint() != print_before
    both = np.stack([mapping, before.mapping])
    found = other.evaluate(both, np.zeros(2, np.uint64))
    cost = noise_free_cost(problem, mapping)
    np.testing.assert_allclose(found.speedup, cost / found.cost, rtol=1e-12)
    again = pickle.loads(pickle.dumps(other))
    assert again.fingerprint() == other.fingerprint()
    np.testing.assert_array_equal(again.evaluate(both, np.zeros(2, np.uint64)).speedup, found.speedup)


def test_another_mapping_has_another_fingerprint_and_the_same_one_the_same():
    problem = PROBLEMS["nnpi"]()
    mapping = valid(problem)
    first, second, third = (
        with_baseline(problem, each, name, "x").fingerprint()
        for each, name in ((mapping, "a"), (mapping, "b"), (problem.baseline.mapping, "a"))
    )
    assert first == second != third


def test_a_mapping_that_breaks_a_rule_is_refused():
    problem = PROBLEMS["nnpi"]()
    fastest = problem.space.canonical(np.full(problem.space.shape, 2, np.int16))
    assert problem.judge(fastest)
    with pytest.raises(
        InputError, match=r"^here: expected a mapping that is valid on nnpi, found sram overflows"
    ):
        with_baseline(problem, fastest, "x", "here")


class _Computed:
    """A toy whose baseline, or whose speedups, cannot be changed."""

    def __init__(self, problem: Problem, computed: bool) -> None:
        self.about, self.space, self._problem = problem.about, problem.space, problem
        self.judge, self.fingerprint = problem.judge, problem.fingerprint
        if not computed:
            self.baseline = problem.baseline

    def evaluate(self, mapping, key):
        return self._problem.evaluate(mapping, key)


class _Property(_Computed):
    @property
    def baseline(self):
        return self._problem.baseline


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("nnpi", lambda problem: _Property(problem, True)),
        ("nnpi", lambda problem: _Computed(problem, False)),
        (OWN_RIVAL, lambda problem: problem),
    ],
)
def test_a_problem_that_keeps_its_own_baseline_is_refused(name, made):
    problem = PROBLEMS[name]()
    with pytest.raises(InputError, match=r"^here: expected a problem whose speedups follow its attribute"):
        with_baseline(made(problem), valid(problem), "x", "here")


def test_the_layout_of_the_baseline_is_that_of_its_mapping():
    problem = PROBLEMS["mmap"]()
    mapping = valid(problem)
    other = with_baseline(problem, mapping, "mine.json", "x")
    assert problem.baseline_layout is problem.own_layout
    assert problem.baseline_placement() is not None
    np.testing.assert_array_equal(other.baseline_layout.action, other.layout(mapping).action)
    assert other.baseline_placement() is None
    assert "mine.json" in str(other.sections(mapping))
    assert "production heuristic" not in str(other.sections(mapping))
    assert not replace(other.baseline).nearest
