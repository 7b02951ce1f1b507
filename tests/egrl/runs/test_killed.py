"""Kill -9 all along a run, and between write, fsync and rename: the resumed run is the uninterrupted one."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import module_of

from egrl.cli.main import main

KILLING = Path(__file__).with_name("killing.py")


def killed(out: Path, *args: str) -> int:
    argv = [sys.executable, str(KILLING), str(out), *args]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def traces(out: Path) -> tuple[list[dict[str, str]], str, dict]:
    with open(out / "metrics.csv") as stream:
        rows = [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)]
    summary = json.loads((out / "summary.json").read_text())
    del summary["seconds"], summary["bound_seconds"]
    return rows, (out / "best_mapping.json").read_text(), summary


FEW, MANY = ("2", (6,)), ("20", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 17, 19, 23))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "calls"), [FEW, pytest.param(*MANY, marks=pytest.mark.exhaustive)], ids=["few", "many"]
)
def test_a_run_killed_again_and_again_ends_as_if_nothing_had_happened(tmp_path, kills, calls):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main(module_of(KILLING).command(str(whole))) == 0
    assert killed(parts, "1", kills, *map(str, calls)) > len(calls)
    assert traces(parts) == traces(whole)
    assert len(traces(whole)[0]) == 10
    assert not list(parts.rglob("*.tmp"))
    assert {p.name for p in (parts / "policies").iterdir()} == {
        p.name for p in (whole / "policies").iterdir()
    }
