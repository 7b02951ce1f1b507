"""--log to JSON lines and to trackers: what they are told, and that none ever harms a run."""

from __future__ import annotations

import csv
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from commands import refuse

from egrl.cli.main import main

ARGV = ["run", "--workload", "alexnet", "--method", "random", "--gens", "2", "--quiet"]


class Told:
    """Stands for MLflow and for W&B; fails at a call where it is told to."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Told:
            if name == self._fails:
                raise RuntimeError("no connection")
            self.calls.append((name, args, kwargs))
            return self

        return call

    def module(self) -> types.ModuleType:
        found = types.ModuleType("tracker")
        found.__getattr__ = lambda name: getattr(self, name)
        return found


def run(tmp_path: Path, *logs: str) -> list[dict[str, str]]:
    flags = [word for log in logs for word in ("--log", log)]
    assert main([*ARGV, *flags, "--out", str(tmp_path / "r")]) == 0
    with open(tmp_path / "r" / "metrics.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def test_json_lines_have_the_rows_of_the_metrics(tmp_path, capsys):
    lines, text = tmp_path / "m.jsonl", tmp_path / "m.log"
    rows = run(tmp_path, f"json:{lines}", str(text))
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [line["best_speedup"] for line in found] == [float(row["best_speedup"]) for row in rows]
    assert [line["workload"] for line in found] == ["alexnet", "alexnet"]
    assert text.read_text().count("generation") == 2
    refuse(capsys, [*ARGV, "--log", f"json:{tmp_path}"], "can be written")


@pytest.mark.parametrize(("name", "told"), [("mlflow", "log_metrics"), ("wandb", "log")])
def test_a_tracker_is_told_each_generation_and_its_end(name, told, tmp_path, monkeypatch):
    fake = Told()
    monkeypatch.setitem(sys.modules, name, fake.module())
    monkeypatch.setenv("WANDB_MODE", "offline")
    rows = run(tmp_path, name)
    kept = [(args[0], kwargs["step"]) for call, args, kwargs in fake.calls if call == told]
    assert [step for _, step in kept] == [1, 2]
    assert [row["best_speedup"] for row, _ in kept] == [float(row["best_speedup"]) for row in rows]
    assert fake.calls[-1][0] in ("end_run", "finish")


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
@pytest.mark.parametrize("fails", ["absent", "start_run", "init", "log_metrics", "log", "end_run", "finish"])
def test_one_that_is_absent_or_fails_says_so_once_and_harms_no_run(name, fails, tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, name, None if fails == "absent" else Told(fails).module())
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert len(run(tmp_path, name)) == 2
    said = capfd.readouterr().err.splitlines()
    mine = {"mlflow": ("start_run", "log_metrics"), "wandb": ("init", "log")}[name]
    assert len(said) == (1 if fails in ("absent", *mine) else 0)
    assert all(line.startswith(f"egrl: --log {name}: ") and "goes on without it" in line for line in said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("log", ["/dev/full", "json:/dev/full"])
def test_a_full_disk_ends_a_log_and_no_run(log, tmp_path, capsys):
    assert len(run(tmp_path, log)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("egrl: --log ")
    assert "No space left on device" in line
