"""The search against all ways to keep tensors, retention against all pairs, and the proofs."""

from __future__ import annotations

import gc
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from contest_instances import GIVEN, cost_of, made
from gate import gate
from mlsys2026.bound import Covers, shared_ops, simple_bound
from mlsys2026.grouping import Book
from mlsys2026.helper import Helper
from mlsys2026.instance import Instance, load_instance
from mlsys2026.judge import replay
from mlsys2026.problem import Mlsys2026
from mlsys2026.schedule import Step
from mlsys2026.search import Search


def all_kept(book: Book):
    """Every way to keep tensors."""
    free = [op for op, fixed in enumerate(book.fixed) if not fixed]
    for bits in itertools.product((False, True), repeat=len(free)):
        kept = list(book.fixed)
        for op, bit in zip(free, bits, strict=True):
            kept[op] = bit
        yield kept


def least_with_retention(book: Book, kept) -> float:
    """The least cost over all choices of what stays, one by one."""
    groups = book.groups(kept)
    instance = book.instance
    ways = []
    for op, group in groups.items():
        children = [-1]
        for tensor in group.plan.external:
            child = instance.producer[tensor]
            readers = [each for each in groups.values() if tensor in each.plan.external]
            if child >= 0 and len(readers) == 1 and not book.fixed[child]:
                children.append(child)
        ways.append([(op, child) for child in children])
    least = math.inf
    for chosen in itertools.product(*ways):
        stays = {child for _, child in chosen if child >= 0}
        total = math.fsum(
            book.cost(groups[op], -1 if child < 0 else instance.outputs[child], op in stays)
            for op, child in chosen
        )
        least = min(least, total)
    return least


@pytest.mark.parametrize("seed", range(8))
def test_what_stays_in_fast_memory_is_chosen_best(seed):
    instance = made(seed, ops=6)
    book = Book(replace(instance, capacity=30000, bandwidth=2) if seed % 2 else instance)
    rng = np.random.default_rng(seed)
    ways = list(all_kept(book))
    for at in rng.choice(len(ways), min(6, len(ways)), replace=False).tolist():
        found = book.stays(book.groups(ways[at]))[0]
        assert found == pytest.approx(least_with_retention(book, ways[at]), rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_a_schedule_takes_what_the_search_says_and_breaks_no_rule(seed):
    book = Book(made(seed, ops=7))
    for kept in itertools.islice(all_kept(book), 0, None, 5):
        cost = book.stays(book.groups(kept))[0]
        if math.isfinite(cost):
            assert cost_of(book.instance, book.schedule(kept)) == pytest.approx(cost, rel=1e-12)


def test_some_schedules_of_these_instances_keep_tensors_in_fast_memory():
    stays = 0
    for seed in range(8):
        book = Book(replace(made(seed, ops=7), capacity=30000, bandwidth=2))
        stays += sum(len(step.retain) for step in book.schedule([True] * 7))
    assert stays > 5


@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_the_best_of_all_ways(seed):
    book = Book(made(seed, ops=7))
    search = Search(book, seed)
    search.work(looks=600)
    assert search.cost == pytest.approx(min(book.stays(book.groups(k))[0] for k in all_kept(book)), rel=1e-12)


def test_a_search_of_so_many_looks_is_the_same_again():
    found = []
    for pieces in ((300,), (100, 150, 50)):
        search = Search(Book(made(3, ops=12)), 5)
        for looks in pieces:
            search.work(looks=looks)
        found.append((search.cost, search.best, search.looks))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(6))
def test_no_schedule_is_below_the_simple_bound_or_that_of_covers(seed):
    book = Book(made(seed, ops=4, sides=(16, 32), native=16))
    best = min(book.stays(book.groups(kept))[0] for kept in all_kept(book))
    assert simple_bound(book)[0] <= best
    assert Covers.serves(book)
    covers = Covers(book)
    while covers.look(best):
        pass
    assert simple_bound(book)[0] * (1 - 1e-9) <= covers.cost <= best


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_covers_is_no_lower_if_tiles_have_to_divide_and_holds(seed):
    instance = replace(made(seed, ops=4, sides=(24, 40), native=8), capacity=1100, bandwidth=4)
    bounds = []
    for divide in (False, True):
        book = Book(replace(instance, tiles_divide=divide))
        best = min(book.stays(book.groups(kept))[0] for kept in all_kept(book))
        covers = Covers(book)
        while covers.look(best):
            pass
        assert covers.cost <= best
        bounds.append(covers.cost)
    assert bounds[0] <= bounds[1] * (1 + 1e-12)


def cover_bound(book: Book, covers: Covers) -> float:
    """The bound by all sets of kept ops, one by one, from the same latencies of subgraphs."""
    producer = book.instance.producer
    found = math.inf
    for kept in all_kept(book):
        total = 0.0
        for sink in (op for op, each in enumerate(kept) if each):
            fitting = [
                group
                for group in covers._kind
                if group.sink == sink
                and all(producer[t] < 0 or kept[producer[t]] for t in group.plan.external)
            ]
            total += min(covers._least[covers._kind[group]] for group in fitting)
        found = min(found, total)
    return found


@pytest.mark.parametrize("seed", range(12, 24))
def test_the_cheapest_cover_is_that_of_all_sets_of_kept_ops(seed):
    book = Book(made(seed, ops=8))
    covers = Covers(book)
    rng = np.random.default_rng(seed)
    covers._least = {kind: float(rng.integers(1, 50)) for kind in covers._least}
    covers._choose()
    assert covers.cost == pytest.approx(cover_bound(book, covers), rel=1e-9)


def test_some_of_these_graphs_are_trees_and_some_have_shared_ops():
    counts = [len(shared_ops(made(seed, ops=8))) for seed in range(12, 24)]
    assert min(counts) == 0
    assert max(counts) == 5


def schedule_by_chance(instance: Instance, rng: np.random.Generator) -> list[Step] | None:
    """Steps that end at random ops, with ops between that may be computed again, in random tiles and orders."""
    ends = [op for op in instance.order if instance.is_output(instance.outputs[op]) or rng.random() < 0.5]
    steps: list[Step] = []
    for sink in ends:
        inside, pending = {sink}, [sink]
        while pending:
            for tensor in instance.inputs[pending.pop()]:
                op = instance.producer[tensor]
                if op >= 0 and op not in inside and (op not in ends or rng.random() < 0.3):
                    inside.add(op)
                    pending.append(op)
        out = instance.outputs[sink]
        grain = tuple(int(each) for each in rng.choice([8, 11, 16, 24, 32], 3))
        across, down = -(-instance.widths[out] // grain[0]), -(-instance.heights[out] // grain[1])
        order = tuple(rng.permutation(across * down).tolist())
        steps.append(Step(tuple(sorted(inside)), grain, (), order))
    return None if replay(instance, steps).violations else steps


@pytest.mark.slow
@pytest.mark.parametrize("seed", gate(range(6), (0, 1)))
def test_no_schedule_by_chance_is_below_the_bound_of_covers_at_any_time(seed):
    instance = replace(made(seed, ops=5, sides=(16, 32), native=16), capacity=(1100, 2000, 6000)[seed % 3])
    book = Book(instance)
    rng = np.random.default_rng(seed)
    tries = [schedule_by_chance(instance, rng) for _ in range(300)]
    costs = [cost_of(instance, steps) for steps in tries if steps]
    assert len(costs) > 20
    covers = Covers(book)
    while covers.look(min(costs)):
        assert covers.cost <= min(costs) * (1 + 1e-12)
    assert covers.cost <= min(costs) * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_looking_at_tiles_raises_the_bound_of_covers_and_proves_small_instances():
    raised = proved = 0
    for seed in range(8):
        instance = replace(made(seed, ops=4, sides=(16, 32), native=16), bandwidth=4, capacity=1100)
        book = Book(instance)
        best = min(book.stays(book.groups(kept))[0] for kept in all_kept(book))
        covers = Covers(book)
        first = covers.cost
        while covers.look(best):
            pass
        raised += covers.cost > first * 1.001
        solving = Mlsys2026(instance).solving(0, threads=1)
        solving.work_fixed(2000, math.inf)
        solving.prove_for(math.inf)
        proved += solving.done and solving.bound.proof.startswith("all covers")
    assert raised >= 2
    assert proved >= 2


@pytest.mark.slow
def test_the_other_process_ends_with_the_search_that_nobody_holds():
    helper = Helper(replace(made(3, ops=12), capacity=30000, bandwidth=2), 1)
    process = helper._process
    del helper
    gc.collect()
    assert process.wait() is not None


@pytest.mark.slow
def test_the_other_process_sends_what_it_finds():
    instance = replace(made(3, ops=12), capacity=30000, bandwidth=2)
    helper = Helper(instance, 1)
    try:
        found = None
        while found is None:
            helper._thread.join(0.1)
            found = helper.exchange([True] * len(instance))
    finally:
        helper.close()
    book = Book(instance)
    assert found is not None
    assert book.stays(book.groups(found))[0] < book.stays(book.groups([True] * len(instance)))[0]


@pytest.mark.skipif(not GIVEN.is_dir(), reason="the contest's instances are not here")
@pytest.mark.parametrize(("number", "least"), [(1, 423660.0), (3, 83869.65)])
@pytest.mark.exhaustive
def test_the_small_instances_of_the_contest_are_solved_and_proved(number, least):
    problem = Mlsys2026(load_instance(str(GIVEN / f"mlsys-2026-{number}.json")))
    solving = problem.solving(0, threads=1)
    solving.work(600.0)
    assert solving.done
    assert solving.cost == pytest.approx(least, rel=1e-12)
    assert float(replay(problem.instance, problem.steps(solving.best)).total) == pytest.approx(
        least, rel=1e-12
    )
