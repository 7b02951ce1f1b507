"""Drawing mappings decision by decision, and the same draws by what every problem is asked."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.mappings import independent_sample, repair, sample, sample_uniformly
from hwsim.space import Space
from toys import ToyRagged


def keys(rows: int) -> np.ndarray:
    return np.arange(rows, dtype=np.uint64)


def space(num_choices: np.ndarray, live: np.ndarray | None = None) -> Space:
    nodes, heads = num_choices.shape
    size = None if live is None else live.astype(np.int64)
    return Space(
        [f"n{n}" for n in range(nodes)], [f"h{h}" for h in range(heads)], num_choices, size_bytes=size
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4))
def test_samples_are_allowed_choices_with_mass_and_minus_one_where_dead(seed: int, n: int, h: int, c: int):
    rng = np.random.default_rng(seed)
    p = rng.random((4, n, h, c)) * rng.integers(0, 2, (4, n, h, c))
    num_choices = rng.integers(1, c + 1, (n, h)).astype(np.int16)
    live = rng.random((n, h)) < 0.7
    drawn = independent_sample(space(num_choices, live), p, rng.integers(0, 2**63, 4).astype(np.uint64))
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


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4))
def test_sampling_inverts_the_distribution_at_a_uniform_number_of_the_decisions_own(seed, n, h, c):
    rng = np.random.default_rng(seed)
    p = rng.random((2, n, h, c))
    num_choices = rng.integers(1, c + 1, (n, h)).astype(np.int16)
    key = rng.integers(0, 2**63, 2).astype(np.uint64)
    drawn = independent_sample(space(num_choices), p, key)
    for b, i, j in np.ndindex(drawn.shape):
        cumulative = list(accumulate(p[b, i, j, : num_choices[i, j]].tolist()))
        threshold = plain_uniform(int(key[b]), i * h + j) * cumulative[-1]
        assert drawn[b, i, j] == next(k for k, below in enumerate(cumulative) if threshold < below)


def test_sampling_frequencies_are_the_renormalised_probabilities():
    p = np.tile(np.array([0.1, 0.3, 0.6], np.float32), (30_000, 1, 2, 1))
    num_choices = np.array([[3, 2]], np.int16)
    drawn = independent_sample(space(num_choices), p, keys(30_000))
    three, two = (np.bincount(drawn[:, 0, h], minlength=3) / 30_000 for h in range(2))
    assert np.allclose(three, [0.1, 0.3, 0.6], atol=0.01)
    assert np.allclose(two, [0.25, 0.75, 0], atol=0.01)


def test_a_row_without_mass_on_allowed_choices_is_drawn_uniformly():
    p = np.tile(np.array([0.0, 0.0, 1.0]), (10_000, 1, 1, 1))
    drawn = independent_sample(space(np.array([[2]], np.int16)), p, keys(10_000))
    assert np.allclose(np.bincount(drawn.ravel(), minlength=3) / 10_000, [0.5, 0.5, 0], atol=0.02)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
def test_sampling_refuses_numbers_that_are_not_probabilities(bad: float):
    p = np.full((1, 1, 1, 2), 0.5)
    p[0, 0, 0, 1] = bad
    two = np.array([[2]], np.int16)
    with pytest.raises(ValueError, match="probabilities"):
        independent_sample(space(two), p, keys(1))
    dead = independent_sample(space(two, np.zeros((1, 1), bool)), p, keys(1))
    assert dead.tolist() == [[[-1]]]


def test_equal_keys_draw_equal_samples_and_other_keys_others():
    problem = ToyRagged()
    drawn = sample(problem, np.full((3, *problem.space.shape, 4), 1 / 4), np.array([5, 5, 6], np.uint64))
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(1, 40))
def test_uniform_draws_are_those_of_equal_probabilities(seed: int, n: int, h: int, c: int):
    rng = np.random.default_rng(seed)
    given_space = space(rng.integers(1, c + 1, (n, h)).astype(np.int16), rng.random((n, h)) < 0.7)
    key = rng.integers(0, 2**63, 4).astype(np.uint64)
    drawn = independent_sample(given_space, None, key)
    assert np.array_equal(drawn, independent_sample(given_space, np.ones((4, n, h, c), np.float32), key))


def test_a_plain_problem_is_drawn_evenly_and_repaired_to_its_canonical_form():
    problem = ToyRagged()
    drawn = sample_uniformly(problem, keys(2000))
    n, h = np.argwhere((problem.space.num_choices == 4) & problem.space.live)[0]
    assert np.allclose(np.bincount(drawn[:, n, h]) / 2000, 0.25, atol=0.05)
    wild = np.where(problem.space.live, drawn, np.int16(9))
    assert np.array_equal(repair(problem, wild, keys(2000)), drawn)
    with pytest.raises(ValueError, match="key: expected uint64"):
        sample_uniformly(problem, np.zeros((2, 2), np.uint64))
    with pytest.raises(ValueError, match=r"mapping\[0, .*expected a choice in"):
        repair(problem, np.full((1, 7, 2), 9, np.int16), keys(1))
