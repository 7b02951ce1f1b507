"""Exact on models that are solved little by little: better mappings as they are found, a bound that rises."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from egrl.methods.exact import Anytime, ExactConfig
from hwsim.capabilities import Solution
from hwsim.problem import Bound
from subjects import PROBLEMS

GENERATIONS = ["--generation-evals", "1", "--quiet"]


def method(config: ExactConfig | None = None, problem: Any = None, **given: Any) -> Anytime:
    problem = problem or PROBLEMS["toy-chain"]()
    context = Context([problem], Archive([problem]), 0, given.pop("start", [None]), **given)
    built = find_method("exact").build(context, config or ExactConfig())
    assert isinstance(built, Anytime)
    return built


def test_it_proposes_what_is_better_or_better_proved_and_then_no_more():
    exact = method()
    costs, bounds = [], []
    while (batch := exact.ask()) is not None:
        assert len(batch) <= 1
        told = exact.metrics()
        if len(batch):
            costs.append(told["model_cost"])
        bounds.append(told["model_bound"])
    assert len(costs) > 2
    assert costs == sorted(costs, reverse=True)
    assert bounds == sorted(bounds)
    assert bounds[-1] == costs[-1]
    assert exact.ask() is None


def test_the_start_mapping_is_known_and_not_proposed_again():
    best = PROBLEMS["toy-chain"]().best_known()[0]
    exact = method(start=[best])
    first = exact.ask()
    assert first is not None
    np.testing.assert_array_equal(first.mapping[0], best)  # since the bound has risen
    while (batch := exact.ask()) is not None:
        assert all((row == best).all() for row in batch.mapping)


def test_it_ends_at_its_limit_and_goes_on_with_a_larger_one():
    exact = method(ExactConfig(seconds=1e-9))
    assert exact.ask() is not None
    assert exact.ask() is None
    again = method(ExactConfig(seconds=600.0))
    again.load_state_dict(exact.state_dict())
    before = exact.state_dict()["bound"]
    assert again.ask() is not None
    assert again.metrics()["model_bound"] >= before


def test_what_was_proved_before_the_end_is_known_to_the_problem_of_a_run_that_goes_on():
    exact = method()
    while exact.ask() is not None:
        pass
    again = method()
    assert again._context.problems[0].bound(0.0).cost == 0
    again.load_state_dict(exact.state_dict())
    assert again.ask() is None
    assert again._context.problems[0].bound(0.0).cost == exact.state_dict()["bound"] > 0


def test_the_limit_is_the_runs_where_the_settings_have_none():
    assert method(seconds=7.0)._limit_s == 7.0
    assert method(ExactConfig(seconds=30.0), seconds=7.0)._limit_s == 30.0
    assert method()._limit_s == 60.0


@dataclass
class InOnePiece:
    """A problem whose model is solved in one call, which keeps the limits that it got."""

    complete: bool
    limits: list[float] = field(default_factory=list)

    def solve(self, time_limit_s: float, seed: int, start: Any = None) -> Solution:
        self.limits.append(time_limit_s)
        return Solution(np.zeros((3, 1), np.int16), 1.0, Bound(0.9, np.inf, "", 0.0), self.complete)

    def model_cost(self, mapping: Any) -> float:
        return 1.0


def solved(problem: InOnePiece, seconds: float | None, state: Any = None) -> tuple[Any, bool]:
    """The state of the method that solved that problem in a run of so many seconds, and whether it did."""
    exact = find_method("exact").build(
        Context([problem], Archive([]), 0, [None], seconds=seconds), ExactConfig()
    )
    if state is not None:
        exact.load_state_dict(state)
    else:
        assert exact.phase == f"solving the model, {seconds or 60:g} s at most"
    asked = exact.ask() is not None
    assert exact.ask() is None
    return exact.state_dict(), asked


def test_a_solve_in_one_piece_has_the_seconds_of_its_run_too():
    problem = InOnePiece(complete=False)
    state, _ = solved(problem, 7.0)
    assert not solved(problem, 7.0, state)[1]
    assert solved(problem, 9.0, state)[1]  # a run that goes on for longer
    assert problem.limits == [7.0, 9.0]
    done = InOnePiece(complete=True)
    state, _ = solved(done, None)
    assert not solved(done, 90.0, state)[1]
    assert done.limits == [60.0]


def test_a_state_of_another_problem_is_refused():
    exact = method()
    while exact.ask() is not None:
        pass
    state = exact.state_dict()
    with pytest.raises(ValueError, match="best: expected shape"):
        method().load_state_dict({**state, "best": state["best"][:-1]})
