"""A checkpoint whose SHA-256 is right and whose content no run leaves is refused in one line, and the folder stays."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egrl.cli.main import main
from egrl.core.state import state_mismatch
from egrl.runs import checkpoint


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("impossible") / "run"
    argv = ["run", "--workload", "alexnet", "--method", "annealing", "--gens", "2", "--bound-seconds", "0"]
    assert main([*argv, "--quiet", "--out", str(out)]) == 0
    return out


def places(node: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a tree."""
    if where:
        yield where
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield from places(value, (*where, key))


def changed(tree: dict[str, Any], where: tuple[Any, ...], value: Any) -> dict[str, Any]:
    tree = copy.deepcopy(tree)
    node = tree
    for key in where[:-1]:
        node = node[key]
    node[where[-1]] = value
    return tree


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        "text",
        pytest.param([], marks=pytest.mark.exhaustive),
        pytest.param({}, marks=pytest.mark.exhaustive),
        pytest.param(np.zeros((3, 3), np.float32), marks=pytest.mark.exhaustive),
    ],
    ids=repr,
)
def test_whatever_is_put_in_the_place_of_a_value_ends_in_one_line(run, value, capsys):
    files = sorted((run / "checkpoint").iterdir())
    content = files[-1].read_bytes()
    tree = checkpoint.loads(content, "test")
    refused = 0
    try:
        for where in places(tree):
            files[-1].write_bytes(checkpoint.dumps(changed(tree, where, value)))
            before = (run / "metrics.csv").read_bytes()
            code = main(["run", "--resume", str(run), "--quiet"])
            captured = capsys.readouterr()
            assert code in (0, 2), where
            if code == 2:
                refused += 1
                assert captured.err.startswith("egrl: error: "), where
                assert captured.err.count("\n") == 1, where
                assert (run / "metrics.csv").read_bytes() == before, where
    finally:
        files[-1].write_bytes(content)
    assert refused > 20


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


def test_a_state_is_like_that_of_a_new_method():
    new = {"a": np.zeros((0, 3)), "b": [1, 2.0], "c": None, "d": {}, "e": np.zeros((2, 2))}
    assert state_mismatch(new, new) is None
    grown = {"a": np.ones((5, 3)), "b": [2.0, 1], "c": "text", "d": {"x": 1}, "e": np.ones((4, 2)), "f": 1}
    assert state_mismatch(new, grown) is None
    for key, value in (
        ("a", np.zeros((0, 4))),
        ("a", 1),
        ("b", ["x", 1]),
        ("b", [float("inf"), 1.0]),
        ("b", {}),
        ("d", []),
        ("e", np.zeros((1, 2))),
        ("e", np.zeros((2, 2), np.int64)),
    ):
        assert "method." + key in str(state_mismatch(new, {**new, key: value}))
    assert "keys" in str(state_mismatch(new, {"a": 1}))
