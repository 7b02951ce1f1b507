"""The training of the shipped rules, at a small size."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.placing_pairs import Case, Pair, chip_of, drawn, family_of, measured, sizes
from benchmarks.placing_train import BY_HAND, additions, best_alone, best_for, document
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.place_features import FEATURE_NAMES
from policies.ranker import by_hand
from workloads.load import load


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    cases = [Case("dcgan", [], 1), Case("vgg16", [0.5, -0.5, 0.2, 0.3, -0.4, 1.0], 2)]
    return [Pair(**found) for case in cases if (found := measured(case, 20_000)) is not None]


def test_a_pair_knows_what_a_search_reaches_and_how_far_rules_are_from_it(pairs):
    assert len(pairs) == 2
    for pair in pairs:
        assert pair.best <= pair.best_rule <= pair.base
        assert pair.headroom == pytest.approx(np.log(pair.base / pair.best))
        rules = np.stack([by_hand(FEATURE_NAMES, 2)] * 2)
        assert pair.regret(rules).shape == (2,)
        assert pair.regret(rules).min() > -0.05


def test_training_lowers_the_regret(pairs):
    start = by_hand(FEATURE_NAMES, 2).astype(np.float64)
    before = np.mean([pair.regret(start[None])[0] for pair in pairs])
    alone = best_alone(pairs, BY_HAND, rounds=30)
    assert np.mean([pair.regret(alone[None])[0] for pair in pairs]) < before
    own = best_for(pairs[1], start, 0, evaluations=100)
    assert pairs[1].regret(own[None])[0] <= pairs[1].regret(start[None])[0]


@given(st.integers(0, 999))
def test_each_rule_is_the_best_addition_to_those_before_it(seed):
    rng = np.random.default_rng(seed)
    regret, weight = rng.random((6, 7)) * 0.4, rng.random(6)
    chosen = additions(regret, weight, 4)
    assert chosen[0] == 0
    assert len(set(chosen)) == 4
    for count in range(1, 4):
        before = regret[:, chosen[:count]].min(axis=1)
        mean = [
            (np.minimum(before, regret[:, k]) * weight).mean() for k in range(7) if k not in chosen[:count]
        ]
        now = (np.minimum(before, regret[:, chosen[count]]) * weight).mean()
        assert now == pytest.approx(min(mean))
    best_two = min(
        (np.minimum(regret[:, 0], regret[:, k]) * weight).mean() for _, k in combinations(range(2), 2)
    )
    assert best_two >= (regret[:, chosen].min(axis=1) * weight).mean() - 1e-12


def test_rules_that_are_kept_come_first_and_the_others_add_to_them():
    regret = np.array([[0.4, 0.3, 0.1, 0.25], [0.1, 0.4, 0.4, 0.0]])
    assert additions(regret, np.ones(2), 3, begin=2) == [0, 1, 2]
    assert additions(regret, np.ones(2), 2, begin=1) == [0, 2]


def test_networks_are_drawn_with_chips_around_nnpi_and_each_has_a_family():
    cases = list(drawn(0, 40))
    assert len(cases) == 40
    assert {len(case.factors) for case in cases} == {0, 6}
    assert all(family_of(case.workload) for case in cases)
    assert chip_of([]) == load_chip("nnpi")
    twice = chip_of([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    assert twice.memories[1].capacity_bytes == 2 * load_chip("nnpi").memories[1].capacity_bytes
    rng = np.random.default_rng(0)
    assert all(len(load(sizes(rng)).ops) > 5 for _ in range(3))


def test_rules_are_written_as_the_package_reads_them():
    text = document(np.stack([by_hand(FEATURE_NAMES, 2)] * 3))
    found = json.loads(text)
    assert found["features"] == list(FEATURE_NAMES)
    assert [len(row) for row in found["rules"]] == [4 * len(FEATURE_NAMES) + 1] * 3
