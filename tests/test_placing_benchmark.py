"""The training of the shipped rules and the measure of their worth, at a small size."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import placing
from benchmarks.placing_pairs import TESTED, Case, Pair, chip_of, drawn, family_of, measured, sizes
from benchmarks.placing_train import BY_HAND, additions, best_alone, best_for, document
from gate import gate
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
    assert len({family_of(name) for name in TESTED}) == 10
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


@pytest.mark.slow
@pytest.mark.parametrize("arm", gate(placing.ARMS, ("no-temperature", "sac-untrained", "annealing")))
def test_every_arm_searches_for_as_long_as_it_is_told_to_and_never_gets_worse(arm):
    rules = [by_hand(FEATURE_NAMES, 2)] * 2
    found = placing.run("dcgan", arm, 0, 50, placing.Begin("folds", rules, None))
    assert list(found["best"]) == ["25", "50"]
    assert 1 <= found["best"]["25"] <= found["best"]["50"] or arm == "annealing"


@pytest.mark.exhaustive
def test_what_no_setting_takes_out_is_taken_out_and_put_back():
    begin = placing.Begin("hand")
    before = placing.run("vgg16", "egrl", 0, 100, begin)["best"]
    for arm in placing.ABLATED:
        assert placing.run("vgg16", arm, 0, 100, begin)["best"] != before
        assert placing.run("vgg16", "egrl", 0, 100, begin)["best"] == before


def test_the_table_has_intervals_over_families(capsys):
    names = ("bert", "resnet101", "vgg16", "unet")
    lines = [
        {
            "workload": name,
            "arm": arm,
            "seed": seed,
            "begin": "hand",
            "best": {"25": gain, "100": gain + 0.01},
        }
        | {"seconds": 10.0}
        for name in names
        for seed in (0, 1)
        for arm, gain in (("egrl", 1.05), ("ea", 1.0))
    ]
    placing.table(lines)
    said = capsys.readouterr().out
    assert "| egrl | 4, 2 | 1.0500 | | 1.0600 | | 10.00 |" in said
    less = 100 * np.log(1.0 / 1.05)
    assert f"| ea | 4, 2 | 1.0000 | {less:+.2f} [{less:+.2f}, {less:+.2f}] | 1.0100 |" in said


def test_the_page_of_parts_has_the_table_of_its_data(capsys):
    results = Path(__file__).resolve().parents[1] / "docs" / "results"
    lines = [json.loads(line) for line in (results / "data" / "parts.jsonl").read_text().splitlines()]
    placing.table(lines)
    page = (results / "parts.md").read_text(encoding="utf-8")
    rows = [row for row in capsys.readouterr().out.splitlines() if row.startswith("| ")]
    assert len(rows) > 15
    assert all(row in page for row in rows)
