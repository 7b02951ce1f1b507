"""Groups of mappings and their distances: chosen as a plain loop would, measured as the definitions say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.embedding import choose, hamming, measure, silhouette

SEEDS = st.integers(0, 999)


def plain_silhouette(distance: np.ndarray, group: np.ndarray) -> float:
    """Rousseeuw's definition, a mapping at a time."""
    values = []
    for i, own in enumerate(group):
        like = [distance[i, j] for j, its in enumerate(group) if its == own and j != i]
        other = [distance[i, j] for j, its in enumerate(group) if its != own]
        if not like:
            values.append(0.0)
            continue
        a, b = sum(like) / len(like), sum(other) / len(other)
        values.append((b - a) / max(a, b) if max(a, b) > 0 else 0.0)
    return sum(values) / len(values)


@given(SEEDS, st.integers(4, 12), st.integers(1, 4))
def test_numbers_equal_a_loop_over_pairs(seed, mappings, decisions):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, (mappings + 1, decisions))
    best = np.arange(mappings) % 2 == 0
    distance = hamming(rows)
    for i, j in itertools.product(range(mappings + 1), repeat=2):
        assert distance[i, j] == sum(a != b for a, b in zip(rows[i], rows[j], strict=True)) / decisions
    run = rng.integers(0, 3, mappings)
    found = measure(distance, best, run)
    assert found.separation == pytest.approx(plain_silhouette(distance[:-1, :-1], best))
    for name, members in (("best", np.flatnonzero(best)), ("competitive", np.flatnonzero(~best))):
        pairs = [distance[i, j] for i, j in itertools.combinations(members, 2)]
        assert found.spread[name] == pytest.approx(sum(pairs) / len(pairs))
        alike = [distance[i, j] for i, j in itertools.combinations(members, 2) if run[i] == run[j]]
        mean = sum(alike) / len(alike) if alike else np.nan
        np.testing.assert_allclose(found.spread_in_a_run[name], mean)
        apart = [distance[i, j] for i, j in itertools.combinations(members, 2) if run[i] != run[j]]
        mean = sum(apart) / len(apart) if apart else np.nan
        np.testing.assert_allclose(found.spread_between_runs[name], mean)
        assert found.to_compiler[name] == pytest.approx(distance[-1, members].mean())
        assert found.nearest_to_compiler[name] == min(distance[-1, members])


def test_two_tight_groups_far_apart_have_silhouette_one_and_a_mapping_alone_counts_nothing():
    group = np.array([True, True, False, False])
    apart = np.where(group[:, None] == group, 0.0, 1.0)
    assert silhouette(apart, group) == 1.0
    assert silhouette(apart[:3, :3], group[:3]) == pytest.approx(2 / 3)


def test_the_compiler_is_nearer_to_the_group_of_the_smaller_mean_distance():
    rows = np.array([[0, 0, 1], [0, 1, 0], [1, 1, 1], [1, 1, 0], [0, 0, 0]])
    best = np.array([False, False, True, True])
    assert measure(hamming(rows), best, np.zeros(4)).compiler_is_nearer_to == "competitive"
    assert measure(hamming(rows), ~best, np.zeros(4)).compiler_is_nearer_to == "best"


def test_a_group_of_one_is_refused():
    with pytest.raises(ValueError, match="two mappings in each group"):
        measure(np.zeros((4, 4)), np.array([True, False, False]), np.zeros(3))


@given(SEEDS, st.integers(1, 3), st.integers(1, 30), st.integers(1, 4))
def test_groups_are_distinct_and_hold_what_they_say(seed, runs, evaluations, most):
    rng = np.random.default_rng(seed)
    searched = [
        (rng.integers(0, 2, (evaluations, 4)), rng.choice([0.0, 0.9, 0.98, 1.0, 1.02, 1.1], evaluations))
        for _ in range(runs)
    ]
    compiler = rng.integers(0, 2, 4)
    found = choose(searched, compiler, within=0.02, most=most)
    rows = [tuple(searched[r][0][i]) for r, i in zip(found.run, found.index, strict=True)]
    assert len(set(rows)) == len(rows)
    assert tuple(compiler) not in rows
    taken = set(rows)
    for run, (mappings, speedup) in enumerate(searched):
        best = found.index[(found.run == run) & found.best]
        near = found.index[(found.run == run) & ~found.best]
        assert len(best) <= min(most, -(-evaluations // 10))
        assert (speedup[best] > 0).all()
        assert (np.abs(speedup[near] - 1) < 0.021).all()
        assert len(near) <= most
        assert (np.diff(near) > 0).all()
        if len(near) < most:
            left = mappings[(speedup >= 0.98) & (speedup <= 1.02)]
            assert all(tuple(row) in taken or tuple(row) == tuple(compiler) for row in left)


def test_the_best_are_the_fastest_and_the_competitive_the_first():
    rows = np.arange(40)[:, None]
    speedup = np.concatenate([np.zeros(10), np.full(20, 1.0), np.linspace(1.1, 1.2, 10)])
    found = choose([(rows, speedup)], np.array([12]), most=5)
    assert found.index[found.best].tolist() == [39, 38, 37, 36]
    assert found.index[~found.best].tolist() == [10, 11, 13, 14, 15]


def test_what_two_runs_found_counts_once_for_the_first():
    rows, speedup = np.arange(20)[:, None], np.full(20, 1.0)
    found = choose([(rows, speedup), (rows, speedup)], np.array([99]), most=30)
    assert len(found.run) == 20
    assert found.best.sum() == 4
    assert found.run[~found.best].tolist() == [0] * 16
