"""Run folders beyond the command line: windows of mappings, damage of every file, full disks."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import fill_disk

import egrl
from egrl.core import loop, typed_tables
from egrl.core.archive import Archive
from egrl.core.contracts import Budget
from egrl.core.loop import SearchState
from egrl.core.method import Context
from egrl.measure.local import InProcess
from egrl.methods import find_method
from egrl.runs import checkpoint, chunks
from egrl.runs.folder import RunFolder, check_settings
from egrl.runs.past_run import PastRun
from toys import ToyRagged
from workloads.errors import InputError, RunFailure

PROBLEM = ToyRagged()


def go(path: Path, gens: int, resume: bool = False, every: float = 0.0) -> tuple[Archive, SearchState]:
    """Search the toy at random with the smallest window of mappings that an archive can have."""
    archive = Archive([PROBLEM], window_rows=1)
    definition = find_method("random")
    context = Context([PROBLEM], archive, 0, [None])
    method = definition.build(context, typed_tables.build(definition.config, {}, "test"))
    folder = RunFolder.reopen(path) if resume else RunFolder.create(path)
    try:
        if not resume:
            folder.write_inputs("kind = 'config'\n", [PROBLEM], {})
        state = loop.resume(method, folder, context) if resume else None
        reached = loop.search(
            method, context, InProcess([PROBLEM]), Budget.of_generations(gens), folder,
            state=state, checkpoint_seconds=every,
        )  # fmt: skip
    finally:
        folder.close()
    return archive, reached


def metrics(path: Path) -> list[str]:
    rows = (path / "metrics.csv").read_text().splitlines()
    return [",".join(row.split(",")[:2] + row.split(",")[3:]) for row in rows]


@pytest.mark.slow
def test_beyond_the_window_old_chunks_go_and_a_resumed_run_is_the_same(tmp_path):
    whole, _ = go(tmp_path / "a", 56)
    go(tmp_path / "b", 52)
    parts, _ = go(tmp_path / "b", 56, resume=True)
    assert whole.window == 1024
    newest = np.arange(len(whole) - 1024, len(whole))
    np.testing.assert_array_equal(whole.mappings(newest), parts.mappings(newest))
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")
    kept = chunks.listing(tmp_path / "a" / "mappings")
    assert kept[0].first > 0
    assert kept[0].first <= len(whole) - 1024 - 1


@pytest.mark.slow
def test_a_run_goes_on_whose_checkpoints_lie_further_apart_than_its_window(tmp_path):
    go(tmp_path / "r", 55, every=1e9)
    go(tmp_path / "r", 130, resume=True, every=1e9)
    first, second = chunks.listing(tmp_path / "r" / "mappings")
    held = len(chunks.read([second.path])["evaluation"])
    assert held < second.end - second.first  # the archive had let some go before they were written
    assert first.end == second.first
    parts, _ = go(tmp_path / "r", 131, resume=True, every=1e9)
    whole, _ = go(tmp_path / "whole", 131)
    newest = np.arange(len(whole) - 1024, len(whole))
    np.testing.assert_array_equal(whole.mappings(newest), parts.mappings(newest))
    assert metrics(tmp_path / "r") == metrics(tmp_path / "whole")


def test_profiles_are_kept_and_a_resumed_run_has_the_same(tmp_path):
    given = {"workload": "alexnet", "method": "random", "settings": ["problem.profile_noise=0.1"]}
    egrl.search(**given, evals=60, out=tmp_path / "a")
    egrl.search(**given, evals=40, out=tmp_path / "b")
    egrl.search(resume=tmp_path / "b", evals=60)
    kept = [PastRun.read(tmp_path / name).evaluations() for name in "ab"]
    assert np.isfinite(kept[0].parts).all()
    np.testing.assert_array_equal(kept[0].parts, kept[1].parts)
    names = PastRun.read(tmp_path / "a").problem.parts.names
    assert kept[0].parts.shape == (60, len(names))


def test_a_folder_from_before_there_were_profiles_goes_on(tmp_path, monkeypatch):
    given = {"workload": "alexnet", "method": "random"}
    egrl.search(**given, evals=60, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Archive, "parts", lambda self, tickets: np.full((len(tickets), 0), np.nan, np.float32))
        egrl.search(**given, evals=40, out=tmp_path / "old")
    egrl.search(resume=tmp_path / "old", evals=60)
    whole, old = (PastRun.read(tmp_path / name).evaluations() for name in ("whole", "old"))
    assert np.isnan(old.parts[:40]).all()
    np.testing.assert_array_equal(old.parts[40:], whole.parts[40:])
    np.testing.assert_array_equal(old.cost, whole.cost)


@pytest.mark.slow
def test_the_checkpoint_before_stays_good_when_the_disk_fills_beyond_the_window(tmp_path, monkeypatch):
    go(tmp_path / "r", 52)
    before = metrics(tmp_path / "r")
    fill_disk(monkeypatch)
    with pytest.raises(RunFailure, match="No space left"):
        go(tmp_path / "r", 110, resume=True, every=1e9)
    monkeypatch.undo()
    go(tmp_path / "r", 53, resume=True)
    assert metrics(tmp_path / "r")[: len(before)] == before
    go(tmp_path / "whole", 53)
    assert metrics(tmp_path / "r") == metrics(tmp_path / "whole")


@pytest.mark.slow
def test_each_kept_checkpoint_has_the_mappings_that_it_needs(tmp_path):
    go(tmp_path / "r", 53)
    newest = checkpoint.listing(tmp_path / "r" / "checkpoint")[-1][1]
    newest.unlink()
    go(tmp_path / "r", 53, resume=True)
    go(tmp_path / "whole", 53)
    assert metrics(tmp_path / "r") == metrics(tmp_path / "whole")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "r"
    go(path, 3)
    return path


def content(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", ["metrics.csv", "mappings", "checkpoint"])
@pytest.mark.parametrize("damage", ["missing", "empty", "half", "garbage", "folder", "pipe"])
def test_damage_is_refused_in_one_line_and_nothing_is_changed(finished, tmp_path, name, damage):
    path = Path(shutil.copytree(finished, tmp_path / "r"))
    victim = path / name
    if victim.is_dir():
        victim = sorted(victim.iterdir())[-1]
    data = victim.read_bytes()
    victim.unlink()
    if damage == "empty":
        victim.write_bytes(b"")
    elif damage == "half":
        victim.write_bytes(data[: len(data) // 2])
    elif damage == "garbage":
        victim.write_bytes(bytes(reversed(data)))
    elif damage == "folder":
        victim.mkdir()
    elif damage == "pipe":
        os.mkfifo(victim)
    before = content(path) if damage != "pipe" else None
    if name == "checkpoint" and damage == "missing":
        go(path, 4, resume=True)  # the one before takes over
        assert len(metrics(path)) == 5
        return
    with pytest.raises(InputError) as caught:
        go(path, 4, resume=True)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert before is None or content(path) == before


def test_a_run_without_any_checkpoint_is_refused(finished, tmp_path):
    path = Path(shutil.copytree(finished, tmp_path / "r"))
    shutil.rmtree(path / "checkpoint")
    before = content(path)
    with pytest.raises(InputError, match="expected a checkpoint of the run, found none"):
        go(path, 4, resume=True)
    assert content(path) == before


def test_strangers_in_the_folder_are_left_alone(finished, tmp_path):
    path = Path(shutil.copytree(finished, tmp_path / "r"))
    strangers = [
        "mappings/copy of.npz",
        "mappings/a-b.npz",
        "checkpoint/notes.txt",
        "policies/generation-best.safetensors",
    ]
    (path / "policies").mkdir(exist_ok=True)
    (path / "kept.tmp").mkdir()
    for name in strangers:
        (path / name).write_text("mine")
    go(path, 4, resume=True)
    assert all((path / name).read_text() == "mine" for name in strangers)


@pytest.mark.parametrize("where", ["events", "mappings", "metrics.csv"])
def test_a_full_disk_anywhere_is_one_line_and_the_run_goes_on_afterwards(tmp_path, monkeypatch, where):
    import builtins

    go(tmp_path / "r", 2)
    real = builtins.open

    def full(file, mode="r", *args, **kwargs):
        if where in str(file) and any(m in mode for m in "wxa"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        return real(file, mode, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", full)
    with pytest.raises(RunFailure, match="No space left") as caught:
        go(tmp_path / "r", 4, resume=True)
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    go(tmp_path / "r", 4, resume=True)
    go(tmp_path / "whole", 4)
    assert metrics(tmp_path / "r") == metrics(tmp_path / "whole")


def test_metrics_have_the_same_names_in_every_row(tmp_path):
    go(tmp_path / "r", 2)
    folder = RunFolder.reopen(tmp_path / "r")
    try:
        with pytest.raises(ValueError, match=r"metrics: expected generation, .*, received generation, new"):
            folder.generation({"generation": 3, "new": 1.0})
    finally:
        folder.close()
    assert len(metrics(tmp_path / "r")) == 3


def test_a_setting_that_differs_is_refused_by_its_name():
    made = {"method.a": 1}
    check_settings(made, dict(made), "config.toml")
    with pytest.raises(InputError, match=r"config.toml: method.new: expected none, .* found 0.7"):
        check_settings(made, {**made, "method.new": 0.7}, "config.toml")
    with pytest.raises(InputError, match=r"method.a: expected 1, .* found none"):
        check_settings(made, {}, "config.toml")
