"""Plans for small instances against all plans there are; rules, bounds and both ways of searching, without TorchRec."""

from __future__ import annotations

import logging
import math
from itertools import product

import numpy as np
import pytest

from egrl_torchrec import search, solve
from egrl_torchrec.commands import _unheard
from egrl_torchrec.instance import Instance, Option, Piece, Plan, groups
from egrl_torchrec.program import best_plan, least_average, part
from egrl_torchrec.search import Search

GIB = 2**30


def piece(costs: list[float], hbm: float) -> Piece:
    memory = np.zeros((len(costs), 3), np.int64)
    memory[:, 0] = int(hbm * GIB)
    return Piece(np.array(costs), memory)


def drawn(seed: int, tables: int = 4, ranks: int = 4, local: int = 2, tower: bool = True) -> Instance:
    """Tables with one shard, shards by columns, on one host, on all ranks; the first two are bound to one host."""
    draw = np.random.default_rng(seed)
    found = []
    for table in range(tables):
        cost, size = draw.uniform(1, 10), draw.uniform(0.2, 1)
        rows = Option(
            (piece((cost / local * draw.uniform(1, 1.5, local)).tolist(), size / local),), together=True
        )
        columns = Option((piece([cost * 0.6], size / 2), piece([cost * 0.6], size / 2)), together=True)
        if tower and table < 2:
            found.append([rows, columns])
            continue
        apart = Option((piece([cost * 0.55], size / 2), piece([cost * 0.55], size / 2)), apart=True)
        everywhere = Option((piece([cost * 0.4] * ranks, size / ranks),))
        hosts = Option(
            (piece([cost * 0.3] * local, size / 4), piece([cost * 0.3] * local, size / 4)), apart=True
        )
        slow = Option((piece([cost * 1.5], size * 0.2),))
        found.append([Option((piece([cost], size),)), slow, apart, everywhere, rows, columns, hosts])
    capacity = np.zeros((ranks, 3), np.int64)
    capacity[:, 0] = int(draw.uniform(0.9, 1.5) * GIB)
    names = ["tower" if tower and table < 2 else f"t{table}" for table in range(tables)]
    return Instance(found, groups(names), capacity, local)


def every_plan(instance: Instance):
    ways = []
    for options in instance.tables:
        own = []
        for number, option in enumerate(options):
            own += [
                (number, places) for places in product(*(range(instance.places(p)) for p in option.pieces))
            ]
        ways.append(own)
    return product(*ways)


def best_of_all(instance: Instance) -> float:
    return min(
        (instance.load(plan)[0].max() for plan in every_plan(instance) if not instance.broken(plan)),
        default=math.inf,
    )


def rated(instance: Instance, plan: Plan | None) -> float:
    if plan is None:
        return math.inf
    assert instance.broken(plan) == ""
    return float(instance.load(plan)[0].max())


@pytest.mark.parametrize("seed", range(4))
def test_the_plan_is_the_best_of_all_and_the_bound_is_its_rating(seed):
    instance = drawn(seed, tables=3)
    best = best_of_all(instance)
    found = solve.solve(instance, 20.0)
    assert rated(instance, found.plan) == pytest.approx(found.rating) == pytest.approx(best, rel=2e-4)
    assert found.bound <= best * (1 + 1e-9)
    assert found.gap < 3e-4


@pytest.mark.parametrize("seed", range(4))
def test_a_search_without_the_whole_program_comes_near_and_stays_valid(seed, monkeypatch):
    instance = drawn(seed, tables=3)
    best = best_of_all(instance)
    monkeypatch.setattr(solve, "WHOLE", 0)
    found = solve.solve(instance, 5.0)
    assert best * (1 - 1e-9) <= rated(instance, found.plan) <= best * 1.05
    assert 0 < found.bound <= best * (1 + 1e-9)


def test_an_option_is_dropped_only_if_another_is_nowhere_worse():
    one, dear = Option((piece([1.0], 1),)), Option((piece([2.0], 1),))
    small, bound_to_host = Option((piece([2.0], 0.5),)), Option((piece([1.0], 1),), together=True)
    instance = Instance([[dear, one, small, bound_to_host]], [0], np.full((2, 3), 4 * GIB), 1)
    assert instance.without_dominated()[1] == [[1, 2]]
    for seed in range(8):
        whole = drawn(seed, tables=3)
        assert best_of_all(whole.without_dominated()[0]) == pytest.approx(best_of_all(whole))


def test_each_rule_that_a_plan_breaks_is_named():
    instance = drawn(1)
    rows, columns = 0, 1
    plan = [(rows, (0,)), (rows, (0,)), (0, (2,)), (0, (3,))]
    assert instance.broken(plan) == ""
    assert "the group of table 1" in instance.broken([plan[0], (rows, (1,)), *plan[2:]])
    assert "the group of table 1" in instance.broken([plan[0], (columns, (0, 2)), *plan[2:]])
    assert "table 2 has two pieces in one place" in instance.broken([*plan[:2], (2, (1, 1)), plan[3]])
    assert "table 2 lies on none of the ranks" in instance.broken([*plan[:2], (0, (4,)), plan[3]])
    assert "table 3 has 2 places for 1 pieces" in instance.broken([*plan[:3], (0, (1, 2))])
    tight = Instance(instance.tables, instance.group, instance.capacity // 8, instance.local)
    assert "bytes of hbm" in tight.broken(plan)
    exact = Instance(instance.tables, instance.group, instance.load(plan)[1], instance.local)
    assert exact.broken(plan) == ""
    exact.capacity[3, 0] -= 1
    assert exact.broken(plan).startswith("rank 3 has ")


def test_tables_that_do_not_fit_are_proved_not_to():
    instance = drawn(2)
    found = solve.solve(Instance(instance.tables, instance.group, instance.capacity // 50, 2), 5.0)
    assert found.plan is None
    assert math.isinf(found.bound)


def test_tables_that_fit_only_in_pieces_are_laid():
    """Each rank has room for exactly one half of each kind."""
    halves = Option((piece([1.0], 0.5), piece([1.0], 0.5)))
    whole = Option((piece([1.5], 1.0),))
    third = Option((piece([1.0], 0.25),))
    capacity = np.zeros((4, 3), np.int64)
    capacity[:, 0] = 3 * GIB // 4
    instance = Instance(
        [[whole, halves], [whole, halves], [third], [third], [third], [third]], range(6), capacity, 4
    )
    found = solve.solve(instance, 10.0)
    assert rated(instance, found.plan) == 2.0
    assert found.bound == pytest.approx(2.0, rel=1e-3)


def test_tables_that_do_not_fit_as_wished_are_laid_otherwise_and_the_others_as_wished():
    whole, halves = Option((piece([1.0], 1.0),)), Option((piece([3.0], 0.5), piece([3.0], 0.5)))
    small, everywhere = Option((piece([1.0], 0.25),)), Option((piece([0.6, 0.6], 0.1),))
    capacity = np.zeros((2, 3), np.int64)
    capacity[:, 0] = int(1.8 * GIB)
    tables = [[whole, halves]] * 3 + [[small, everywhere]]
    state = Search(Instance(tables, range(4), capacity, 2), 2.0, [0] * 4, 0)
    assert state.plan is not None
    assert sorted(number for number, _ in state.plan[:3]) == [0, 0, 1]
    assert state.plan[3][0] == 0


def test_some_ranks_are_laid_anew_with_what_else_lies_on_them():
    instance = drawn(3, tables=6, tower=False)
    state = Search(instance, 5.0, [0] * 6, 0)
    assert state.plan is not None
    cost, memory = instance.load(state.plan)
    tables = [t for t, (_, places) in enumerate(state.plan) if places[0] in (1, 3)]
    for table in tables:
        number, places = state.plan[table]
        rest = instance.tables[table][number].pieces[0]
        cost[places[0]] -= rest.cost[0]
        memory[places[0]] -= rest.memory[0]
    small, numbers = part(instance, tables, [1, 3], instance.capacity - memory, cost)
    plan, bound = best_plan(small, 5.0, 10.0)
    assert plan is not None
    whole = list(state.plan)
    for table, own, (number, places) in zip(tables, numbers, plan, strict=False):
        whole[table] = (own[number], tuple((1, 3)[place] for place in places))
    assert instance.broken(whole) == ""
    assert instance.load(whole)[0][[1, 3]].max() == pytest.approx(small.load(plan)[0].max())
    assert bound <= instance.load(state.plan)[0][[1, 3]].max() + 1e-9


def test_the_search_takes_out_and_lays_without_losing_a_byte(monkeypatch):
    monkeypatch.setattr(search, "FRESH", 3)
    tables = drawn(4, tables=12)
    instance = Instance(tables.tables, tables.group, tables.capacity * 3, tables.local)
    state = Search(instance, least_average(instance, 5.0)[0], (), 1)
    first = state.rating
    ticks = iter(range(10**6))
    state.work(300.0, 0.0, lambda: float(next(ticks)))
    assert state.rating < first
    assert rated(instance, state.plan) == pytest.approx(state.rating)
    now = [state._placed[table] for table in range(12)]
    np.testing.assert_allclose(instance.load(now)[0], state._ranks.cost)
    np.testing.assert_array_equal(instance.capacity - instance.load(now)[1], state._ranks.left)


def test_the_average_is_below_every_plan_and_counts_the_memory_of_all():
    for seed in range(6):
        instance = drawn(seed, tables=3)
        bound, options = least_average(instance, 5.0)
        assert len(options) == 3
        assert 0 < bound <= best_of_all(instance) * (1 + 1e-9)
    cheap, small = Option((piece([1.0], 1.0),)), Option((piece([4.0], 0.1),))
    capacity = np.full((2, 3), int(0.55 * GIB))
    found, options = least_average(Instance([[cheap, small]], [0], capacity, 2), 5.0)
    assert options == [0]  # if memory were shared
    assert found == 1.0
    assert solve.solve(Instance([[cheap, small]], [0], capacity, 2), 5.0).rating == 4.0


def test_a_log_that_a_library_sets_up_does_not_repeat_our_lines():
    before = list(logging.root.handlers)
    with _unheard():
        logging.root.addHandler(logging.NullHandler())
    assert logging.root.handlers == before
