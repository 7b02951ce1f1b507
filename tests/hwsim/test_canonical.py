"""Checking, canonicalising, sampling and showing mappings."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsim.canonical import canonical, check_mapping, independent_sample, observe
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load


@pytest.fixture(scope="module")
def problem() -> NnpiProblem:
    return NnpiProblem(load("resnet18"), load_chip("nnpi"))


def keys(rows: int) -> np.ndarray:
    return np.arange(rows, dtype=np.uint64)


def test_canonical_marks_dead_decisions_and_copies_the_rest():
    live = np.array([[True, False], [False, True]])
    mapping = np.array([[[2, 2], [1, 1]]], np.int16)
    assert canonical(mapping, live).tolist() == [[[2, -1], [-1, 1]]]
    assert mapping.tolist() == [[[2, 2], [1, 1]]]
    assert canonical(mapping, live).dtype == np.int16


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4))
def test_samples_are_allowed_choices_with_mass_and_minus_one_where_dead(seed: int, n: int, h: int, c: int):
    rng = np.random.default_rng(seed)
    p = rng.random((4, n, h, c)) * rng.integers(0, 2, (4, n, h, c))
    num_choices = rng.integers(1, c + 1, (n, h)).astype(np.int16)
    live = rng.random((n, h)) < 0.7
    drawn = independent_sample(p, num_choices, live, rng.integers(0, 2**63, 4).astype(np.uint64))
    assert drawn.dtype == np.int16
    assert (drawn[:, ~live] == -1).all()
    assert (drawn[:, live] >= 0).all()
    assert (drawn < num_choices).all()
    for b, i, j in np.argwhere(np.broadcast_to(live, drawn.shape)):
        if p[b, i, j, : num_choices[i, j]].sum() > 0:
            assert p[b, i, j, drawn[b, i, j]] > 0


def plain_uniform(key: int, counter: int) -> float:
    """Draw number `counter` of splitmix64 seeded with `key`, on [0, 1)."""
    mask = 2**64 - 1
    z = (key + (counter + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) >> 11) / 2**53


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4))
def test_sampling_inverts_the_distribution_at_a_uniform_number_of_the_decisions_own(seed, n, h, c):
    rng = np.random.default_rng(seed)
    p = rng.random((2, n, h, c))
    num_choices = rng.integers(1, c + 1, (n, h)).astype(np.int16)
    key = rng.integers(0, 2**63, 2).astype(np.uint64)
    drawn = independent_sample(p, num_choices, np.ones((n, h), bool), key)
    for b, i, j in np.ndindex(drawn.shape):
        cumulative = list(accumulate(p[b, i, j, : num_choices[i, j]].tolist()))
        threshold = plain_uniform(int(key[b]), i * h + j) * cumulative[-1]
        assert drawn[b, i, j] == next(k for k, below in enumerate(cumulative) if threshold < below)


def test_sampling_frequencies_are_the_renormalised_probabilities():
    p = np.tile(np.array([0.1, 0.3, 0.6], np.float32), (30_000, 1, 2, 1))
    num_choices = np.array([[3, 2]], np.int16)
    drawn = independent_sample(p, num_choices, np.ones((1, 2), bool), keys(30_000))
    three, two = (np.bincount(drawn[:, 0, h], minlength=3) / 30_000 for h in range(2))
    assert np.allclose(three, [0.1, 0.3, 0.6], atol=0.01)
    assert np.allclose(two, [0.25, 0.75, 0], atol=0.01)


def test_a_row_without_mass_on_allowed_choices_is_drawn_uniformly():
    p = np.tile(np.array([0.0, 0.0, 1.0]), (10_000, 1, 1, 1))
    drawn = independent_sample(p, np.array([[2]], np.int16), np.ones((1, 1), bool), keys(10_000))
    assert np.allclose(np.bincount(drawn.ravel(), minlength=3) / 10_000, [0.5, 0.5, 0], atol=0.02)


def test_equal_keys_draw_equal_samples_and_other_keys_others(problem: NnpiProblem):
    p = np.full((3, *problem.size_bytes.shape, 3), 1 / 3)
    drawn = problem.sample(p, np.array([5, 5, 6], np.uint64))
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
def test_sampling_refuses_numbers_that_are_not_probabilities(bad: float):
    p = np.full((1, 1, 1, 2), 0.5)
    p[0, 0, 0, 1] = bad
    arguments = (np.array([[2]], np.int16), np.ones((1, 1), bool), keys(1))
    with pytest.raises(ValueError, match="probabilities"):
        independent_sample(p, *arguments)
    dead = independent_sample(p, arguments[0], ~arguments[1], arguments[2])
    assert dead.tolist() == [[[-1]]]


def test_check_names_shape_dtype_and_range(problem: NnpiProblem):
    good = problem.initial[None]
    check_mapping(problem, good, keys(1))
    with pytest.raises(
        ValueError, match=r"mapping: expected int16 of shape \(B, \d+, 2\), received int16 of"
    ):
        check_mapping(problem, good[:, :-1], keys(1))
    with pytest.raises(ValueError, match="received int64"):
        check_mapping(problem, good.astype(np.int64), keys(1))
    with pytest.raises(ValueError, match=r"key: expected uint64 of shape \(1,\)"):
        check_mapping(problem, good, keys(2))
    with pytest.raises(ValueError, match="key"):
        check_mapping(problem, good, np.zeros(1, np.int64))
    node = int(np.flatnonzero(problem.live[:, 0])[0])
    for choice in (3, -1):
        wrong = good.copy()
        wrong[0, node, 0] = choice
        with pytest.raises(
            ValueError, match=rf"mapping\[0, {node}, 0\] \(weight of .*0\.\.2.*received {choice}"
        ):
            check_mapping(problem, wrong, keys(1))


def test_observation_of_a_mapping_shows_each_choice_as_its_rank_in_speed(problem: NnpiProblem):
    shown = observe(problem, problem.baseline.mapping)
    start = problem.observation
    assert start is not None
    assert np.array_equal(shown.x[:, :-2], start.x[:, :-2])
    assert np.array_equal(shown.x[:, -2:], np.maximum(problem.baseline.mapping, 0) / 2)
    assert np.array_equal(shown.edge_index, start.edge_index)
    assert shown.schema == start.schema
    assert np.array_equal(observe(problem, problem.initial).x, start.x)
