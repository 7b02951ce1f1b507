"""The kernels say what the judge says, and the bound over all tiles is one."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from contest_instances import made
from mlsys2026.cost import _any_order, best_grain, choices, latency, least_latency
from mlsys2026.grouping import Book, Group, snake
from mlsys2026.instance import Instance
from mlsys2026.judge import _Run
from mlsys2026.schedule import Step


def groups(book: Book, rng: np.random.Generator, count: int) -> list[Group]:
    """Random subgraphs."""
    found = []
    for _ in range(count):
        kept = [fixed or rng.random() < 0.5 for fixed in book.fixed]
        sink = int(rng.choice([op for op, each in enumerate(kept) if each]))
        found.append(book.group(sink, book.inside(sink, kept)))
    return found


def judged(instance: Instance, group: Group, grain, tiles, tensor: int, retain: bool) -> tuple[float, int]:
    """Latency and peak by the judge."""
    out = instance.outputs[group.sink]
    step = Step(group.plan.ops, grain, (out,) if retain else (), tiles)
    took, peak = _Run(instance, step, frozenset([tensor] if tensor >= 0 else [])).replayed()
    return float(took), peak


@pytest.mark.parametrize("seed", range(12))
def test_the_kernel_says_what_the_judge_says(seed):
    rng = np.random.default_rng(seed)
    instance = replace(made(seed, ops=8), capacity=(4000, 9000, 30000)[seed % 3])
    book = Book(instance)
    finite = 0
    for group in groups(book, rng, 6):
        plan = group.plan
        for _ in range(6):
            grain = tuple(int(each) for each in rng.choice([7, 16, 24, 40, 50, 64, 100], 3))
            order, retain = int(rng.integers(8)), bool(rng.random() < 0.3)
            tensor = int(rng.choice([-1, *plan.external]))
            took = latency(plan.made, np.array(grain), order, tensor, retain)
            tiles = snake(plan.width, plan.height, grain, order)
            exact, peak = judged(instance, group, grain, tiles, tensor, retain)
            assert math.isfinite(took) == (peak <= instance.capacity)
            if math.isfinite(took):
                finite += 1
                assert took == pytest.approx(exact, rel=1e-12)
    assert finite > 0


@pytest.mark.parametrize("seed", range(4))
def test_the_best_tiles_are_among_those_that_are_tried_and_take_what_is_said(seed):
    instance = made(seed)
    book = Book(instance)
    for group in groups(book, np.random.default_rng(seed), 3):
        plan = group.plan
        wide, high = choices(plan.width, 16, False), choices(plan.height, 16, False)
        best = best_grain(plan.made, wide, high, -1, False, 0.0)
        if not math.isfinite(best[0]):
            continue
        grain = best[1:4].astype(np.int64)
        assert latency(plan.made, grain, int(best[4]), -1, False) == best[0] >= group.floor * (1 - 1e-12)
        for w, h, k in itertools.product(wide[::5], high[::5], (1, 16, 64)):
            for order in range(2):
                took = latency(plan.made, np.array([w, h, k]), order, -1, False)
                if k == (plan.made.depths[-1] if len(plan.made.depths) else 1):
                    assert took >= best[0] * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_no_tiles_and_no_order_are_below_the_bound_over_all(seed):
    rng = np.random.default_rng(seed)
    instance = made(seed, ops=4, sides=(16, 32, 48), native=16)
    book = Book(instance)
    for group in groups(book, rng, 2):
        plan = group.plan
        retain = bool(rng.random() < 0.3)
        at = np.array([1e18, plan.width, plan.height])
        while at[1] >= 1:
            least_latency(plan.made, -1, retain, at, 500)
        least = at[0]
        assert least >= 0
        for _ in range(60):
            grain = tuple(int(each) for each in rng.integers(6, 50, 3))
            across, down = -(-plan.width // grain[0]), -(-plan.height // grain[1])
            tiles = tuple(rng.permutation(across * down).tolist())
            took, peak = judged(instance, group, grain, tiles, -1, retain)
            assert peak > instance.capacity or took >= least * (1 - 1e-12)
        found = book.cost(group, -1, retain)
        assert found >= least * (1 - 1e-12)
        if math.isfinite(found):
            assert found <= least * 1.3  # what the solver tries comes near it


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_over_all_tiles_and_depths_is_the_least_of_them_one_by_one(seed):
    rng = np.random.default_rng(seed)
    instance = replace(made(seed, ops=5, sides=(16, 32), native=16), capacity=(700, 1100, 1700)[seed % 3])
    for group in groups(Book(instance), rng, 4):
        table = group.plan.made
        depths = range(1, 1 + int(max(table.depths, default=1)))
        sides = range(1, group.plan.width + 1), range(1, group.plan.height + 1)
        one_by_one = min(
            _any_order(table, instance.capacity, w, h, k, -1, False)
            for w, h, k in itertools.product(*sides, depths)
        )
        at = np.array([1e18, group.plan.width, group.plan.height])
        while at[1] >= 1:
            least_latency(table, -1, False, at, 500)
        assert at[0] == pytest.approx(min(1e18, one_by_one), rel=1e-12)
