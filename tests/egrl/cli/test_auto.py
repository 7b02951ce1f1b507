"""`--method auto`: which method it takes, and what it says."""

from __future__ import annotations

import json
import warnings

import pytest
from commands import refuse

import egrl
from egrl import api
from egrl.cli.main import main
from egrl.problems import PROBLEMS, find_problem
from workloads.errors import InputError, Notice

TAKEN = [
    ("nnpi", False, "exact"),
    ("nnpi", True, "egrl"),
    ("mmap", False, "revise"),
    ("mmap", True, "revise"),
    ("mcm", False, "egrl"),
]


@pytest.mark.parametrize(("problem", "on_board", "method"), TAKEN)
def test_it_takes_what_serves_the_problem(problem, on_board, method):
    assert find_problem(problem).choose(on_board).method == method


def test_every_problem_has_a_reason():
    for entry in PROBLEMS.values():
        assert all(entry.choose(on_board).reason for on_board in (False, True))


@pytest.mark.exhaustive
def test_a_run_says_what_was_taken_and_keeps_it(tmp_path, capsys):
    out = tmp_path / "run"
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "auto",
        "--set",
        "method.seconds=600",
        "--out",
        str(out),
    ]
    assert main(argv) == 0
    said = "egrl: --method auto: exact, since no board measures, and the chip's model can be solved\n"
    assert capsys.readouterr().err.count(said) == 1
    assert '\nmethod = "exact"\n' in (out / "config.toml").read_text()
    assert json.loads((out / "summary.json").read_text())["method"] == "exact"
    assert main(["run", "--resume", str(out), "--quiet"]) == 0


def test_from_python_it_looks_at_who_measures():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", Notice)
        result = egrl.search("alexnet", method="auto", evals=16, evaluator=lambda mapping: 1e-3, seed=1)
    assert result.summary["method"] == "egrl"
    assert [str(w.message) for w in heard if "auto" in str(w.message)] == [
        "--method auto: egrl, since a board is measured, and its twin learns from totals, its profile model from"
        " profiles"
    ]


def test_a_setting_of_another_method_is_refused(capsys):
    refuse(capsys, ["run", "--workload", "alexnet", "--method", "auto", "--set", "method.tau=3"], "tau")


@pytest.mark.slow
def test_with_neither_method_nor_budget_nor_board_it_is_taken(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["run", "--workload", "alexnet", "--seed", "1", "--out", str(out)]) == 0
    assert "egrl: --method auto: exact, since no board measures" in capsys.readouterr().err
    assert json.loads((out / "summary.json").read_text())["method"] == "exact"
    assert main(["run", "--resume", str(out), "--quiet"]) == 0


@pytest.mark.exhaustive
def test_in_python_it_is_taken_as_well():
    with pytest.warns(Notice, match="--method auto: exact"):
        assert egrl.search("alexnet").summary["method"] == "exact"


@pytest.mark.parametrize(
    "given",
    [
        {"gens": 1},
        {"evals": 5},
        {"seconds": 1e-9},
        {"preset": "paper", "evals": 5},
        {"evals": 5, "evaluator": lambda mapping: 1e-3},
        {"on_generation": lambda row: True},
        {"evals": 5, "settings": ["method.alpha=0.1"]},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_asks_for_a_search_gets_one(given):
    small = ["method.network.width=8", "method.network.depth=2", "method.network.attention_heads=2"]
    result = egrl.search("alexnet", **{**given, "settings": [*given.get("settings", ()), *small]})
    assert result.summary["method"] == "egrl"


@pytest.mark.parametrize(
    "left", [{"settings": ["method.alpha=0.1"]}, {"preset": "paper"}, {"evals": 1}, {"init": "x"}]
)
def test_a_search_is_asked_for_by_settings_a_preset_or_a_budget(left, monkeypatch):
    """Without the runs: what is resolved."""
    taken = []

    def resolved(given, *rest):
        taken.append(given.get("method", ""))
        raise InputError("enough")

    monkeypatch.setattr(api, "resolve", resolved)
    with pytest.raises(InputError, match="enough"):
        egrl.search("alexnet", **left)
    assert taken == [""]


def test_ask_and_tell_search_as_before():
    assert egrl.Search("alexnet").result().summary["method"] == "egrl"
