"""Training steps from the command line: run, go on, evaluate, bound, figures, report; and from Python."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from commands import refuse

import egrl
from egrl.cli.main import main
from egrl_training.simulator.problem import TrainingConfig, TrainingProblem
from egrl_training.steps.json_file import to_json
from make_training import unet

LIMIT = ["--set", "problem.fraction=0.6"]


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("training") / "step.json"
    file.write_text(to_json(unet(1)))
    return file


@pytest.fixture(scope="module")
def run(step: Path) -> Path:
    out = step.parent / "run"
    argv = ["run", "--problem", "training", "--workload", str(step), *LIMIT, "--set", "method.seconds=60"]
    assert main([*argv, "--quiet", "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_the_default_method_proves_the_best_plan_of_a_small_step(run):
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["problem"], summary["method"]) == ("training", "exact")
    assert summary["chip"].startswith("a device with ")
    assert summary["best"]["valid"]
    assert summary["best"]["speedup"] > 1.01
    assert summary["gap"] < 1e-3


@pytest.mark.exhaustive
def test_a_run_goes_on_from_its_own_copy_of_the_step(step, tmp_path):
    out = tmp_path / "annealing"
    argv = ["run", "--problem", "training", "--workload", str(step), *LIMIT, "--method", "annealing"]
    assert main([*argv, "--evals", "42", "--quiet", "--out", str(out)]) == 0
    moved = shutil.copytree(out, tmp_path / "moved")
    away = step.rename(step.with_name("away"))
    try:
        assert main(["run", "--resume", str(moved), "--evals", "84", "--quiet"]) == 0
    finally:
        away.rename(step)
    assert json.loads((moved / "summary.json").read_text())["evaluations"] == 84


def test_evaluating_names_the_passes_what_runs_again_and_the_fullest_moment(run, capsys):
    assert main(["evaluate", str(run)]) == 0
    text = capsys.readouterr().out
    assert "the nodes that cost the most:" in text
    assert "its edges" not in text
    assert "memory is fullest at time " in text
    assert " us: forward " in text
    assert "computed again" in text


@pytest.mark.exhaustive
def test_a_bound_and_a_report_are_made_and_memory_is_drawn(run, step, tmp_path, capsys):
    argv = ["bound", "--problem", "training", "--workload", str(step), *LIMIT, "--json"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gap"] < 1e-3
    assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Memory over the step" in page
    assert "Computed again" in page
    assert "Memory over time" not in page  # the general map would show the same again
    assert main(["plot", "utilisation", str(run), "-o", str(tmp_path / "memory.png")]) == 0
    assert (tmp_path / "memory.png").stat().st_size > 0


@pytest.mark.slow
def test_steps_and_devices_are_listed(capsys):
    assert main(["list", "workloads"]) == 0
    assert "step for --problem training: 140 ops" in capsys.readouterr().out
    assert main(["list", "chips"]) == 0
    assert "problem training: 50% of the memory that keeping every value takes" in capsys.readouterr().out


@pytest.mark.slow
def test_what_cannot_be_met_is_one_line(step, capsys):
    argv = ["run", "--problem", "training", "--workload", str(step), "--set", "problem.limit_bytes=1000"]
    refuse(capsys, argv, "expected a limit of at least", "by proof")


@pytest.mark.exhaustive
def test_a_step_is_searched_from_python_as_an_object_or_as_a_problem():
    problem = TrainingProblem(unet(1), None, TrainingConfig(fraction=0.6))
    by_problem = egrl.search(problem, method="annealing", evals=42)
    by_object = egrl.search(
        unet(1), problem="training", method="annealing", evals=42, settings=["problem.fraction=0.6"]
    )
    assert by_problem.speedup == by_object.speedup
