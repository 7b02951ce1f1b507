"""What is computed beside the budget is counted: by whom, in which files, and once."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from egrl.cli.main import main
from egrl.core.method import ModelUse
from hwsim.nnpi.problem import NnpiProblem

PLAY = [
    *("run", "--problem", "mmap", "--workload", "alexnet_train_batch_32", "--method", "revise", "--quiet"),
    *("--bound-seconds", "0", "--set", "method.moves=50"),
]


def calls(run: Path) -> list[float]:
    with open(run / "metrics.csv") as stream:
        return [float(row["model_calls"]) for row in csv.DictReader(stream)]


def test_seconds_of_a_block_are_counted_even_where_it_fails():
    use = ModelUse()
    with pytest.raises(ZeroDivisionError), use.timed():
        raise ZeroDivisionError
    assert use.seconds > 0
    assert use.calls == 0


@pytest.mark.exhaustive
def test_revised_games_are_counted_and_a_run_that_goes_on_goes_on_counting(tmp_path):
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert main([*PLAY, "--evals", "42", "--out", str(whole)]) == 0
    assert main([*PLAY, "--evals", "21", "--out", str(part)]) == 0
    assert main(["run", "--resume", str(part), "--evals", "42", "--quiet"]) == 0
    assert calls(whole) == calls(part)
    assert (np.diff([0.0, *calls(whole)]) > 0).all()
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["model_calls"] == calls(whole)[-1]
    assert summary["model_seconds"] > 0


@pytest.mark.slow
def test_a_solve_is_counted_in_seconds_and_other_methods_count_nothing(tmp_path, monkeypatch):
    now_s, solve = [0.0], NnpiProblem.solve

    def solved(*given):
        now_s[0] += 64.0
        return solve(*given)

    monkeypatch.setattr(NnpiProblem, "solve", solved)
    monkeypatch.setattr("hwsim.jit.clock", lambda: now_s[0])
    argv = ["run", "--workload", "alexnet", "--quiet", "--bound-seconds", "0"]
    assert (
        main([*argv, "--method", "exact", "--set", "method.seconds=600", "--out", str(tmp_path / "e")]) == 0
    )
    summary = json.loads((tmp_path / "e" / "summary.json").read_text())
    assert summary["model_seconds"] == 64.0
    assert main([*argv, "--method", "annealing", "--evals", "42", "--out", str(tmp_path / "a")]) == 0
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert (summary["model_calls"], summary["model_seconds"]) == (0.0, 0.0)
