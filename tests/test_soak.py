"""`python -m benchmarks.soak`, a few cases of each part: kills, full disks, bad boards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak import PROMISES

ROOT = Path(__file__).resolve().parents[1]
SOAK = [sys.executable, "-m", "benchmarks.soak"]


def table(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line[:1] == "|"
    ]


@pytest.mark.exhaustive
def test_a_few_cases_of_each_part_go_well():
    """Some 30 s of the processor: runs are made, killed and made again in processes of their own."""
    done = subprocess.run([*SOAK, "--small"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = table(done.stdout)[2:]
    assert len(rows) >= 8
    assert all(int(row[2]) > 0 and row[3] == "0" for row in rows)
    assert done.stdout.endswith("nothing went wrong\n")


@pytest.mark.exhaustive
def test_a_few_answers_that_nearly_keep_to_the_protocol_go_well():
    done = subprocess.run(
        [*SOAK, "--only", "lies", "--cases", "lies=64", "--subjects", "none"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = table(done.stdout)[2:]
    assert int(row[2]) >= 74
    assert row[3] == "0"


def test_the_page_has_a_row_for_each_promise():
    rows = table((ROOT / "benchmarks" / "log" / "reliability.md").read_text(encoding="utf-8"))
    assert {promise.text for promise in PROMISES.values()} <= {row[0] for row in rows}
