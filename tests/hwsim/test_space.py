"""The decisions of a problem: defaults, what must fit together, canonical mappings, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.space import Space
from workloads.load import load

COUNTS = np.array([[3, 2], [1, 2]], np.int16)


def test_what_is_not_given_is_even():
    space = Space(["a", "b"], ["x", "y"], COUNTS)
    assert space.labels == (("0", "1", "2"), ("0", "1", "2"))
    assert space.size_bytes.tolist() == [[1, 1], [1, 1]]
    assert space.choice_rank.tolist() == [[0.0, 0.5, 1.0]] * 2
    assert space.initial.tolist() == [[0, 0], [0, 0]]
    assert (space.shape, space.most_choices, space.live.all()) == ((2, 2), 3, True)


def test_dead_decisions_are_minus_one_in_canonical_mappings_which_are_copies():
    space = Space(["a", "b"], ["x", "y"], COUNTS, size_bytes=np.array([[8, 0], [0, 8]]))
    mapping = np.array([[[2, 2], [1, 1]]], np.int16)
    assert space.canonical(mapping).tolist() == [[[2, -1], [-1, 1]]]
    assert mapping.tolist() == [[[2, 2], [1, 1]]]
    assert space.canonical(mapping).dtype == np.int16
    assert space.initial.tolist() == [[0, -1], [-1, 0]]
    assert pickle.loads(pickle.dumps(space)).live.tolist() == space.live.tolist()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nodes": ["a", "a"]}, "nodes: expected one name or more, each another"),
        (
            {"nodes": ["a"]},
            r"num_choices: expected int16 of shape \(1, 2\), received int16 of shape \(2, 2\)",
        ),
        ({"num_choices": COUNTS.astype(np.int64)}, "num_choices: expected int16"),
        ({"num_choices": COUNTS - np.int16(1)}, "num_choices: expected at least 1"),
        ({"labels": [["p", "q", "r"]]}, "labels: expected 2 heads, received 1"),
        ({"labels": [["p", "q"], ["p", "q"]]}, "labels: expected at least 3 of x, received 2"),
        ({"size_bytes": np.ones((2, 2), np.float64)}, "size_bytes: expected int64"),
        ({"size_bytes": np.full((2, 2), -1)}, "size_bytes: expected 0 or more"),
        ({"choice_rank": np.zeros((2, 2), np.float32)}, r"choice_rank: expected float32 of shape \(2, 3\)"),
        ({"choice_rank": np.full((2, 3), 2, np.float32)}, r"choice_rank: expected numbers in 0\.\.1"),
        ({"initial": np.zeros((2, 1), np.int16)}, "initial: expected int16"),
        ({"initial": np.full((2, 2), 2, np.int16)}, "initial: expected choices of live decisions or -1"),
        (
            {"size_bytes": np.zeros((2, 2), np.int64), "initial": np.zeros((2, 2), np.int16)},
            "initial: expected choices of live decisions or -1",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(wrong: dict[str, Any], words: str):
    given: dict[str, Any] = {"nodes": ["a", "b"], "heads": ["x", "y"], "num_choices": COUNTS}
    with pytest.raises(ValueError, match=words):
        Space(**{**given, **wrong})


def test_check_names_shape_dtype_and_range():
    problem = NnpiProblem(load("resnet18"), load_chip("nnpi"))
    good = problem.space.initial[None]
    problem.space.check(good, np.zeros(1, np.uint64))
    with pytest.raises(
        ValueError, match=r"mapping: expected int16 of shape \(B, \d+, 2\), received int16 of"
    ):
        problem.space.check(good[:, :-1], np.zeros(1, np.uint64))
    with pytest.raises(ValueError, match="received int64"):
        problem.space.check(good.astype(np.int64), np.zeros(1, np.uint64))
    with pytest.raises(ValueError, match=r"key: expected uint64 of shape \(1,\)"):
        problem.space.check(good, np.zeros(2, np.uint64))
    with pytest.raises(ValueError, match="key"):
        problem.space.check(good, np.zeros(1, np.int64))
    node = int(np.flatnonzero(problem.space.live[:, 0])[0])
    for choice in (3, -1):
        wrong = good.copy()
        wrong[0, node, 0] = choice
        with pytest.raises(
            ValueError, match=rf"mapping\[0, {node}, 0\] \(weight of .*0\.\.2.*received {choice}"
        ):
            problem.space.check(wrong, np.zeros(1, np.uint64))
