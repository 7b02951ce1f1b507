"""The command line, in-process: real workloads, exit codes, one-line errors."""

from __future__ import annotations

import json
import platform
import re
import sys
import warnings

import click
import numpy as np
import pytest
from commands import FAST, TINY, metrics, refuse

from egrl import __version__
from egrl.cli.main import cli, main
from egrl.cli.run import exact_hint
from egrl.core.contracts import Budget
from egrl.runs import progress
from workloads.errors import Notice


@pytest.mark.slow
@pytest.mark.parametrize("method", ["egrl", "ea", "pg"])
def test_bert_runs_end_to_end_and_leaves_a_run_folder(method, tmp_path, capsys):
    out = tmp_path / "r"
    settings = TINY[: {"egrl": 8, "pg": 8, "ea": 6}[method]]
    if method == "egrl":  # whose critic `tests/egrl/runs/test_resume.py` runs, on a smaller network
        settings = [*settings, "--set", "method.profile_model.use=off"]
    argv = [
        "run",
        "--workload",
        "bert",
        "--method",
        method,
        "--gens",
        "2",
        "--out",
        str(out),
        "--json",
        "--quiet",
    ]
    assert main([*argv, *settings]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((out / "summary.json").read_text())
    assert (summary["workload"], summary["method"], summary["problem"]) == ("bert", method, "nnpi")
    assert (summary["generations"], summary["evaluations"], summary["complete"]) == (2, 42, True)
    assert summary["best"]["speedup"] >= 1.0
    assert summary["best"]["valid"]
    best = json.loads((out / "best_mapping.json").read_text())
    assert len(best["mapping"]) == 376
    assert {"weight", "activation"} >= set(best["mapping"][0]) - {"node"}
    for name in ("config.toml", "workload.json", "chip.toml", "metrics.csv", "mappings", "checkpoint"):
        assert (out / name).exists()
    assert list(out.glob("events.*"))
    assert list((out / "policies").glob("*.safetensors"))
    assert len(metrics(out)) == 2


def test_the_best_mapping_evaluates_to_the_cost_in_the_summary(run, capsys):
    summary = json.loads((run / "summary.json").read_text())
    assert (
        main(["evaluate", "--workload", "alexnet", "--mapping", str(run / "best_mapping.json"), "--json"])
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["cost"] == summary["best"]["cost"]
    assert report["speedup"] == summary["best"]["speedup"]
    assert report["violations"] == []
    assert sum(op["duration_s"] for op in report["explanation"]["ops"]) == pytest.approx(report["cost"])


def test_the_best_known_mapping_can_be_evaluated_where_one_ships(run, capsys):
    argv = ["evaluate", "--mapping", "best-known", "--workload"]
    assert main([*argv, "resnet18", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["mapping"] == "best-known"
    assert report["speedup"] > 1.005
    renamed = run / "net.json"
    renamed.write_text((run / "workload.json").read_text().replace('"name": "alexnet"', '"name": "mine"', 1))
    refuse(capsys, [*argv, str(renamed)], "--mapping best-known", "none ships for mine on nnpi")


def test_what_bounds_an_inference_is_listed_by_time_with_shares(capsys):
    assert main(["evaluate", "--workload", "alexnet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[:2] == ["bound", "by"])
    rows = [line.split() for line in lines[first + 1 : lines.index("", first)]]
    times = [float(row[1]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert len(times) > 1
    assert sum(float(row[2].removesuffix("%")) for row in rows) == pytest.approx(100, abs=0.5)
    assert lines[lines.index("", first) + 1] == (
        "alexnet on nnpi, compiler: as fast as the built-in baseline heuristic"
    )
    assert "epsilon" not in "".join(lines)


@pytest.mark.parametrize(
    ("change", "hinted"),
    [
        ({}, True),
        ({"gap": None}, True),
        ({"gap": 0.0}, False),
        ({"gap": 0.00005}, False),
        ({"method": "exact"}, False),
        ({"evaluator": {}}, False),
        ({"problem": "mmap"}, False),
        ({"problem": "somebody's"}, False),
    ],
)
def test_a_run_says_where_its_model_can_be_solved(change, hinted):
    found = {"problem": "nnpi", "method": "egrl", "gap": 0.0136, **change}
    assert (exact_hint(found) != "") == hinted


def test_a_best_mapping_can_start_another_run(run, tmp_path):
    best = run / "best_mapping.json"
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--start",
        str(best),
        "--gens",
        "1",
        "--out",
        str(tmp_path / "s"),
        *FAST,
    ]
    assert main(argv) == 0
    best.unlink()
    assert main(["run", "--resume", str(tmp_path / "s"), "--gens", "2", "--quiet"]) == 0


def test_a_saved_policy_can_start_another_run(tmp_path, capsys):
    argv = ["run", "--workload", "alexnet", "--method", "ea", "--gens", "1", "--quiet", *TINY[:6]]
    assert main([*argv, "--out", str(tmp_path / "a")]) == 0
    policy = str(tmp_path / "a" / "policies" / "generation-00000001.safetensors")
    argv[2] = "resnet18"
    assert main([*argv, "--out", str(tmp_path / "b"), "--init", policy]) == 0
    argv = [*argv[:-2], "--set", "method.network.width=16"]
    refuse(
        capsys,
        [*argv, "--out", str(tmp_path / "c"), "--init", policy],
        "--init: network.",
        "as it is set here, found",
    )
    assert not (tmp_path / "c").exists()


def test_the_last_policy_is_kept_and_a_longer_run_has_only_those_of_an_uninterrupted_one(tmp_path):
    argv = ["run", "--workload", "alexnet", "--method", "ea", "--quiet", *TINY[:6]]
    assert main([*argv, "--gens", "3", "--out", str(tmp_path / "a")]) == 0
    names = [p.name for p in sorted((tmp_path / "a" / "policies").iterdir())]
    assert names == ["generation-00000001.safetensors", "generation-00000003.safetensors"]
    assert main(["run", "--resume", str(tmp_path / "a"), "--gens", "4", "--quiet"]) == 0
    names = [p.name for p in sorted((tmp_path / "a" / "policies").iterdir())]
    assert names == ["generation-00000001.safetensors", "generation-00000004.safetensors"]


def test_the_paper_s_preset_starts_cold_unless_told_otherwise(tmp_path):
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "random",
        "--preset",
        "paper",
        "--gens",
        "1",
        "--quiet",
    ]
    for start, expected in (([], "cold"), (["--start", "compiler"], "compiler")):
        out = tmp_path / expected
        assert main([*argv, *start, "--out", str(out)]) == 0
        assert json.loads((out / "summary.json").read_text())["start"] == expected
        assert 'invalid = "penalise"' in (out / "config.toml").read_text()


def test_a_method_without_a_policy_refuses_one(run, capsys):
    argv = ["run", "--workload", "alexnet", "--method", "random", "--init", str(run / "config.toml")]
    refuse(capsys, argv, "--init", "random")


def test_quiet_prints_nothing_and_otherwise_progress_goes_to_stderr(tmp_path, capsys):
    argv = ["run", "--workload", "alexnet", "--method", "random", "--gens", "1", "--out"]
    assert main([*argv, str(tmp_path / "a"), "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
    assert main([*argv, str(tmp_path / "b")]) == 0
    captured = capsys.readouterr()
    assert "alexnet on nnpi, random: as fast as the built-in baseline heuristic\n" in captured.out
    for word in ("21/21 evals", "best 1.000x (at most 1.005x) by start", "valid", "evals/s"):
        assert word in captured.err


@pytest.mark.parametrize("budget", [Budget.of_generations(3), Budget(None, 90.0)], ids=["gens", "seconds"])
def test_the_progress_line_is_well_set_on_a_terminal(budget, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    row = {"best_speedup": 1.25, "champion_source": "network", "valid_fraction": 1.0}
    with progress.observer("bert egrl", budget, 0, quiet=False) as observer:
        observer.phase("thinking")
        observer.phase("")
        for count in (10, 21, 63):
            observer.evaluations(count, 1.125)
            if count > 20:
                observer.generation(row)
    lines = re.split(r"[\r\n]+", capsys.readouterr().err.strip())
    time = r" of 01:30" if budget.seconds else ""
    head = (
        rf"bert egrl: %d evals \[00:00{time}\]" if budget.seconds
        else r"bert egrl \|.{10}\| %d/63 evals \[00:00<.{1,5}\]"
    )  # fmt: skip
    assert re.fullmatch(rf"bert egrl: 0 evals \[00:00{time}\]", lines[0])
    assert re.fullmatch(rf"bert egrl: 0 evals \[00:00{time}\], thinking", lines[1])
    assert re.fullmatch(head % 63 + r", best 1\.250x by network, 100% valid, \d+ evals/s", lines[-1])


@pytest.mark.slow
def test_lists_and_help_and_version(capsys):
    for kind, name in (("workloads", "bert"), ("chips", "nnpi"), ("methods", "egrl"), ("problems", "nnpi")):
        assert main(["list", kind, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert name in {entry["name"] for entry in document["entries"]}
    assert main(["list", "chips"]) == 0
    text = capsys.readouterr().out
    assert "dram 32 GiB at 67.2 GB/s, llc 24 MiB at 680 GB/s, sram 4 MiB at 6800 GB/s" in text
    assert main(["list", "methods"]) == 0
    assert "annealing" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "run" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"egrl, version {__version__}\n"


@pytest.mark.parametrize("argv", [["--version", "--verbose"], ["--verbose", "--version"]])
def test_a_report_of_a_bug_can_name_libraries_machine_and_caches(argv, capsys):
    assert main(argv) == 0
    first, *rows = capsys.readouterr().out.splitlines()
    assert first == f"egrl, version {__version__}"
    told = dict(re.split(r"\s{2,}", row, maxsplit=1) for row in rows)
    assert told["numpy"] == np.__version__
    assert told["python"].startswith(platform.python_version())
    assert {"egrl", "system", "processor", "gpu", "torch", "kernels"} <= told.keys()


@pytest.mark.slow
def test_curves_are_drawn_and_the_same_each_time(run, tmp_path, capsys):
    for name in ("a.png", "b.png", "c.svg"):
        assert main(["plot", "curves", str(run), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert "alexnet on nnpi" in (tmp_path / "c.svg").read_text()
    refuse(capsys, ["plot", "curves", str(tmp_path), "-o", "x.png"], "summary.json")
    refuse(capsys, ["plot", "curves", str(run), "-o", "x.bmp"], ".png")


# ---- bad input


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run", "--workload", "brt"], ["brt", "bert"]),
        (["run", "--workload", ""], ["--workload"]),
        (["run", "--workload", "bert", "--method", "x"], ["--method", "egrl", "'x'"]),
        (["run", "--workload", "bert", "--problem", "x"], ["--problem", "nnpi", "'x'"]),
        (["run", "--workload", "bert", "--chip", "x"], ["x", "nnpi"]),
        (["run", "--workload", "bert", "--gens", "x"], ["--gens", "x"]),
        (["run", "--workload", "bert", "--gens", "0"], ["--gens", "at least 1"]),
        (["run", "--workload", "bert", "--gens", "1", "--evals", "50"], ["--gens", "--evals"]),
        (["run", "--workload", "bert", "--workers", "0"], ["--workers", "at least 1"]),
        (["run", "--workload", "bert", "--seed", "-1"], ["--seed", "at least 0"]),
        (["run", "--workload", "bert", "--seed", str(2**64)], ["--seed", f"at most {2**64 - 1}", str(2**64)]),
        (["run", "--workload", "bert", "--start", "nowhere.json"], ["nowhere.json"]),
        (["run", "--workload", "bert", "--init", "nowhere.safetensors"], ["nowhere.safetensors", "policy"]),
        (["run", "--workload", "bert", "--preset", "x"], ["--preset", "paper"]),
        (["run", "--workload", "bert", "--set", "method.alhpa=1"], ["alhpa", "alpha"]),
        (["run", "--workload", "bert", "--set", "problem.invalid=x"], ["invalid", "repair", "penalise"]),
        (["run", "--workload", "bert", "--set", "problem.baseline=x"], ["x", "execution-order"]),
        (["run", "--workload", "bert", "--frobnicate"], ["--frobnicate"]),
        (["run", "--resume", "nowhere"], ["nowhere", "config.toml"]),
        (
            ["run", "--resume", "nowhere", "--workload", "bert"],
            ["expected no other flags", "found --workload"],
        ),
        (["frobnicate"], ["frobnicate"]),
        (["list", "frobs"], ["frobs", "workloads"]),
        (
            ["run", "--workload", "bert", "--set", "method.frobnicate=1"],
            ["frobnicate", "more", "config.toml"],
        ),
        (
            ["evaluate", "--workload", "bert", "--mapping", "nowhere.json"],
            ["nowhere.json", "compiler", "best-known"],
        ),
    ],
)
def test_wrong_arguments_end_in_one_line_and_leave_nothing(argv, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse(capsys, argv, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["expected"]),
        ("{", ["w.json"]),
        ('{"kind": "workload", "version": 99}', ["version"]),
        ('{"kind": "workload", "version": 1, "name": "w", "ops": []}', ["op"]),
        ("\x00\x01\x02", ["w.json"]),
    ],
)
def test_a_broken_workload_file_ends_in_one_line(content, words, capsys, tmp_path):
    path = tmp_path / "w.json"
    path.write_text(content)
    refuse(capsys, ["run", "--workload", str(path), "--out", str(tmp_path / "r")], "w.json", *words)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("content", ["", "x = ", "name = 3", "\x00", "name = 'x'\nmemories = nan"])
def test_a_broken_chip_file_ends_in_one_line(content, capsys, tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(content)
    argv = ["run", "--workload", "alexnet", "--chip", str(path), "--out", str(tmp_path / "r")]
    refuse(capsys, argv, "c.toml")
    assert not (tmp_path / "r").exists()


def test_a_folder_that_is_not_empty_is_left_alone(run, capsys):
    before = sorted(p.name for p in run.iterdir())
    refuse(capsys, ["run", "--workload", "alexnet", "--out", str(run)], str(run), "--resume")
    assert sorted(p.name for p in run.iterdir()) == before


def test_a_folder_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "r"
    refuse(
        capsys, ["run", "--workload", "alexnet", "--out", str(out)], str(out), "folder that can be written"
    )


def test_a_notice_is_said_once_as_a_line_and_other_warnings_stay_pythons(monkeypatch, capsys):
    @click.command()
    @click.option("--quiet", is_flag=True)
    def noisy(quiet: bool) -> int:
        for _ in range(2):
            warnings.warn("this is\nso", Notice, stacklevel=1)
        warnings.warn("something else", DeprecationWarning, stacklevel=1)
        return 0

    monkeypatch.setattr(cli, "get_command", lambda context, name: noisy)
    for argv, said in ((["noisy"], "egrl: this is so\n"), (["noisy", "--quiet"], "")):
        with pytest.warns(DeprecationWarning, match="something else") as found:
            assert main(argv) == 0
        assert len(found) == 1
        assert capsys.readouterr().err == said
