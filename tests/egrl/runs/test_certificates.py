"""Bounds from the command line: egrl bound, --start exact, the method exact, and the gap of every run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from egrl import api
from egrl.cli.main import main
from egrl.cli.proving import certificate_text
from egrl.core import mapping_file
from egrl.methods.placed import place
from egrl.runs.text import reward_up
from hwsim.capabilities import Solution
from hwsim.nnpi.best_known import BOUNDS, best_known, proved, record_bound
from hwsim.nnpi.chip import chip_file, load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.problem import About, Bound
from workloads.errors import InputError
from workloads.load import load, names


def summary(run: Path) -> dict:
    return json.loads((run / "summary.json").read_text())


def other_chip(folder: Path, old: str = "67200000000.0", new: str = "60000000000.0") -> str:
    """A chip file with slower DRAM, of which nothing is known beforehand."""
    text = chip_file(load_chip("nnpi"))
    assert old in text
    path = folder / "slower.toml"
    path.write_text(text.replace(old, new))
    return str(path)


@pytest.mark.slow
def test_bound_prints_a_certificate_and_writes_the_best_mapping(tmp_path, capsys):
    best = tmp_path / "best.json"
    assert main(["bound", "--workload", "resnet18", "--seconds", "600", "--json", "-o", str(best)]) == 0
    captured = capsys.readouterr()
    assert captured.err == "egrl bound: proving a bound for resnet18 on nnpi, about 600 s at most\n"
    report = json.loads(captured.out)
    assert report["written"] == str(best)
    assert report["kind"] == "bound"
    assert 0 < report["bound"] <= report["best_known"]["cost"] <= report["baseline"]["cost"]
    assert report["gap"] == pytest.approx(report["best_known"]["cost"] / report["bound"] - 1)
    assert report["gap"] < 1e-3
    problem = NnpiProblem(load("resnet18"), load_chip("nnpi"))
    mapping = mapping_file.read(str(best), problem)
    assert problem.judge(mapping) == []
    assert problem.model_cost(mapping) == report["best_known"]["cost"]
    assert main(["bound", "--workload", "resnet18", "--mapping", str(best), "--seconds", "600"]) == 0
    text = capsys.readouterr().out
    assert "no mapping is faster than" in text
    assert "gap         none: the best known is proven to be the best possible" in text
    assert "written" not in text


def test_what_ships_is_shown_without_solving_unless_asked(tmp_path, capsys, monkeypatch):
    solved = []

    def solve(problem, seconds, seed):
        solved.append((seconds, seed))
        return Solution(problem.baseline.mapping, problem.baseline.cost, Bound(1e-6, np.inf, "a test", 0.5))

    monkeypatch.setattr(NnpiProblem, "solve", solve)
    best = tmp_path / "best.json"
    assert main(["bound", "--workload", "bert", "-o", str(best)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert f"written     {best}" in captured.out
    assert "--prove solves the model again" in captured.out
    problem = NnpiProblem(load("bert"), load_chip("nnpi"))
    assert (mapping_file.read(str(best), problem) == problem.best_known()[0]).all()
    for flags in (["--prove"], ["--seconds", "9"], ["--seed", "3"]):
        assert main(["bound", "--workload", "bert", *flags]) == 0
    assert main(["bound", "--workload", "resnet18", "--chip", other_chip(tmp_path)]) == 0
    assert solved == [(60.0, 0), (9.0, 0), (60.0, 3), (60.0, 0)]
    assert capsys.readouterr().err.count("proving a bound for") == 4


@pytest.mark.slow
def test_on_another_chip_the_mapping_that_ships_is_not_compared(tmp_path, capsys):
    chip = other_chip(tmp_path)
    assert main(["bound", "--workload", "resnet18", "--chip", chip, "--seconds", "600", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["best_known"]["source"] != "package"
    assert any("not comparable" in remark for remark in report["remarks"])


def test_every_run_reports_its_gap(tmp_path):
    argv = ["run", "--workload", "resnet18", "--method", "annealing", "--gens", "2", "--quiet", "--out"]
    assert main([*argv, str(tmp_path / "a")]) == 0
    found = summary(tmp_path / "a")
    assert found["gap"] == pytest.approx(found["best"]["cost"] / found["bound"] - 1)
    assert found["gap"] >= 0
    chip = other_chip(tmp_path)
    assert main([*argv, str(tmp_path / "b"), "--chip", chip, "--bound-seconds", "600"]) == 0
    found = summary(tmp_path / "b")
    assert found["gap"] >= 0
    assert found["bound_seconds"] > 0
    assert main([*argv, str(tmp_path / "c"), "--bound-seconds", "0"]) == 0
    assert summary(tmp_path / "c")["gap"] is None


@pytest.mark.slow
def test_a_run_can_start_from_the_exact_solution_and_be_resumed(tmp_path):
    out = tmp_path / "r"
    argv = [
        "run",
        "--workload",
        "resnet34",
        "--start",
        "exact",
        "--exact-seconds",
        "600",
        "--method",
        "annealing",
    ]
    assert main([*argv, "--gens", "1", "--quiet", "--out", str(out)]) == 0
    first = summary(out)
    assert first["best"]["speedup"] >= 1.0
    assert first["gap"] < 0.01
    assert (out / "start_mapping.json").exists()
    assert main(["run", "--resume", str(out), "--gens", "2", "--quiet"]) == 0
    assert summary(out)["start"] == "exact"


def test_a_start_from_the_exact_solution_leaves_what_gains_nothing_as_it_was(tmp_path, monkeypatch):
    problem, out = NnpiProblem(load("alexnet"), load_chip("nnpi")), tmp_path / "r"
    best = place(problem).mapping
    model_s, loose = problem.model_cost(best), best
    for node, head in np.argwhere((best == problem.baseline.mapping) & (best > 0)):
        slower = loose.copy()
        slower[node, head] -= 1
        if problem.model_cost(slower) == model_s and np.array_equal(problem.rectify(slower[None])[0], slower):
            loose = slower
    assert not np.array_equal(loose, best)
    monkeypatch.setattr(
        NnpiProblem, "solve", lambda self, *_: Solution(loose, model_s, Bound(model_s, np.inf, "", 0.0))
    )
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--start",
        "exact",
        "--method",
        "random",
        "--evals",
        "2",
        "--quiet",
    ]
    assert main([*argv, "--out", str(out)]) == 0
    found = mapping_file.read(str(out / "start_mapping.json"), problem)
    changes = [int((mapping != problem.baseline.mapping).sum()) for mapping in (found, loose)]
    assert changes[0] < changes[1]
    assert problem.model_cost(found) == pytest.approx(model_s, rel=1e-9)


@pytest.mark.slow
def test_the_method_exact_proposes_the_solution_and_finishes(tmp_path):
    out = tmp_path / "r"
    argv = ["run", "--workload", "resnet18", "--method", "exact", "--set", "method.seconds=600", "--quiet"]
    assert main([*argv, "--out", str(out)]) == 0
    found = summary(out)
    assert (found["evaluations"], found["complete"]) == (2, True)
    assert found["gap"] < 1e-3
    assert main(["run", "--resume", str(out), "--quiet"]) == 0
    assert summary(out)["evaluations"] == 2
    cold = tmp_path / "cold"
    assert main([*argv, "--start", "cold", "--out", str(cold)]) == 0
    assert summary(cold)["evaluations"] == 1
    assert summary(cold)["best"]["source"] == "exact"


@pytest.mark.parametrize(
    "argv",
    [
        ["--seconds", "0"],
        ["--seconds", "nan"],
        ["--workload", "brt"],
        ["--mapping", "nowhere.json"],
        ["--output", "nowhere/best.json"],
        ["--set", "method.x=1"],
        ["--set", "evaluator.x=1"],
    ],
)
def test_wrong_arguments_end_in_one_line(argv, capsys):
    assert main(["bound", "--workload", "alexnet", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("egrl: error: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("name", names())
def test_the_bound_and_the_mapping_that_ship_agree(name):
    workload, chip = load(name), load_chip("nnpi")
    problem = NnpiProblem(workload, chip)
    bound, known = proved(problem.tables), best_known(workload, chip)
    assert bound is not None
    assert known is not None
    assert problem.judge(known.mapping) == []
    assert bound.cost <= known.cost_s <= problem.baseline.cost
    assert known.cost_s / bound.cost - 1 < 0.05
    assert problem.bound(1.0) == bound


def test_a_recorded_bound_only_rises(tmp_path):
    tables, file = NnpiProblem(load("alexnet"), load_chip("nnpi")).tables, tmp_path / "bounds.json"
    assert proved(tables, file) is None
    for cost, expected in ((2.0, 2.0), (1.0, 2.0), (3.0, 3.0)):
        assert (
            record_bound(tables, "alexnet", Bound(cost, np.inf, "proof", 0.0), "cmd", file).cost == expected
        )
        assert proved(tables, file).cost == expected
    assert proved(tables._replace(launch_s=1.0), file) is None
    file.write_text(BOUNDS.read_text()[:-9])
    with pytest.raises(InputError, match=r"bounds\.json"):
        proved(tables, file)


@pytest.mark.exhaustive
def test_bound_of_a_game_shows_the_best_reward_known_and_the_bound_on_rewards(tmp_path, capsys):
    best = tmp_path / "best.json"
    argv = ["bound", "--problem", "mmap", "--workload", "rnn_2", "--seconds", "600"]
    assert main([*argv, "--json", "-o", str(best)]) == 0
    captured = capsys.readouterr()
    assert captured.err == "egrl bound: proving a bound for rnn_2 on tpuv4i, about 600 s at most\n"
    report = json.loads(captured.out)
    known = report["best_known"]["reward"]
    assert 0 < known < report["reward_bound"] < 1
    assert report["reward_gap"] == pytest.approx(report["reward_bound"] - known)
    assert main([*argv, "--mapping", str(best)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("rnn_2 on tpuv4i: no mapping has a reward above 0.9")
    assert lines[1].startswith("  proof       ")
    assert " of the game (82 of 82 steps; " in lines[1]
    assert lines[2].startswith(f"  best known  {known:.4f} (")
    share = re.search(r"the best known has ([\d.]+)% of the bound$", lines[3])
    assert share is not None  # of this bound: what a time limit leaves differs from call to call
    assert float(share[1]) == pytest.approx(100 * known / float(lines[0].split()[-1]), abs=0.1)
    assert (
        main(["evaluate", "--problem", "mmap", "--workload", "rnn_2", "--mapping", str(best), "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["reward"] == pytest.approx(known)


def test_a_game_that_can_be_won_wholly_is_proven_to_be_won(capsys):
    report = {
        **{
            "problem": "mmap",
            "workload": "w",
            "chip": "c",
            "reward_bound": 1.0 + 2e-9,
            "proof": "p",
            "seconds": 0.0,
        },
        **{
            "best_known": {"reward": 1.0, "source": "s", "speedup": 2.0},
            "reward_gap": 2e-9,
            "remarks": ["r"],
        },
    }
    assert certificate_text(
        report, About("mmap", "w", "c", baseline_name="the production heuristic")
    ).splitlines() == [
        "w on c: no mapping has a reward above 1.0000",
        "  proof       p",
        "  best known  1.0000 (s), 2.00x faster than the production heuristic",
        "  gap         none: the best known is proven to be the best possible",
        "  note        r",
    ]


@pytest.mark.slow
def test_a_run_of_a_game_ends_with_the_bound_on_its_reward(tmp_path, capsys):
    argv = ["run", "--problem", "mmap", "--workload", "rnn_2", "--method", "random", "--gens", "1"]
    argv += ["--bound-seconds", "600"]
    assert main([*argv, "--out", str(tmp_path / "a")]) == 0
    found = summary(tmp_path / "a")
    assert 0 < found["bound"] < found["best"]["cost"]
    assert found["gap"] == found["best"]["cost"] / found["bound"] - 1
    assert found["reward_gap"] == pytest.approx(found["reward_bound"] - found["best"]["reward"])
    assert 0 < found["reward_gap"] < 1
    words = f"reward {found['best']['reward']:.4f} of {reward_up(found['reward_bound'])} at most"
    assert words in capsys.readouterr().out
    assert main([*argv[:-1], "0", "--quiet", "--out", str(tmp_path / "b")]) == 0
    assert "reward_bound" not in summary(tmp_path / "b")


@pytest.mark.exhaustive
def test_a_game_that_is_played_for_latency_is_bounded_in_its_cost(capsys):
    argv = ["bound", "--problem", "mmap", "--workload", "rnn_2", "--seconds", "600"]
    assert main([*argv, "--set", "problem.reward=latency", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kind"] == "bound"
    assert 0 < report["bound"] < report["best_known"]["cost"]
    assert report["gap"] == report["best_known"]["cost"] / report["bound"] - 1
    assert report["best_known"]["source"] == "production heuristic"


@pytest.mark.parametrize(("reward", "text"), [(0.50001, "0.5001"), (0.5 + 1e-9, "0.5000"), (1.0, "1.0000")])
def test_a_reward_that_bounds_is_rounded_up(reward, text):
    assert reward_up(reward) == text


def test_noise_changes_neither_bound_nor_model_cost():
    chip = load_chip("nnpi")
    from dataclasses import replace

    noisy = NnpiProblem(load("alexnet"), replace(chip, effects=replace(chip.effects, noise=True)))
    quiet = NnpiProblem(load("alexnet"), chip)
    assert noisy.bound(5.0) == quiet.bound(5.0)
    assert (
        noisy.model_cost(noisy.space.initial)
        == quiet.evaluate(quiet.space.initial[None], np.zeros(1, np.uint64)).cost[0]
    )


def test_bound_counts_the_best_of_the_users_own_runs(tmp_path, capsys):
    chip = other_chip(tmp_path)
    run = tmp_path / "run"
    found = api.search("alexnet", chip=chip, method="annealing", evals=400, bound_seconds=0.0, out=run)
    argv = ["bound", "--workload", "alexnet", "--chip", chip, "--seconds", "1e-9", "--json"]
    assert main([*argv, "--run", str(run)]) == 0
    best = json.loads(capsys.readouterr().out)["best_known"]
    assert best["speedup"] >= found.speedup * (1 - 1e-9)
    other = api.search("unet", method="random", gens=1, bound_seconds=0.0, out=tmp_path / "other")
    assert main([*argv, "--run", str(other.folder)]) == 2
    assert "workload: expected 'alexnet'" in capsys.readouterr().err
