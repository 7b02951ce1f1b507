"""Runs of `exact` on instances: what they say that they proved, and what ends them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from egrl.cli.main import main
from egrl.problems import find_problem
from egrl_shard.problem import Shard
from hwsim.problem import Bound
from make_sharding import make

GENERATIONS = ["--generation-evals", "1", "--quiet"]


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


def test_exact_is_taken_where_nothing_is_asked_for():
    assert find_problem("shard").choose(False).method == "exact"
