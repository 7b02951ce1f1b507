"""Symbolic links in a run folder: what they lead to is neither read nor written to."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import refuse

import egrl
from egrl.cli.main import main
from egrl.measure.records import LOG, EvaluatorLog, Lines
from egrl.runs.folder import MetricsFile
from workloads.errors import InputError, RunFailure

OWN = "the user's own\nand no line's end"
LINKED = (".lock", "measurements.jsonl", "evaluator.log", "metrics.csv", "summary.json", "checkpoint/x.tmp")
"""Files that a run opens, or looks for."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("links") / "run"
    egrl.search("alexnet", method="random", gens=1, out=out, evaluator=lambda rows: 1.0, quiet=True)
    return out


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize("name", LINKED)
def test_a_linked_file_is_refused_and_what_it_leads_to_unharmed(name, run, own, tmp_path, capsys):
    strange = Path(shutil.copytree(run, tmp_path / "strange"))
    (strange / name).unlink(missing_ok=True)
    (strange / name).symlink_to(own)
    line = f"{strange}: expected a folder without links, found the link '{name}'"
    refuse(capsys, ["run", "--resume", str(strange), "--gens", "2", "--evaluator", "true"], line)
    with pytest.raises(InputError, match="found the link"):
        egrl.Search(resume=strange)
    assert own.read_text() == OWN


@pytest.mark.parametrize("name", ["mappings", "checkpoint", "policies", "inputs"])
def test_a_linked_folder_is_refused_and_nothing_is_written_there(name, run, tmp_path, capsys):
    strange, elsewhere = Path(shutil.copytree(run, tmp_path / "strange")), tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(strange / name, ignore_errors=True)
    (strange / name).symlink_to(elsewhere, target_is_directory=True)
    refuse(capsys, ["run", "--resume", str(strange), "--evaluator", "true"], f"found the link '{name}'")
    assert not list(elsewhere.iterdir())


def test_a_new_run_does_not_lock_what_a_link_leads_to(own, tmp_path, capsys):
    out = tmp_path / "new"
    out.mkdir()
    (out / ".lock").symlink_to(own)
    refuse(
        capsys, ["run", "--workload", "alexnet", "--gens", "1", "--out", str(out)], "found the link '.lock'"
    )
    assert own.read_text() == OWN


def test_the_folder_itself_may_be_a_link(run, tmp_path):
    Path(tmp_path / "link").symlink_to(shutil.copytree(run, tmp_path / "real"), target_is_directory=True)
    result = egrl.search(resume=tmp_path / "link", gens=2, evaluator=lambda rows: 1.0, quiet=True)
    assert result.summary["generations"] == 2


def add_a_line(path: Path) -> None:
    Lines(path, "lines", "line", 1).add({})


def log_a_line(path: Path) -> None:
    log = EvaluatorLog()
    log.attach(path.parent)
    log("text")


WRITTEN = pytest.mark.parametrize(
    ("name", "write"),
    [
        ("lines.jsonl", add_a_line),
        (LOG, log_a_line),
        ("metrics.csv", lambda path: MetricsFile(path).append({"generation": 1})),
        ("metrics.csv", lambda path: MetricsFile(path).cut_back(0)),
    ],
)
"""What a run writes into its folder bit by bit."""


@WRITTEN
def test_files_are_opened_without_following_links(name: str, write: Callable[[Path], None], own, tmp_path):
    """Also if a link comes to be while the run goes on."""
    own.write_text("generation\n")
    (tmp_path / name).symlink_to(own)
    with contextlib.suppress(OSError, RunFailure):
        write(tmp_path / name)
    assert own.read_text() == "generation\n"


@WRITTEN
def test_a_pipe_in_place_of_a_file_is_not_waited_for(name: str, write: Callable[[Path], None], tmp_path):
    os.mkfifo(tmp_path / name)
    with contextlib.suppress(OSError, RunFailure, InputError):
        write(tmp_path / name)
    assert (tmp_path / name).is_fifo() or (tmp_path / name).is_file()


@pytest.mark.parametrize("log", ["{}", "json:{}"])
def test_a_log_is_no_pipe_that_nobody_reads(log, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    refuse(
        capsys,
        ["run", "--workload", "alexnet", "--gens", "1", "--log", log.format(tmp_path / "pipe")],
        "expected a file that can be written",
    )


def test_a_figure_replaces_a_link_and_not_what_it_leads_to(run, own, tmp_path, capsys):
    strange = Path(shutil.copytree(run, tmp_path / "strange"))
    (strange / "curves.png").symlink_to(own)
    assert main(["plot", "curves", str(strange)]) == 0
    assert own.read_text() == OWN
    assert (strange / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_links_that_others_keep_beside_runs_do_not_matter(tmp_path):
    (tmp_path / "latest").symlink_to(tmp_path / "run")
    flags = ["--workload", "alexnet", "--method", "random", "--gens", "1", "--quiet"]
    assert main(["run", *flags, "--out", str(tmp_path / "run")]) == 0
