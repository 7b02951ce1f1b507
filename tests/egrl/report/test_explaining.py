"""By which model the page of a run on a board explains, and how well that model predicts."""

from __future__ import annotations

import math
import re
import shutil
import sys
from pathlib import Path

import pytest

from egrl.calibrate import fit
from egrl.calibrate.fit import networks
from egrl.cli.main import main
from egrl.report import explaining as explained
from egrl.report.explaining import by_the_file, explaining
from egrl.report.page import SAME_MODEL, page_of, sections
from egrl.runs.past_run import PastRun
from hwsim.baseline import noise_free_cost
from hwsim.nnpi.chip import load_chip
from hwsim.sections import Bars
from subjects import PROBLEMS

ROOT = Path(__file__).parents[3]


def searched(method: str, out: Path) -> Path:
    """A run on a board that differs from the chip file by a third."""
    board = f"{sys.executable} {ROOT / 'examples' / 'twin' / 'pretend_board.py'} resnet50"
    argv = ["run", "--workload", "resnet50", "--method", method, "--evals", "30", "--evaluator", board]
    argv += ["--set", "evaluator.start_timeout_s=86400"]  # it imports much
    assert main([*argv, "--quiet", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> Path:
    return searched("twin", tmp_path_factory.mktemp("learned") / "r")


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    return searched("annealing", tmp_path_factory.mktemp("plain") / "r")


@pytest.mark.exhaustive
def test_a_run_that_learned_is_explained_by_a_file_that_is_fitted_to_it(learned):
    run = PastRun.read(learned)
    best = run.best_mapping()
    found = explaining(run, best)
    assert found.problem.about.chip == "fitted"
    measured = found.problem.explain(best).latency_s / run.summary["best"]["cost"]
    by_file = run.problem.explain(best).latency_s / run.summary["best"]["cost"]
    assert abs(math.log(measured)) < abs(math.log(by_file))
    assert (found.problem.baseline.mapping == run.problem.baseline.mapping).all()
    error, before = (float(x) for x in re.findall(r"by (\d+\.\d)%", found.says))
    assert error < before
    gained = noise_free_cost(found.problem, found.problem.baseline.mapping) / noise_free_cost(
        found.problem, best
    )
    assert (
        f"For the best mapping it predicts {gained:.4f}x; the board measured {run.summary['best']['speedup']:.4f}x"
        in found.says
    )


@pytest.mark.exhaustive
def test_a_fit_that_predicts_no_better_is_not_used(learned, monkeypatch):
    run = PastRun.read(learned)
    monkeypatch.setattr(fit, "held_out", lambda measured, *_: {"fitted": fit.nominal(measured)})
    assert len(networks([run])[0].cost) > explained.MIN_MAPPINGS
    found = explaining(run, run.best_mapping())
    assert found.problem is run.problem
    assert "the file misses the measured speedup by" in found.says


@pytest.mark.exhaustive
def test_a_run_that_learned_nothing_is_explained_by_the_chip_file_and_how_far_that_is_off(plain):
    run = PastRun.read(plain)
    found = explaining(run, run.best_mapping())
    assert found.problem is run.problem
    assert found.says.startswith(
        f"A board measured {run.summary['best']['speedup']:.4f}x; by the chip file it is "
    )
    assert found.says.endswith("These times are the chip file's, not the board's.")


def test_how_far_a_file_is_off_is_a_share_of_what_was_measured():
    problem = PROBLEMS["nnpi"]()
    said = by_the_file(problem, problem.baseline.mapping, 1.25)
    assert said == (
        "A board measured 1.2500x; by the chip file it is 1.0000x, so the file misses the measured speedup by 20.0%."
    )


@pytest.mark.slow
def test_the_first_section_says_which_model_and_the_others_that_it_is_the_same(learned):
    shown = [
        s
        for s in sections(PastRun.read(learned))
        if isinstance(s, Bars) or s.title == "Where time was gained"
    ]
    assert shown[0].says.startswith("These times are those of a chip file that was fitted to the ")
    assert len(shown) > 1
    assert all(section.says.startswith(SAME_MODEL) for section in shown[1:])
    assert page_of([PastRun.read(learned)]).count("These times are those of") == 1


def test_what_the_model_itself_measured_needs_no_such_words(tmp_path):
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "random",
        "--evals",
        "5",
        "--out",
        str(tmp_path / "r"),
    ]
    assert main([*argv, "--quiet"]) == 0
    run = PastRun.read(tmp_path / "r")
    assert explaining(run, run.best_mapping()) == explained.Explaining(run.problem, "")


def test_evaluate_says_how_far_the_file_is_off(plain, capsys):
    assert main(["evaluate", str(plain)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("measured: ")
    assert lines[1] == "the table below is computed from the chip file, not measured"
    assert "so the file misses the measured speedup by" in lines[-1]


@pytest.mark.slow
def test_a_fitted_file_knows_how_well_it_predicts(learned, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(learned, tmp_path / "r")
    assert main(["calibrate", "r", "-o", "mine.toml"]) == 0
    said = capsys.readouterr().out
    error = load_chip("mine.toml").prediction["held_out_error"]
    assert f"{'the fitted file, on other mappings':<52}{error:.2%}" in said
    assert main(["calibrate", "r", "-o", "seen.toml", "--folds", "0"]) == 0
    assert dict(load_chip("seen.toml").prediction) == {}
    capsys.readouterr()
    assert (
        main(
            ["evaluate", "--workload", "resnet50", "--chip", "mine.toml", "--mapping", "r/best_mapping.json"]
        )
        == 0
    )
    report = capsys.readouterr().out
    after, before = map(float, re.search(r"([\d.]+) us instead of ([\d.]+) us", report).groups())
    gained = before / after - 1
    assert ("but the fitted chip file is off by" in report) == (0 < gained < error)
    worse = (tmp_path / "mine.toml").read_text().replace(f"held_out_error = {error}", "held_out_error = 0.5")
    (tmp_path / "mine.toml").write_text(worse)
    for argv in (["evaluate"], ["bound", "--seconds", "600"]):
        assert main([*argv, "--workload", "resnet50", "--chip", "mine.toml"]) == 0
        assert ("but the fitted chip file is off by 50.00%" in capsys.readouterr().out) == (
            argv[0] == "bound"
        )
