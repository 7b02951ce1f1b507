"""Exact on models that are solved little by little: better mappings as they are found, a bound that rises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from egrl.methods.exact import Anytime, ExactConfig
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


def test_a_state_of_another_problem_is_refused():
    exact = method()
    while exact.ask() is not None:
        pass
    state = exact.state_dict()
    with pytest.raises(ValueError, match="best: expected shape"):
        method().load_state_dict({**state, "best": state["best"][:-1]})
