"""Exact on models that are solved little by little: better mappings as they are found, a bound that rises."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egrl.cli.main import main
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from egrl.methods.exact import Anytime, ExactConfig
from hwsim.problem import Bound
from hwsim.shard.problem import Shard
from make_sharding import make
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
    with pytest.raises(ValueError, match="best: expected shape"):
        method(problem=PROBLEMS["shard"]()).load_state_dict(exact.state_dict())


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("shard") / "made.json"
    file.write_text(json.dumps(make(5, nodes=7)))
    return file


def test_a_run_of_shard_is_exact_by_default_and_says_what_it_proved(instance, tmp_path):
    out = tmp_path / "run"
    assert (
        main(["run", "--problem", "shard", "--workload", str(instance), "--out", str(out), *GENERATIONS]) == 0
    )
    summary = json.loads((out / "summary.json").read_text())
    assert summary["method"] == "exact"
    assert summary["complete"]
    assert summary["best"]["valid"]
    assert summary["best"]["unit"] == "cost units"
    assert abs(summary["gap"]) < 1e-6
    with open(out / "metrics.csv") as stream:
        rows = list(csv.DictReader(stream))
    costs = [cost for row in rows if not math.isnan(cost := float(row["model_cost"]))]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == summary["best"]["cost"] == pytest.approx(float(rows[-1]["model_bound"]))
    assert main(["run", "--resume", str(out), "--quiet"]) == 0
    assert json.loads((out / "summary.json").read_text())["evaluations"] == summary["evaluations"]


def test_a_run_of_shard_stops_at_a_gap_by_the_bound_that_it_raises_itself(monkeypatch, instance, tmp_path):
    monkeypatch.setattr("egrl.runs.gap.Proving", None)  # nothing else proves
    monkeypatch.setattr(Shard, "solving", lambda self, seed, threads, start: _Rising(start))
    monkeypatch.setattr("egrl.methods.exact.STEP_S", 0.01)
    out = tmp_path / "run"
    argv = [
        "run",
        "--problem",
        "shard",
        "--workload",
        str(instance),
        "--seconds",
        "86400",
        "--until-gap",
        "50%",
    ]
    assert main([*argv, "--quiet", "--out", str(out)]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["stopped"] == "gap"
    assert 0.4 < summary["gap"] <= 0.5


def test_a_budget_in_seconds_ends_a_run_that_is_not_proved(instance, tmp_path, monkeypatch):
    endless = _Endless()
    monkeypatch.setattr(Shard, "solving", lambda self, seed, threads, start: endless)
    for module in ("egrl.methods.exact", "egrl.core.loop"):
        monkeypatch.setattr(f"{module}.clock", lambda: endless.now_s)
    out = tmp_path / "run"
    argv = ["run", "--problem", "shard", "--workload", str(instance), "--seconds", "20", "--out", str(out)]
    assert main([*argv, *GENERATIONS]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["best"]["source"] == "start"
    assert summary["bound"] == 1.0
    assert summary["seconds"] == 20.0


class _Endless:
    """A solve that finds nothing, and whose work alone takes time."""

    now_s = 0.0
    best, cost, done = None, math.inf, False
    bound = Bound(1.0, math.inf, "nothing costs less", 0.0)

    def work(self, seconds: float) -> None:
        self.now_s += seconds


class _Rising:
    """A solve whose bound rises by one per step; its best stays the start."""

    done = False

    def __init__(self, start: object) -> None:
        self.best, self.cost, self._least = start, math.inf, 1.0

    @property
    def bound(self) -> Bound:
        return Bound(self._least, math.inf, "one more", 0.0)

    def work(self, seconds: float) -> None:
        self._least += 1.0
