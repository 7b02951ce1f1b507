"""Sharding from the command line: run, evaluate, bound, compare, plot, export."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from commands import refuse, run_here

from egrl.cli.main import main
from egrl.compare import report as report_module
from make_sharding import make


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("shard") / "made.json.gz"
    file.write_bytes(gzip.compress(json.dumps(make(7, nodes=7)).encode()))
    return file


@pytest.fixture(scope="module")
def run(instance: Path) -> Path:
    out = instance.parent / "run"
    argv = ["run", "--problem", "shard", "--workload", str(instance), "--method", "annealing", "--quiet"]
    assert main([*argv, "--evals", "210", "--out", str(out)]) == 0
    return out


def test_annealing_finds_the_best_of_a_small_instance(run, instance):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["best"]["valid"]
    assert summary["best"]["cost"] == 291.0
    assert summary["best"]["speedup"] == 323 / 291


def test_a_run_keeps_a_copy_with_which_it_goes_on(run, instance, tmp_path):
    moved = shutil.copytree(run, tmp_path / "moved")
    away = instance.rename(instance.with_name("away"))
    try:
        assert main(["run", "--resume", str(moved), "--evals", "231", "--until-gap", "never", "--quiet"]) == 0
        assert main(["evaluate", str(moved), "--json"]) == 0
    finally:
        away.rename(instance)
    summary = json.loads((moved / "summary.json").read_text())
    assert (summary["workload"], summary["evaluations"]) == ("made", 231)


def test_evaluating_says_in_whole_numbers_who_pays_and_who_is_in_memory(run, capsys):
    assert main(["evaluate", str(run)]) == 0
    text = capsys.readouterr().out
    assert "cost 291 cost units: strategies " in text
    assert (
        ": 1.11x cheaper than the baseline\n"
        "291 cost units instead of 323 cost units (the nodes in order, each its least cost)" in text
    )
    assert "memory is fullest at time " in text
    assert main(["evaluate", str(run), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["explanation"]["cost"] == report["cost"] == 291
    assert sum(report["explanation"]["parts"].values()) == 291


def test_of_many_violations_some_are_shown(instance, tmp_path, capsys):
    document = make(4, nodes=60, forbidden=0.4)
    file, mapping = tmp_path / "large.json", tmp_path / "mapping.json"
    file.write_text(json.dumps(document))
    plan = json.dumps([0] * 60)
    kind = {"kind": "mapping", "version": 1, "problem": "shard", "workload": "large", "chip": "mesh"}
    mapping.write_text(json.dumps({**kind, "plan": plan}))
    assert main(["evaluate", "--problem", "shard", "--workload", str(file), "--mapping", str(mapping)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not valid as given: ")]
    assert len(lines) == 21
    assert lines[-1].endswith("violations more (--json has all)")


def test_a_bound_is_proved_and_told_in_cost_units(instance, capsys):
    assert main(["bound", "--problem", "shard", "--workload", str(instance), "--seconds", "600"]) == 0
    text = capsys.readouterr().out
    assert "made on mesh: no mapping is cheaper than " in text
    assert " cost units" in text


def test_methods_are_compared_on_it(instance, tmp_path, monkeypatch):
    monkeypatch.setattr(report_module, "run_all", run_here)
    argv = ["compare", "--problem", "shard", "--workload", str(instance), "--methods", "annealing,random"]
    assert main([*argv, "--seeds", "1", "--evals", "42", "--out", str(tmp_path / "c"), "--quiet"]) == 0
    found = json.loads((tmp_path / "c" / "comparison.json").read_text())
    assert [(w["workload"], w["unit"]) for w in found["workloads"]] == [("made", "cost units")]


def test_memory_over_time_is_drawn_and_a_run_exported(run, tmp_path):
    assert main(["plot", "utilisation", str(run), "-o", str(tmp_path / "u.png")]) == 0
    assert (tmp_path / "u.png").stat().st_size > 10_000
    assert main(["export", str(run), "-o", str(tmp_path / "m.json")]) == 0
    assert len(json.loads(json.loads((tmp_path / "m.json").read_text())["plan"])) == 7


def test_a_chip_is_refused(instance, capsys):
    argv = ["run", "--problem", "shard", "--workload", str(instance), "--chip", "nnpi"]
    refuse(capsys, argv, "--chip: expected none, since the instance has the limit, found 'nnpi'")
    refuse(
        capsys, ["run", "--problem", "shard"], "--workload: expected a sharding instance (.json or .json.gz)"
    )
