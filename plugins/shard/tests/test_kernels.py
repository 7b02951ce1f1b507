"""Kernels of sharding against their twins, and small instances against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl_shard.baseline import choose, greedy, is_valid
from egrl_shard.cost import cost_of, totals, usage_of
from egrl_shard.judge import exact_cost, judge
from egrl_shard.load import parse
from egrl_shard.moves import FOLLOWERS, SWEEPS, TRIES, moved
from egrl_shard.repair import best_answer, repaired
from egrl_shard.sharding import FORBIDDEN_FROM, Sharding
from egrl_shard.tables import binding_points, build_tables
from hwsim import keys
from hwsim.nnpi.placer import add, most
from make_sharding import make
from shard_twin import Twin

SEEDS = st.integers(0, 10_000)


def instance(seed: int, nodes: int = 7, **given: float) -> Sharding:
    return parse(make(seed, nodes, **given), "made", "made")


def drawn(sharding: Sharding, rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((rows, len(sharding))) * sharding.strategies).astype(np.int16)


@given(SEEDS)
def test_totals_are_the_twins_and_the_judges(seed):
    sharding = instance(seed)
    tables, twin, choices = build_tables(sharding), Twin(sharding), drawn(sharding, 6)
    for b, (cost, forbidden, peak) in enumerate(
        zip(*map(np.ndarray.tolist, totals(tables, choices)), strict=True)
    ):
        row = choices[b].tolist()
        own_cost, own_forbidden, own_peak = twin.totals(row)
        assert (cost, forbidden) == (own_cost, own_forbidden)
        assert max(peak, sharding.limit) == max(own_peak, sharding.limit)
        assert exact_cost(sharding, row) == sum(twin.paid(row))
        assert (judge(sharding, row) == []) == twin.valid(row)
        for node in range(len(row)):
            for strategy in range(int(sharding.strategies[node])):
                assert cost_of(tables, choices[b], node, strategy) == twin.near(row, node, strategy)


@given(SEEDS)
def test_the_tree_of_usage_knows_the_most_of_every_range(seed):
    sharding = instance(seed, nodes=9, slack=1.0)
    tables, rng = build_tables(sharding), np.random.default_rng(seed)
    lower, upper, times = binding_points(sharding)
    choice = drawn(sharding, 1)[0]
    tree, twin = usage_of(tables, choice), Twin(sharding)
    held = np.array([twin.held(choice.tolist(), time) for time in times.tolist()], np.int64)
    for _ in range(20):
        a, b = sorted(rng.integers(0, len(times) + 1, 2).tolist())
        assert most(tree, a, b) == held[a:b].max(initial=0)
        amount = int(rng.integers(-held[a:b].min(initial=0), 50))  # what is used is never less than 0
        add(tree, a, b, amount)
        held[a:b] += amount
    for n in range(len(sharding)):
        assert most(tree, lower[n], upper[n]) == held[lower[n] : upper[n]].max(initial=0)


@given(SEEDS, st.sampled_from([0.0, 0.5, 20.0]))
def test_greedy_is_its_twin(seed, price):
    sharding = instance(seed, nodes=9, forbidden=0.3)
    tables = build_tables(sharding)
    length = (tables.upper - tables.lower).tolist()
    assert greedy(tables, price).tolist() == Twin(sharding).greedy(price, length)


@given(SEEDS, st.booleans())
def test_repair_is_its_twin_and_valid_where_the_baseline_is(seed, gives_way):
    sharding = instance(seed, nodes=9, forbidden=0.25)
    tables, twin, choices = build_tables(sharding), Twin(sharding), drawn(sharding, 4)
    points = binding_points(sharding)[2].tolist()
    baseline = choose(tables)
    valid = bool(is_valid(tables, baseline[None])[0])
    found = repaired(tables, choices, baseline, gives_way and valid)
    for row, before in zip(found.tolist(), choices.tolist(), strict=True):
        assert row == twin.repaired(before, baseline.tolist(), gives_way and valid, points)
        assert not (gives_way and valid) or judge(sharding, row) == []
    np.testing.assert_array_equal(repaired(tables, found, baseline, gives_way and valid), found)


@given(SEEDS)
def test_a_best_answer_is_the_twins_and_fits(seed):
    sharding = instance(seed, nodes=8, forbidden=0.3)
    tables, twin, choice = build_tables(sharding), Twin(sharding), drawn(sharding, 1)[0]
    tree, row = usage_of(tables, choice), choice.tolist()
    for n in range(len(row)):
        answer, fewer = best_answer(tables, choice, tree, n)
        assert answer == twin.answer(row, n)
        assert fewer == (twin.near(row, n, answer)[1] < twin.near(row, n, row[n])[1])


@given(SEEDS, st.integers(0, 2**64 - 1))
def test_a_move_changes_one_node_and_others_that_answer(seed, number):
    sharding = instance(seed, nodes=12)
    tables, choice, key = build_tables(sharding), drawn(sharding, 1)[0], np.uint64(number)
    after = moved(tables, choice, key)
    np.testing.assert_array_equal(after, moved(tables, choice, key))
    assert ((after >= 0) & (after < sharding.strategies)).all()
    assert (after != choice).sum() <= FOLLOWERS
    if keys.uniform(key, np.uint64(2 * TRIES + 1)) < SWEEPS:
        cost, forbidden, peak = (pair.tolist() for pair in totals(tables, np.stack([choice, after])))
        assert (forbidden[1], cost[1]) <= (forbidden[0], cost[0])
        assert peak[1] <= max(peak[0], tables.limit)


def test_the_baseline_is_valid_and_no_cheaper_than_the_best_of_all_choices():
    valid = 0
    for seed in range(40):
        sharding = instance(seed, nodes=6)
        every = [c for c in itertools.product(*map(range, sharding.strategies)) if not judge(sharding, c)]
        assert every, "the script hides a valid choice in each"
        chosen = choose(build_tables(sharding)).tolist()
        if judge(sharding, chosen) == []:
            valid += 1
            assert exact_cost(sharding, chosen) >= min(exact_cost(sharding, c) for c in every)
    assert valid >= 36


def test_a_cost_that_fills_what_sums_may_have_is_counted_exactly():
    document = make(3, nodes=5, forbidden=0.0)
    nodes = document["problem"]["nodes"]
    nodes["costs"] = [[FORBIDDEN_FROM - 1] * len(row) for row in nodes["costs"]]
    sharding = parse(document, "made", "made")
    choice = np.zeros((1, 5), np.int16)
    cost, forbidden, _ = totals(build_tables(sharding), choice)
    assert forbidden[0] == 0
    assert int(cost[0]) == exact_cost(sharding, [0] * 5) > 4 * 10**17


def test_costs_that_forbid_are_counted_and_not_added():
    sharding = instance(1, nodes=30, forbidden=0.9)
    tables, choices = build_tables(sharding), drawn(sharding, 20)
    cost, forbidden, _ = totals(tables, choices)
    assert (forbidden > 9).any()
    assert (cost < 10**5).all()


@pytest.mark.parametrize("slack", [1.0, 50.0])
def test_only_points_of_time_at_which_the_limit_can_bind_are_kept(slack):
    sharding = instance(4, nodes=20, slack=slack)
    tables = build_tables(sharding)
    assert (tables.points == 0) == (slack == 50.0)
    assert tables.points < len(set(sharding.start.tolist()))
