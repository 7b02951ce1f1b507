"""A run folder that somebody meddles with while the run goes on, or between runs: noticed, named, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from commands import outcome, refuse
from filelock import FileLock

import egrl
from egrl.cli.main import main
from egrl.core.failure import RunFailure
from egrl.runs.past_run import PastRun
from workloads.errors import InputError, Notice


def search(out: Path, seed: int = 0, meddle: Callable[[], object] = lambda: None) -> None:
    """Six generations; `meddle` is called after the third."""

    def told(row: dict[str, object]) -> None:
        if row["generation"] == 3:
            meddle()

    egrl.search(
        "alexnet", method="annealing", gens=6, seed=seed, bound_seconds=0.0, checkpoint_seconds=0.0,
        out=out, on_generation=told,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("meddled") / "whole"
    search(out)
    return out


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("meddled") / "other"
    search(out, seed=1)
    return out


def empty(path: Path) -> None:
    path.write_bytes(b"")


MEDDLING: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "metrics deleted": ("metrics.csv", lambda run, other: (run / "metrics.csv").unlink()),
    "metrics emptied": ("metrics.csv", lambda run, other: empty(run / "metrics.csv")),
    "metrics of another run": (
        "metrics.csv",
        lambda run, other: shutil.copy(other / "metrics.csv", run / "metrics.csv"),
    ),
    "mappings deleted": ("mappings", lambda run, other: shutil.rmtree(run / "mappings")),
    "a chunk emptied": ("mappings", lambda run, other: empty(min((run / "mappings").iterdir()))),
    "mappings of another run": (
        "mappings",
        lambda run, other: shutil.copytree(other / "mappings", run / "mappings", dirs_exist_ok=True),
    ),
    "lock removed": (".lock", lambda run, other: (run / ".lock").unlink()),
    "lock replaced": (
        ".lock",
        lambda run, other: ((run / ".lock").unlink(), (run / ".lock").touch()),
    ),
}


IN_THE_GATE = ("mappings of another run",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in IN_THE_GATE else [pytest.mark.exhaustive]) for n in MEDDLING]
)
def test_what_somebody_does_to_a_folder_in_use_is_named_and_mended(name, whole, other, tmp_path):
    word, meddle = MEDDLING[name]
    out = tmp_path / "run"
    with pytest.warns(Notice) as told:
        search(out, meddle=lambda: meddle(out, other))
    lines = [str(warning.message) for warning in told]
    assert any(line.startswith(str(out)) and word in line and "\n" not in line for line in lines), lines
    same_rows(out, whole)
    for run in (out, shutil.copytree(whole, tmp_path / "whole")):
        assert main(["run", "--resume", str(run), "--gens", "7", "--quiet"]) == 0
    same_rows(out, tmp_path / "whole")


def same_rows(a: Path, b: Path) -> None:
    """The same rows of metrics, best mapping and evaluations."""
    assert outcome(a) == outcome(b)
    for one, two in zip(
        astuple(PastRun.read(a).evaluations()), astuple(PastRun.read(b).evaluations()), strict=True
    ):
        np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_a_folder_deleted_while_a_chunk_is_written_is_made_again(whole, tmp_path, monkeypatch):
    out, fsync, left = tmp_path / "run", os.fsync, [2]

    def deleting(handle: int) -> None:
        fsync(handle)
        if (out / "mappings").exists() and any((out / "mappings").glob("*.tmp")) and left[0]:
            left[0] -= 1
            shutil.rmtree(out / "mappings")

    monkeypatch.setattr(os, "fsync", deleting)
    search(out)
    assert left == [0]
    same_rows(out, whole)


def measured(out: Path, meddle: Callable[[Path], object] = lambda path: None) -> set[str]:
    """What the file of measurements has after six generations; `meddle` is called with it after the third."""
    file = out / "measurements.jsonl"
    egrl.search(
        "alexnet", method="random", gens=6, bound_seconds=0.0, out=out,
        evaluator=lambda mapping: 1e-3 + 1e-6 * len(str(mapping)),
        on_generation=lambda row: meddle(file) if row["generation"] == 3 else None,
    )  # fmt: skip
    return {json.loads(line)["mapping"] for line in file.read_text().splitlines()}


@pytest.mark.parametrize("meddle", [Path.unlink, empty])
def test_what_boards_said_is_written_again(meddle, tmp_path):
    with pytest.warns(
        Notice, match=r"measurements\.jsonl: deleted or cut while the run goes on; written again"
    ):
        kept = measured(tmp_path / "run", meddle)
    assert kept == measured(tmp_path / "whole")


INPUTS = ("config.toml", "workload.json", "chip.toml")


def delete_inputs(out: Path) -> None:
    for name in INPUTS:
        (out / name).unlink()


def resume(out: Path, seed: int, meddle: Callable[[], object]) -> None:
    """Six generations, and two more; `meddle` is called between these."""
    search(out, seed)
    egrl.search(resume=out, gens=8, on_generation=lambda row: meddle() if row["generation"] == 7 else None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("run", [search, resume])
def test_deleted_inputs_are_written_again(run, whole, tmp_path):
    out = tmp_path / "run"
    with pytest.warns(Notice, match="deleted while the run goes on; written again, nothing is lost") as told:
        run(out, 0, lambda: delete_inputs(out))
    assert {Path(str(warning.message).split(": ")[0]).name for warning in told} == set(INPUTS)
    for name in INPUTS[1:]:
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert main(["run", "--resume", str(out), "--gens", "9", "--quiet"]) == 0
    assert PastRun.read(out).summary["generations"] == 9


def test_a_folder_that_is_removed_in_the_last_generation_ends_the_run_in_one_line(tmp_path, capsys):
    out = tmp_path / "run"

    def remove(row: dict[str, object]) -> None:
        if row["generation"] == 2:
            shutil.rmtree(out)

    with pytest.raises(RunFailure, match="the run folder was removed while the run went on"):
        egrl.search("alexnet", method="random", gens=2, out=out, on_generation=remove, bound_seconds=0.0)
    assert not out.exists()


@pytest.mark.slow
def test_a_touched_file_is_no_other(whole, tmp_path, recwarn):
    out = tmp_path / "run"

    def touch() -> None:
        for path in out.rglob("*"):
            os.utime(path)

    search(out, meddle=touch)
    assert not [w for w in recwarn if issubclass(w.category, Notice)]
    assert outcome(out) == outcome(whole)


@pytest.mark.slow
def test_a_run_whose_folder_another_process_has_taken_ends(tmp_path):
    out = tmp_path / "run"
    taken: list[FileLock] = []

    def take() -> None:
        (out / ".lock").unlink()
        taken.append(FileLock(out / ".lock"))
        taken[0].acquire(timeout=0)

    with pytest.raises(RunFailure, match=r"\.lock was removed .* another process"):
        search(out, meddle=take)
    taken[0].release()
    assert main(["run", "--resume", str(out), "--quiet"]) == 0


@pytest.mark.slow
def test_a_run_that_another_process_has_gone_on_with_ends(whole, tmp_path):
    out = tmp_path / "run"

    def go_on() -> None:
        (out / ".lock").unlink()
        assert main(["run", "--resume", str(out), "--quiet"]) == 0

    with pytest.raises(RunFailure, match="another process has gone on with it"):
        search(out, meddle=go_on)
    assert outcome(out) == outcome(whole)


def test_a_folder_that_is_removed_ends_the_run_in_one_line(tmp_path):
    with pytest.raises(RunFailure, match="removed while the run went on"):
        search(tmp_path / "run", meddle=lambda: shutil.rmtree(tmp_path / "run"))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["under the same name", "beside", "spanning"])
def test_chunks_of_another_run_are_refused_by_name_and_go_on_without(whole, other, tmp_path, how, capsys):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    names = {
        "under the same name": max((other / "mappings").iterdir()).name,
        "beside": "000000000-000000005-p0.npz",
        "spanning": "000000100-000000999-p0.npz",
    }
    chunk = run / "mappings" / names[how]
    before = chunk.read_bytes() if chunk.exists() else None
    shutil.copy(max((other / "mappings").iterdir()), chunk)
    strange = chunk.read_bytes()
    refuse(capsys, ["run", "--resume", str(run), "--gens", "7"], str(chunk))
    assert chunk.read_bytes() == strange
    if before is None:
        chunk.unlink()
    else:
        chunk.write_bytes(before)
    assert main(["run", "--resume", str(run), "--gens", "7", "--quiet"]) == 0


def test_evaluations_of_two_runs_are_not_read_as_one(whole, other, tmp_path):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    shutil.copy(min((other / "mappings").iterdir()), run / "mappings" / "000000000-000000005-p0.npz")
    with pytest.raises(InputError, match=r"mappings: expected the chunks .* of one run, found two"):
        PastRun.read(run).evaluations()


@pytest.mark.slow
def test_a_page_is_made_of_what_is_left(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(run / "mappings")
    assert main(["report", str(run)]) == 0
    name = os.fsdecode(b"not-text-\xff")
    strange = shutil.copytree(whole, tmp_path / name)
    assert main(["report", str(strange), "-o", str(tmp_path / "page.html")]) == 0
    assert "not-text-\\udcff" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_what_is_no_file_is_not_read(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "metrics.csv").unlink()
    os.mkfifo(run / "metrics.csv")
    assert main(["watch", "--once", str(run)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("begins")


@pytest.mark.parametrize("command", ["report", "plot curves"])
def test_half_a_character_is_refused(
    command: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    document = json.loads((run / "summary.json").read_text())
    document["about"]["rival"] = "\ud800"
    (run / "summary.json").write_text(json.dumps(document))
    refuse(
        capsys, [*command.split(), str(run)], "summary.json: expected text, found half of a surrogate pair"
    )


def test_a_pipe_that_the_user_names_is_written_to(whole: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        assert main(["export", str(whole), "--format", "json", "-o", str(pipe)]) == 0
        assert json.loads(read.result(60))["kind"] == "mapping"
    assert pipe.is_fifo()
    assert main(["export", str(whole), "--format", "csv", "-o", os.devnull]) == 0
    assert Path(os.devnull).is_char_device()
