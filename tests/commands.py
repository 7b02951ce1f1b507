"""What tests of the command line ask of a command: how it refuses, what a figure says, what a run leaves."""

from __future__ import annotations

import csv
import errno
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from egrl.cli.main import main
from egrl.compare.report import Job

FAST = ["--method", "annealing", "--quiet"]
TINY = [
    "--set", "method.network.width=8", "--set", "method.network.depth=2", "--set", "method.network.attention_heads=2",
    "--set", "method.critic.width=8",
    "--set", "method.profile_model.steps=2", "--set", "method.profile_model.most=16",
]  # fmt: skip
"""Networks and searches small enough for tests; `pg` has the first eight words, `ea` the first six."""


def refuse(capsys: pytest.CaptureFixture[str], argv: list[str], *words: str, code: int = 2) -> str:
    """The one line that a command is refused with: nothing on stdout, and `words` in it."""
    capsys.readouterr()
    assert main(argv) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("egrl: error: ")
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err
    return captured.err


def drawn(
    capsys: pytest.CaptureFixture[str], output: Path, figure: str, *runs: Path
) -> tuple[dict[str, Any], list[str]]:
    """The document and the remarks of a figure; that it was written, and the same when drawn again."""
    argv = ["plot", figure, *map(str, runs), "-o", str(output), "--json"]
    capsys.readouterr()
    assert main(argv) == 0
    before = output.read_bytes()
    printed = capsys.readouterr()
    assert main(argv) == 0
    assert output.read_bytes() == before
    document = json.loads(printed.out)
    assert (document["kind"], document["version"], document["figure"]) == ("figure", 1, figure)
    assert (document["workload"], document["chip"]) == ("alexnet", "nnpi")
    return document, printed.err.splitlines()


def refused_figure(capsys: pytest.CaptureFixture[str], output: Path, figure: str, *runs: Path) -> str:
    """The one line that a figure is refused with; nothing is written."""
    line = refuse(capsys, ["plot", figure, *map(str, runs), "-o", str(output)])
    assert not output.exists()
    return line.rstrip("\n")


def run_here(jobs: Sequence[Job], workers: int, say: Callable[[str], None]) -> tuple[dict[Path, str], bool]:
    """As `comparison_runs.run_all`, in this process: starting one costs more than the smallest searches."""
    for number, job in enumerate(jobs):
        assert main(list(job.argv)) == 0
        say(f"{number + 1}/{len(jobs)} {job.label}")
    return {}, False


def metrics(run: Path) -> list[dict[str, str]]:
    """The rows of a run's metrics without their seconds."""
    with open(run / "metrics.csv") as stream:
        return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)]


def outcome(run: Path) -> tuple[list[dict[str, str]], str, dict[str, Any]]:
    """What two equal runs have in common: metrics, best mapping, summary, without seconds."""
    summary = json.loads((run / "summary.json").read_text())
    del summary["seconds"], summary["bound_seconds"]
    return metrics(run), (run / "best_mapping.json").read_text(), summary


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the disk refuses checkpoints."""
    real = os.replace

    def full(source: Any, target: Any) -> None:
        if "checkpoint" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target)

    monkeypatch.setattr(os, "replace", full)


def module_of(path: Path) -> Any:
    """A Python file outside the packages as a module: a benchmark, a tool, an example."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
