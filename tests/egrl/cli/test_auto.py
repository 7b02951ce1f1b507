"""`--method auto`: which method it takes, and what it says."""

from __future__ import annotations

import json
import warnings

import pytest
from commands import refuse

import egrl
from egrl.cli.main import main
from egrl.problems import PROBLEMS, find_problem
from workloads.errors import Notice

TAKEN = [
    ("nnpi", False, "exact"),
    ("nnpi", True, "twin"),
    ("mmap", False, "revise"),
    ("mmap", True, "revise"),
    ("mcm", False, "egrl"),
    ("fft", False, "tag"),
    ("shard", False, "exact"),
]


@pytest.mark.parametrize(("problem", "on_board", "method"), TAKEN)
def test_it_takes_what_serves_the_problem(problem, on_board, method):
    assert find_problem(problem).choose(on_board).method == method


def test_every_problem_has_a_reason():
    for entry in PROBLEMS.values():
        assert all(entry.choose(on_board).reason for on_board in (False, True))


def test_a_run_says_what_was_taken_and_keeps_it(tmp_path, capsys):
    out = tmp_path / "run"
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "auto",
        "--set",
        "method.seconds=5",
        "--out",
        str(out),
    ]
    assert main(argv) == 0
    said = "egrl: --method auto: exact, since no board measures, and the chip file's model can be solved\n"
    assert capsys.readouterr().err.count(said) == 1
    assert '\nmethod = "exact"\n' in (out / "config.toml").read_text()
    assert json.loads((out / "summary.json").read_text())["method"] == "exact"
    assert main(["run", "--resume", str(out), "--quiet"]) == 0


def test_from_python_it_looks_at_who_measures():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", Notice)
        result = egrl.search("alexnet", method="auto", evals=16, evaluator=lambda mapping: 1e-3, seed=1)
    assert result.summary["method"] == "twin"
    assert [str(w.message) for w in heard if "auto" in str(w.message)] == [
        "--method auto: twin, since a board is measured, and the chip file's errors can be learned"
    ]


def test_a_setting_of_another_method_is_refused(capsys):
    refuse(capsys, ["run", "--workload", "alexnet", "--method", "auto", "--set", "method.tau=3"], "tau")
