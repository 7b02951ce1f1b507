"""Every method can begin with the best of the rules, which are measured first and counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from commands import TINY, outcome

import egrl
from egrl.cli.main import main
from egrl.core.from_rules import FromRules
from egrl.core.method import Method
from egrl.methods.placed import first_mappings
from hwsim.mappings import sample_uniformly
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from toys import ToyRagged
from workloads.errors import InputError
from workloads.load import load


@pytest.fixture(scope="module")
def problem():
    return NnpiProblem(load("alexnet"), load_chip("nnpi"))


def test_all_of_the_contract_is_passed_on_to_the_method():
    """A default of `Method` that was not passed on would silently take the place of the method's own."""
    contract = {name for name in vars(Method) if not name.startswith("_")}
    assert len(contract) > 10
    assert contract <= set(vars(FromRules))


@pytest.mark.parametrize("method", ["ea", "annealing", "greedy-dp", "random", "pg"])
def test_the_rules_are_measured_first_and_counted(problem, method):
    rules = first_mappings(problem)
    search = egrl.Search(problem, method=method, start="rules", seed=0)
    measured = []
    while search.evaluations < len(rules) + 5:
        batch = search.ask(limit=len(rules) + 5 - search.evaluations)
        measured.extend(batch.proposals.mapping)
        search.tell(batch, problem.evaluate(batch.proposals.mapping, batch.key))
    assert len(measured) == len(rules) + 5
    np.testing.assert_array_equal(measured[: len(rules)], rules)
    best = problem.evaluate(np.stack(rules), np.zeros(len(rules), np.uint64)).speedup.max()
    assert search.result().speedup >= best


def test_a_chain_goes_on_from_the_best_of_the_rules(problem):
    rules = first_mappings(problem)
    cost = problem.evaluate(np.stack(rules), np.zeros(len(rules), np.uint64)).cost.astype(float)
    made_up = np.where(np.arange(len(rules)) == 1, 1e-9, cost)  # on this board the second rule is far ahead
    search = egrl.Search(problem, method="annealing", start="rules", seed=0, settings=["method.t0=1e-9"])
    for seconds in made_up.tolist():
        search.tell(search.ask(), [seconds])
    proposed = search.ask(limit=1).proposals.mapping[0]
    changed = [int((proposed != rule).sum()) for rule in rules]
    assert 0 < changed[1] == min(changed)


@pytest.mark.slow
def test_no_rule_is_measured_twice(problem):
    rules = {rule.tobytes() for rule in first_mappings(problem)}
    for method in ("egrl", "twin"):
        search = egrl.Search(problem, method=method, start="rules", seed=0)
        rows = []
        while len(rows) < len(rules) + 8:
            batch = search.ask()
            rows += [row.tobytes() for row in batch.proposals.mapping]
            search.tell(batch, problem.evaluate(batch.proposals.mapping, batch.key))
        assert not rules & set(rows[len(rules) :]), method


@pytest.mark.slow
@pytest.mark.parametrize("method", ["annealing", "egrl"])
@pytest.mark.parametrize("before", [5, pytest.param(16, marks=pytest.mark.exhaustive)])
def test_a_run_from_the_rules_goes_on_as_if_never_stopped(tmp_path, method, before):
    sizes = TINY if method == "egrl" else ()
    argv = ["run", "--workload", "alexnet", "--method", method, "--start", "rules", "--quiet", *sizes]
    assert main([*argv, "--evals", "30", "--out", str(tmp_path / "whole")]) == 0
    assert main([*argv, "--evals", str(before), "--out", str(tmp_path / "parts")]) == 0
    assert main(["run", "--resume", str(tmp_path / "parts"), "--evals", "30", "--quiet"]) == 0
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "parts")


def test_a_problem_without_rules_is_refused_in_a_line():
    with pytest.raises(InputError, match="--start rules: expected a problem with rules to measure first"):
        egrl.search("alexnet", problem="mmap", method="random", evals=3, start="rules")


def test_the_rules_of_a_problem_without_a_family_are_measured_first():
    problem = ToyRagged()
    drawn = sample_uniformly(problem, np.arange(3, dtype=np.uint64))
    problem.baseline = replace(
        problem.baseline, rules=lambda: {f"draw {k}": row for k, row in enumerate(drawn)}
    )
    search = egrl.Search(problem, method="random", start="rules", seed=0)
    for expected in (problem.baseline.mapping, *drawn):
        batch = search.ask(limit=1)
        np.testing.assert_array_equal(batch.mapping[0], expected)
        search.tell(batch, problem.evaluate(batch.proposals.mapping, batch.key))


def test_seconds_are_told_of_the_baseline_first_and_of_each_rule_once():
    search = egrl.Search("resnet50", method="annealing", start="rules", seed=0)
    rules = first_mappings(search.problem)
    assert np.array_equal(rules[0], search.problem.baseline.mapping)
    took = []
    while search.evaluations < len(rules) + 5:
        batch = search.ask(limit=1)
        took.append(1.0 + 0.01 * float((batch.mapping[0] == 0).mean()))
        search.tell(batch, took[-1:])
    assert search.result().speedup == pytest.approx(took[0] / min(took))
