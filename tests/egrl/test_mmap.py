"""The MMapGame from the command line: a run, its files, its best mapping scored again, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import refuse

from egrl.cli.main import main
from subjects import SMALL


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("mmap") / "run"
    argv = [
        "run",
        "--problem",
        "mmap",
        "--workload",
        "alexnet",
        "--method",
        "random",
        "--gens",
        "2",
        "--quiet",
    ]
    assert main([*argv, "--out", str(out)]) == 0
    return out


def test_a_run_keeps_its_program_and_says_where_each_buffer_lies(run):
    assert (run / "program.json").exists()
    assert 'kind = "mmap-chip"' in (run / "chip.toml").read_text()
    rows = json.loads((run / "best_mapping.json").read_text())["mapping"]
    assert {row["action"] for row in rows} == {"drop", "copy", "nocopy"}
    for row in rows:
        assert ("place" in row) == (row["action"] != "drop")
        assert ("copy_first" in row.get("place", {})) == (row["action"] == "copy")


def test_its_best_mapping_is_scored_the_same_again(run, capsys):
    best = json.loads((run / "summary.json").read_text())["best"]
    argv = [
        "evaluate",
        "--problem",
        "mmap",
        "--workload",
        "alexnet",
        "--mapping",
        str(run / "best_mapping.json"),
    ]
    assert main([*argv, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["cost"], report["speedup"], report["epsilon"]) == (best["cost"], best["speedup"], 0.0)
    assert report["violations"] == []
    assert main(argv) == 0
    told = capsys.readouterr().out
    assert f"{best['speedup']:.2f}x faster than the production heuristic\n" in told
    assert f"\nreward {best['reward']:.4f}\n" in told


def test_a_place_in_a_mapping_file_is_for_people(run, tmp_path, capsys):
    document = json.loads((run / "best_mapping.json").read_text())
    for row in document["mapping"]:
        row["place"] = {"offset_bytes": -7}
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(document))
    assert (
        main(["evaluate", "--problem", "mmap", "--workload", "alexnet", "--mapping", str(changed), "--json"])
        == 0
    )
    best = json.loads((run / "summary.json").read_text())["best"]
    assert json.loads(capsys.readouterr().out)["cost"] == best["cost"]


def test_a_run_goes_on_from_its_own_program_and_chip(run, capsys):
    assert main(["run", "--resume", str(run), "--gens", "3"]) == 0
    assert "alexnet on tpuv4i, random" in capsys.readouterr().out
    assert json.loads((run / "summary.json").read_text())["generations"] == 3


@pytest.mark.parametrize("method", ["egrl", "ea", "es"])
def test_methods_that_learn_play_it(method, tmp_path):
    small = [f"--set=method.{key}={value}" for key, value in SMALL[method].items()]
    argv = ["run", "--problem", "mmap", "--workload", "alexnet", "--method", method, "--gens", "2", "--quiet"]
    argv += ["--start", "cold"]
    assert main([*argv, *small, "--out", str(tmp_path / "run")]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 0.0 < summary["best"]["reward"] <= 1.0
    assert summary["best"]["source"] in ("network", "boltzmann", "learner", "profile_model", "es")


def test_it_is_searched_by_revisions_where_no_method_is_named(tmp_path):
    argv = ["run", "--problem", "mmap", "--workload", "alexnet:backward=1", "--evals", "3", "--quiet"]
    argv += ["--bound-seconds", "0", "--set", "method.moves=1000"]
    assert main([*argv, "--out", str(tmp_path / "run")]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["method"], summary["evaluations"]) == ("revise", 3)
    assert summary["model_calls"] > 52


def test_what_does_not_fit_the_game_is_refused(run, capsys, tmp_path):
    game = ["--problem", "mmap", "--workload", "alexnet"]
    refuse(capsys, ["run", *game, "--method", "exact"], "exact", "mmap", "no model")
    refuse(capsys, ["run", *game, "--chip", "nnpi"], "chip: expected one of tpuv4i", "found 'nnpi'")
    refuse(capsys, ["evaluate", *game, "--set", "problem.invalid=repair"], "invalid")
    nnpi = tmp_path / "nnpi.toml"
    assert main(["chip", "new", str(nnpi)]) == 0
    refuse(capsys, ["evaluate", *game, "--chip", str(nnpi)], "kind: expected 'mmap-chip', found 'chip'")
    refuse(capsys, ["allocate", str(run)], "expected a problem with lifetimes of tensors")
