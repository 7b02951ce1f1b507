"""Checkpoints: exact, checked, atomic, free of code."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from egrl.cli.main import main
from egrl.core import atomic
from egrl.runs import checkpoint
from workloads.errors import InputError, RunFailure

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**130), 2**130),
    st.floats(),
    st.text(max_size=5),
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int8, np.int16, np.int64, np.uint64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    hnp.arrays(np.dtype("<U6"), 3),
)
TREES = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=12,
    ),
    max_size=4,
)


def assert_same(a, b):
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)
    else:
        assert type(a) is type(b)
        assert a == b or (a != a and b != b)


@given(TREES)
def test_every_tree_comes_back_as_it_was(tree):
    assert_same(tree, checkpoint.loads(checkpoint.dumps(tree), "memory"))


def test_tensors_come_back_as_tensors():
    tree = {"w": torch.arange(6).reshape(2, 3).float(), "n": torch.tensor(3)}
    found = checkpoint.loads(checkpoint.dumps(tree), "memory")
    assert torch.equal(found["w"], tree["w"])
    assert torch.equal(found["n"], tree["n"])


@pytest.mark.parametrize("tree", [{"f": print}, {1: 2}, {"c": np.array([1j])}])
def test_what_cannot_be_stored_without_code_is_refused(tree):
    with pytest.raises(ValueError, match="expected"):
        checkpoint.dumps(tree)


def test_any_changed_byte_is_noticed():
    data = checkpoint.dumps({"a": np.arange(100.0), "b": {"c": "text", "n": 12345}})
    rng = np.random.default_rng(0)
    messages = []
    for at in rng.integers(8, len(data), 200):
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(8))
        try:  # a bit of JSON white space or padding may flip without changing what is read
            assert_same(checkpoint.loads(bytes(damaged), "x.safetensors"), checkpoint.loads(data, "y"))
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 180
    assert all(message.startswith("x.safetensors") and "\n" not in message for message in messages)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 60, 400])
def test_a_truncated_file_is_damaged(length):
    data = checkpoint.dumps({"a": np.arange(100.0)})
    with pytest.raises(InputError, match="damaged"):
        checkpoint.loads(data[:length], "x")


def test_another_version_is_named(monkeypatch):
    now = checkpoint.VERSION
    with monkeypatch.context() as later:
        later.setattr(checkpoint, "VERSION", now + 1)
        data = checkpoint.dumps({"a": 1})
    with pytest.raises(
        InputError, match=f"expected checkpoint version {now}, found checkpoint version {now + 1}"
    ):
        checkpoint.loads(data, "x")


def test_the_last_two_are_kept_and_the_newest_is_loaded(tmp_path):
    for generation in (1, 5, 12):
        checkpoint.save(tmp_path, generation, {"g": generation})
    assert [g for g, _ in checkpoint.listing(tmp_path)] == [5, 12]
    assert checkpoint.newest(tmp_path) == {"g": 12}


def test_a_damaged_newest_checkpoint_names_the_good_one_before(tmp_path):
    for generation in (1, 2):
        checkpoint.save(tmp_path, generation, {"g": generation})
    newest = checkpoint.listing(tmp_path)[-1][1]
    newest.write_bytes(newest.read_bytes()[:-3])
    with pytest.raises(InputError, match="go on from generation-00000001"):
        checkpoint.newest(tmp_path)
    assert len(checkpoint.listing(tmp_path)) == 2
    newest.unlink()
    assert checkpoint.newest(tmp_path) == {"g": 1}


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch, call):
    target = tmp_path / "file"
    atomic.write(target, "old")

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if call == "write":
        monkeypatch.setattr("builtins.open", full)
    else:
        monkeypatch.setattr(os, call, full)
    with pytest.raises(RunFailure, match="No space left on device; what was saved before is still good"):
        atomic.write(target, "new")
    monkeypatch.undo()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_refused_state_leaves_the_row_of_a_generation_that_was_cut_off(tmp_path, capsys):
    out = tmp_path / "r"
    argv = ["run", "--workload", "alexnet", "--method", "annealing", "--evals", "30", "--bound-seconds", "0"]
    assert main([*argv, "--quiet", "--out", str(out)]) == 0
    before = (out / "metrics.csv").read_bytes()
    newest = max((out / "checkpoint").iterdir())
    tree = checkpoint.loads(newest.read_bytes(), "test")
    newest.write_bytes(checkpoint.dumps({**tree, "method": {}}))
    assert main(["run", "--resume", str(out), "--quiet"]) == 2
    assert "expected what a run leaves" in capsys.readouterr().err
    assert (out / "metrics.csv").read_bytes() == before
    assert before.count(b"\n") == 3  # names, a generation, and nine evaluations of the next
