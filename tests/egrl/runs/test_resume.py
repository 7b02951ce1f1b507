"""Runs that go on: the same as if nothing had happened, or refused in one line with nothing lost."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import TINY, fill_disk, metrics, outcome, refuse
from filelock import FileLock

from egrl.cli.main import main
from egrl.core.interrupts import HINT
from egrl.methods.annealing import AnnealingConfig
from egrl.runs import checkpoint
from egrl.runs.config import RunConfig, RunOptions
from egrl.runs.resume import nothing_left


@pytest.mark.slow
def test_workers_never_change_a_result(tmp_path):
    for workers in ("1", "2"):
        argv = ["run", "--workload", "alexnet", "--gens", "3", "--workers", workers, "--quiet"]
        assert main([*argv, "--out", str(tmp_path / workers), *TINY]) == 0
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2")


@pytest.mark.slow
def test_resuming_with_a_larger_budget_equals_the_longer_run(tmp_path):
    argv = ["run", "--workload", "alexnet", "--quiet", *TINY]
    assert main([*argv, "--gens", "4", "--out", str(tmp_path / "whole")]) == 0
    assert main([*argv, "--gens", "2", "--out", str(tmp_path / "parts")]) == 0
    assert main(["run", "--resume", str(tmp_path / "parts"), "--gens", "4", "--quiet"]) == 0
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "parts")
    policies = [sorted((tmp_path / p / "policies").iterdir()) for p in ("whole", "parts")]
    assert [p.name for p in policies[0]] == [p.name for p in policies[1]]
    assert [p.read_bytes() for p in policies[0]] == [p.read_bytes() for p in policies[1]]


@pytest.mark.slow
def test_resuming_a_finished_run_changes_nothing_and_says_so(run, capsys):
    before = outcome(run)
    assert main(["run", "--resume", str(run), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["run", "--resume", str(run)]) == 0
    note = capsys.readouterr().err.splitlines()[-1]
    assert note.startswith("egrl: nothing was left to do: the run has spent its budget, --gens 2;")
    assert note.endswith(f"egrl run --resume {run} --gens 4")
    assert outcome(run) == before
    assert main(["run", "--resume", str(run), "--gens", "3"]) == 0
    assert "nothing was left" not in capsys.readouterr().err


def test_a_larger_budget_is_named_as_it_is_typed():
    config = RunConfig(RunOptions(workload="alexnet", evals=1_234_569), None, AnnealingConfig())
    assert nothing_left(config, "budget", Path("r")).endswith("egrl run --resume r --evals 2469138")
    config = RunConfig(RunOptions(seconds=30.0), None, AnnealingConfig())
    assert nothing_left(config, "budget", Path("r")).endswith("--seconds 60")


def test_a_second_control_c_names_the_generation_that_is_saved(run, capsys, monkeypatch):
    def stopped(*unused, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("egrl.core.loop.search", stopped)
    assert main(["run", "--resume", str(run), "--gens", "9"]) == 130
    error = capsys.readouterr().err
    assert f"interrupted at once; go on from generation 2 with: egrl run --resume {run}" in error


@pytest.mark.slow
def test_control_c_leaves_a_checkpoint_and_says_how_to_go_on(tmp_path):
    out = tmp_path / "r"
    argv = [
        sys.executable,
        "-m",
        "egrl",
        "run",
        "--workload",
        "alexnet",
        "--method",
        "annealing",
        "--out",
        str(out),
    ]
    process = subprocess.Popen([*argv, "--gens", "100000000"], stderr=subprocess.PIPE, text=True)
    try:
        while not (out / "metrics.csv").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    done = max(int(row["evaluations"]) for row in metrics(out)) // 21
    assert f"interrupted after generation {done}; go on with: egrl run --resume {out}" in errors
    assert f"egrl: {HINT}" in errors
    assert "Traceback" not in errors
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["generations"], summary["complete"]) == (done, False)
    assert main(["run", "--resume", str(out), "--gens", "100000001", "--seconds", "60", "--quiet"]) == 2


def test_a_run_in_use_is_refused(run, capsys):
    with FileLock(run / ".lock"):
        refuse(capsys, ["run", "--resume", str(run), "--gens", "5"], str(run), "in use by another process")


def test_a_smaller_budget_is_refused_on_resume(run, capsys):
    refuse(capsys, ["run", "--resume", str(run), "--gens", "1"], "larger budget", "--gens of at least 2")
    refuse(capsys, ["run", "--resume", str(run), "--seconds", "9"], "larger budget")
    refuse(
        capsys,
        ["run", "--resume", str(run), "--seed", "0", "--preset", "paper"],
        "no other flags",
        "found --preset, --seed",
    )
    settings = ["--set", "method.t0=0.1"]
    refuse(capsys, ["run", "--resume", str(run), "--gens", "5", *settings], "expected none with --resume")


def test_a_run_of_another_version_is_refused(run, capsys):
    path = run / "config.toml"
    path.write_text(path.read_text().replace("version = 1", "version = 2"))
    refuse(capsys, ["run", "--resume", str(run), "--gens", "5"], "config.toml", "version 1", "version 2")


@pytest.mark.parametrize("version", [2, 0, "1", None])
def test_a_summary_of_another_version_is_not_replaced(run, capsys, version):
    path = run / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": version, "more": 1}))
    before = path.read_bytes()
    refuse(capsys, ["run", "--resume", str(run), "--gens", "5"], "summary.json: version: expected 1, found ")
    assert path.read_bytes() == before
    assert (run / "metrics.csv").read_text().count("\n") == 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": 7}'])
def test_a_summary_that_is_damaged_is_written_anew(run, text):
    whole = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(text)
    assert main(["run", "--resume", str(run), "--gens", "2", "--quiet"]) == 0
    assert json.loads((run / "summary.json").read_text())["best"] == whole["best"]


@pytest.mark.parametrize("cell", ["text", "", "1e999", "\x1b[2J", "9" * 5000])
@pytest.mark.parametrize("name", ["evaluations", "best_speedup"])
def test_a_cell_of_the_metrics_that_is_no_number_is_named(run, capsys, tmp_path, name, cell):
    path = run / "metrics.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    rows[2][rows[0].index(name)] = cell
    path.write_text("".join(f"{','.join(row)}\n" for row in rows))
    (run / "checkpoint").rename(run / "aside")  # which counts other bytes
    line = f"{path}: damaged metrics: "
    for argv in (
        ["report", str(run), "-o", str(tmp_path / "x.html")],
        ["plot", "curves", str(run), "-o", str(tmp_path / "x.png")],
    ):
        said = refuse(
            capsys,
            argv,
            line,
            f"line 3, {name}: expected a number, found" if cell[:1] not in "19" else "expected",
        )
        assert said.isprintable() or said[:-1].isprintable()
        assert len(said) < 400 + len(str(path))
    (run / "aside").rename(run / "checkpoint")
    refuse(capsys, ["run", "--resume", str(run), "--gens", "3"], f"{path}: expected the ")
    assert not list(tmp_path.glob("x.*"))


def test_a_run_of_another_simulator_is_refused(run, capsys, monkeypatch):
    monkeypatch.setattr("hwsim.nnpi.problem.SIMULATOR_VERSION", 999)
    refuse(capsys, ["run", "--resume", str(run), "--gens", "5"], str(run), "another simulator")


def test_a_damaged_checkpoint_loses_nothing(run, capsys):
    files = sorted((run / "checkpoint").iterdir())
    assert len(files) == 2
    good = files[-1].read_bytes()
    files[-1].write_bytes(good[: len(good) // 2])
    before = (run / "metrics.csv").read_bytes()
    refuse(capsys, ["run", "--resume", str(run), "--gens", "5"], files[-1].name, "damaged", files[0].name)
    assert (run / "metrics.csv").read_bytes() == before
    files[-1].unlink()
    assert main(["run", "--resume", str(run), "--gens", "2", "--quiet"]) == 0
    assert (run / "metrics.csv").read_text().count("\n") == 3


@pytest.mark.parametrize("damage", ["truncate", "garbage", "delete"])
def test_a_damaged_chunk_of_mappings_is_named(run, capsys, damage):
    chunk = next((run / "mappings").iterdir())
    if damage == "truncate":
        chunk.write_bytes(chunk.read_bytes()[:100])
    elif damage == "garbage":
        chunk.write_bytes(b"garbage")
    else:
        chunk.unlink()
    refuse(capsys, ["run", "--resume", str(run), "--gens", "5"], "mappings")


def test_a_full_disk_ends_with_one_line_and_a_good_checkpoint(run, capsys, monkeypatch):
    fill_disk(monkeypatch)
    argv = ["run", "--resume", str(run), "--gens", "4", "--quiet"]
    refuse(capsys, argv, "No space left on device", "checkpoint", code=1)
    monkeypatch.undo()
    assert main(argv) == 0
    assert [row["generation"] for row in metrics(run)] == ["1", "2", "3", "4"]


def contents(run: Path) -> dict[str, bytes]:
    """Every file of a run folder but its lock."""
    return {
        str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file() and p.name != ".lock"
    }


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("chains = 1", "chains = 2", "method.chains: expected 1, with which the run was made, found 2;"),
        ("t0 = 0.005", "t0 = 0.03", "method.t0: expected 0.005, with which the run was made, found 0.03;"),
        ('invalid = "repair"', 'invalid = "penalise"', "problem.invalid: expected 'repair'"),
        ('statistic = "median"', 'statistic = "minimum"', "evaluator.statistic: expected 'median'"),
        ("seed = 0", "seed = 1", "run.seed: expected 0, with which the run was made, found 1;"),
        ("generation_evals = 21", "generation_evals = 7", "run.generation_evals: expected 21"),
    ],
)
def test_settings_that_were_changed_under_a_run_are_refused_by_name(run, capsys, old, new, key):
    path = run / "config.toml"
    text = path.read_text()
    assert text.count(f"\n{old}\n") == 1
    path.write_text(text.replace(f"\n{old}\n", f"\n{new}\n"))
    before = contents(run)
    refuse(capsys, ["run", "--resume", str(run), "--gens", "3"], f"{path}: {key}")
    assert contents(run) == before
    path.write_text(text)
    assert main(["run", "--resume", str(run), "--gens", "3", "--quiet"]) == 0


def test_settings_that_change_no_result_may_change_when_a_run_goes_on(run, capsys):
    path = run / "config.toml"
    text = path.read_text().replace("timeout_s = 60.0", "timeout_s = 90.0", 1)
    path.write_text(text.replace("bound_seconds = 10.0", "bound_seconds = 0.0"))
    assert "\ntimeout_s = 90.0" in path.read_text()
    assert main(["run", "--resume", str(run), "--gens", "3", "--quiet"]) == 0
    assert len(metrics(run)) == 3


def test_a_run_without_a_checkpoint_begins_with_the_settings_it_finds(run):
    for name in ("checkpoint", "mappings"):
        shutil.rmtree(run / name)
    for name in ("metrics.csv", "summary.json"):
        (run / name).unlink()
    path = run / "config.toml"
    path.write_text(path.read_text().replace("chains = 1", "chains = 2"))
    assert main(["run", "--resume", str(run), "--quiet"]) == 0
    assert len(metrics(run)) == 2


def test_a_run_of_an_earlier_version_is_refused_and_still_read(run, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoint, "VERSION", checkpoint.VERSION + 1)
    with (run / "config.toml").open("a") as stream:
        stream.write("a_setting_of_the_past = 1\n")
    before = contents(run)
    argv = ["run", "--resume", str(run), "--gens", "3"]
    refuse(
        capsys,
        argv,
        "checkpoint",
        "an earlier version of egrl made this run",
        "`egrl plot` and `egrl evaluate`",
    )
    assert contents(run) == before
    assert main(["plot", "curves", str(run), "-o", str(tmp_path / "curves.png")]) == 0
    mapping = str(run / "best_mapping.json")
    assert main(["evaluate", "--workload", "alexnet", "--mapping", mapping]) == 0


def test_what_a_run_killed_before_its_first_checkpoint_left_half_written_is_removed(tmp_path):
    argv = ["run", "--workload", "alexnet", "--method", "annealing", "--evals", "30", "--quiet"]
    assert main([*argv, "--out", str(tmp_path / "whole")]) == 0
    assert main([*argv, "--out", str(tmp_path / "killed")]) == 0
    for path in sorted((tmp_path / "killed").rglob("*"), reverse=True):  # as if killed right after its inputs
        if path.is_file() and path.name not in ("config.toml", "workload.json", "chip.toml"):
            path.unlink()
    (tmp_path / "killed" / "mappings").rmdir()
    half = tmp_path / "killed" / "checkpoint" / "generation-00000000.safetensors.77.tmp"
    half.write_bytes(b"half")
    assert main(["run", "--resume", str(tmp_path / "killed"), "--quiet"]) == 0
    assert not half.exists()
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "killed")
