"""The solver of sharding against all choices of small instances, and its bound against exact fractions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from egrl_shard.exact.draft import disjoint, draft_of
from egrl_shard.exact.graph import (
    ALLOWED,
    Graph,
    binding,
    first_points,
    memory_cost,
    profile,
    spread,
    total_cost,
)
from egrl_shard.exact.messages import Messages, decode, gather, silent, sweep
from egrl_shard.exact.prover import certified, exact_prices
from egrl_shard.exact.reduce import reduce
from egrl_shard.exact.solve import Solver
from egrl_shard.exact.starts import dive
from egrl_shard.exact.trees import (
    cut_time,
    fill_base,
    grow,
    improve,
    leave,
    solve_tree,
    tree_cost,
    tree_memory,
)
from egrl_shard.judge import exact_cost, judge
from egrl_shard.load import parse
from egrl_shard.sharding import Sharding
from make_sharding import make
from shard_lists import all_choices, fits, optimum


def messages_after(graph: Graph, price: np.ndarray, sweeps: int) -> Messages:
    messages, own = silent(graph), graph.cost + memory_cost(graph, price)
    for _ in range(sweeps):
        sweep(graph, messages, own, False)
        sweep(graph, messages, own, True)
    return messages


# ---- reductions


def test_reductions_keep_the_optimum_and_what_is_lifted_costs_the_same(instances: list[Sharding]) -> None:
    smaller = 0
    for sharding in instances:
        reduced = reduce(sharding)
        assert reduced.possible
        smaller += reduced.graph.nodes < len(sharding)
        left = [c for c in all_choices(reduced.graph) if fits(reduced.graph, c)]
        best = min(left, key=lambda c: total_cost(reduced.graph, c))
        lifted = reduced.lift(best)
        assert judge(sharding, lifted.tolist()) == []
        assert reduced.constant + total_cost(reduced.graph, best) == optimum(sharding)
        assert exact_cost(sharding, lifted.tolist()) == optimum(sharding)
    assert smaller == len(instances)


def test_every_valid_rest_lifts_to_a_valid_mapping_of_its_cost(instances: list[Sharding]) -> None:
    for sharding in instances[:6]:
        reduced = reduce(sharding)
        for choice in all_choices(reduced.graph)[:60]:
            if fits(reduced.graph, choice):
                lifted = reduced.lift(choice).tolist()
                assert judge(sharding, lifted) == []
                cost = reduced.constant + total_cost(reduced.graph, choice)
                assert cost == exact_cost(sharding, lifted)


def test_a_mapping_of_what_is_left_is_found_again(instances: list[Sharding]) -> None:
    for sharding in instances:
        reduced = reduce(sharding)
        choice = all_choices(reduced.graph)[-1]
        assert reduced.lower(reduced.lift(choice)).tolist() == choice.tolist()


def test_nodes_that_another_decides_become_a_part_of_it() -> None:
    sharding = parse(make(1, 300, 5, forbidden=0.0, alike=0.6), "made", "made")
    before, after = draft_of(sharding), draft_of(sharding)
    after.merge()
    graph, nodes = after.pack()
    assert len(nodes) < 0.6 * len(sharding)
    assert not (graph.table >= ALLOWED).any()
    assert np.diff(graph.span_at).max() > 1
    plain, _ = before.pack()
    rng = np.random.default_rng(0)
    for _ in range(20):
        choice = rng.integers(0, np.diff(graph.first)).astype(np.int32)
        left = {v: int(after.choice[v][c]) for v, c in zip(nodes, choice.tolist(), strict=True)}
        whole = after.lift(left)
        lifted = np.array([whole[v] for v in range(len(sharding))], np.int32)
        assert total_cost(plain, lifted) == total_cost(graph, choice) + after.constant
        assert (profile(plain, lifted) <= plain.room).all() == (profile(graph, choice) <= graph.room).all()


def test_a_merged_node_uses_memory_as_its_parts_did() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        low = rng.integers(0, 12, 5)
        high = low + rng.integers(0, 5, 5)
        usage = rng.integers(0, 3, (5, 3)).astype(float)
        spans, used = disjoint(low, high, usage)
        assert (spans[0, 1:] >= spans[1, :-1]).all()
        assert (spans[0] < spans[1]).all()
        for t in range(17):
            expected = usage[(low <= t) & (t < high)].sum(0)
            found = used[(spans[0] <= t) & (t < spans[1])].sum(0)
            assert found.tolist() == expected.tolist()


@pytest.mark.slow
def test_points_of_time_that_are_kept_imply_all_others() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        start = rng.integers(0, 20, 9)
        end = start + rng.integers(0, 8, 9)
        usage, limit = rng.integers(0, 9, 9).astype(float), 14.0
        points, low, high = first_points(start, end)
        at_points = spread(low, high, usage, len(points)).max(initial=0.0)
        at_times = max(usage[(start <= t) & (t < end)].sum() for t in range(30))
        assert at_points == at_times
        room = limit - rng.integers(0, 6, len(points))
        few_low, few_high, kept = binding(low, high, usage, room)
        for part in itertools.product([0.0, 1.0], repeat=9):
            used = usage * np.array(part)
            everywhere = (spread(low, high, used, len(points)) <= room).all()
            assert everywhere == (spread(few_low, few_high, used, len(kept)) <= room[kept]).all()


# ---- bounds


def fraction_bound(graph: Graph, messages: Messages, price: np.ndarray) -> Fraction:
    """The bound of `certify` in exact fractions, of the same numbers moved from edges to nodes."""
    exact = [Fraction(p) for p in price.tolist()]
    own, own_exact = graph.cost + memory_cost(graph, price), [Fraction(c) for c in graph.cost.tolist()]
    for v in range(graph.nodes):
        for u in range(graph.span_at[v], graph.span_at[v + 1]):
            byte = sum(exact[graph.low[u] : graph.high[u]], Fraction(0))
            for s in range(graph.first[v + 1] - graph.first[v]):
                own_exact[graph.first[v] + s] += byte * Fraction(graph.usage[graph.usage_at[u] + s])
    moved: list[dict[int, list[Fraction]]] = [{} for _ in range(graph.nodes)]
    belief = np.zeros(int(np.diff(graph.first).max()))
    for v in range(graph.nodes):
        gather(graph, messages, own, v, belief)
        near = graph.near_node[graph.near_at[v] : graph.near_at[v + 1]]
        later = int((near > v).sum())
        share = 1.0 / max(later, len(near) - later, 1)
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            e, count = int(graph.near_edge[q]), int(graph.first[v + 1] - graph.first[v])
            if graph.near_node[q] > v:
                at = messages.at_a[e]
                moved[v][e] = [Fraction(messages.to_a[at + s] - share * belief[s]) for s in range(count)]
            else:
                at = messages.at_b[e]
                moved[v][e] = [Fraction(messages.to_b[at + s]) for s in range(count)]
    total = -sum((p * Fraction(r) for p, r in zip(exact, graph.room.tolist(), strict=True)), Fraction(0))
    for v in range(graph.nodes):
        total += min(
            own_exact[row] + sum((parts[row - graph.first[v]] for parts in moved[v].values()), Fraction(0))
            for row in range(graph.first[v], graph.first[v + 1])
        )
    for e, (a, b) in enumerate(zip(graph.a.tolist(), graph.b.tolist(), strict=True)):
        pairs = itertools.product(enumerate(moved[a][e]), enumerate(moved[b][e]))
        width = len(moved[b][e])
        total += min(
            Fraction(graph.table[graph.at[e] + s * width + t]) - of_a - of_b for (s, of_a), (t, of_b) in pairs
        )
    return total


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_the_certified_bound_is_below_that_of_exact_fractions_and_close(
    instances: list[Sharding], scale: float
) -> None:
    rng = np.random.default_rng(1)
    for sharding in instances:
        graph = reduce(sharding).graph
        graph = graph._replace(cost=graph.cost * scale, table=np.minimum(graph.table * scale, 1e18))
        price = exact_prices(rng.random(len(graph.room)) * scale / 7)
        messages = messages_after(graph, price, 3)
        exact, bound = fraction_bound(graph, messages, price), certified(graph, messages, price, 0.0)
        assert bound <= exact
        assert bound == pytest.approx(float(exact), rel=1e-9, abs=1e-3 * scale)


def test_any_messages_and_prices_bound_the_optimum(instances: list[Sharding]) -> None:
    rng = np.random.default_rng(2)
    for sharding in instances:
        reduced = reduce(sharding)
        best = optimum(sharding)
        messages = silent(reduced.graph)
        messages.to_a[:], messages.to_b[:] = (
            rng.normal(0, 30, len(messages.to_a)),
            rng.normal(0, 30, len(messages.to_b)),
        )
        assert (
            certified(reduced.graph, messages, rng.random(len(reduced.graph.room)), reduced.constant) <= best
        )


def test_sums_of_exact_prices_do_not_round() -> None:
    price = exact_prices(np.random.default_rng(3).random(5000) * 1e-7)
    assert Fraction(float(price.sum())) == sum((Fraction(p) for p in price.tolist()), Fraction(0))
    assert exact_prices(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_sweeps_never_lower_the_bound_at_fixed_prices(instances: list[Sharding]) -> None:
    for sharding in instances:
        graph = reduce(sharding).graph
        messages = silent(graph)
        bounds = [sweep(graph, messages, graph.cost, forward) for forward in (True, False) * 6]
        assert all(later >= earlier - 1e-6 for earlier, later in itertools.pairwise(bounds))
        least = min(total_cost(graph, c) for c in all_choices(graph))
        assert bounds[-1] <= least + 1e-6


# ---- solutions


@pytest.mark.slow
def test_on_a_tree_messages_bound_and_solutions_meet() -> None:
    chain = _chain()
    reduced = reduce(chain)
    graph = reduced.graph
    messages = messages_after(graph, np.zeros(len(graph.room)), 2)
    best = min(total_cost(graph, c) for c in all_choices(graph))
    assert certified(graph, messages, np.zeros(len(graph.room)), 0.0) == pytest.approx(best, rel=1e-12)
    for read in (decode, dive):
        assert total_cost(graph, read(graph, messages, graph.cost)) == best


def _chain() -> Sharding:
    """Six nodes in a row, each with three strategies; the tables are no sums, and memory can bind."""
    rng = np.random.default_rng(4)
    return Sharding(
        name="chain",
        limit=40,
        start=np.zeros(6, np.int64),
        end=np.full(6, 5),
        first=np.arange(0, 19, 3),
        cost=rng.integers(0, 50, 18),
        usage=np.tile([9, 5, 2], 6),
        edge_nodes=np.array([[i, i + 1] for i in range(5)], np.int32),
        edge_first=np.arange(0, 46, 9),
        edge_cost=rng.integers(0, 90, 45),
    )


def test_a_dive_avoids_forbidden_pairs_where_decoding_does_not() -> None:
    broken = {decode: 0.0, dive: 0.0}
    for seed in range(10):
        graph, _ = draft_of(parse(make(seed, 60, 6, forbidden=0.4), "made", "made")).pack()
        messages = silent(graph)
        for read in broken:
            broken[read] += total_cost(graph, read(graph, messages, graph.cost)) // ALLOWED
    assert broken[dive] <= 0.2 * broken[decode]


@pytest.mark.slow
def test_trees_are_solved_as_by_trying_all(instances: list[Sharding]) -> None:
    rng = np.random.default_rng(5)
    for sharding in instances:
        graph = reduce(sharding).graph
        tree = tree_memory(graph)
        choice = np.zeros(graph.nodes, np.int32)
        price = rng.random(len(graph.room))
        for start in range(graph.nodes):
            count = grow(graph, tree, start, 4, rng)
            nodes = tree.node[:count].copy()
            fill_base(graph, tree, count, choice)
            pieces = cut_time(graph, tree, count, choice, graph.room - profile(graph, choice), price)
            solve_tree(graph, tree, count, pieces)
            solved = choice.copy()
            solved[nodes] = tree.solved[:count]
            changed = [
                c for c in all_choices(graph) if (np.delete(c, nodes) == np.delete(choice, nodes)).all()
            ]

            def energy(c: np.ndarray, graph: Graph = graph, price: np.ndarray = price) -> float:
                return float(total_cost(graph, c) + (price * profile(graph, c)).sum())

            assert energy(solved) == pytest.approx(min(energy(c) for c in changed), rel=1e-12, abs=1e-6)
            if max(total_cost(graph, c) for c in (solved, choice)) < ALLOWED:
                outside = total_cost(graph, solved) - tree_cost(graph, tree, count, tree.solved)
                assert outside == total_cost(graph, choice) - tree_cost(graph, tree, count, choice[nodes])
            leave(tree, count)
            assert (tree.place == -1).all()


@pytest.mark.slow
def test_improving_never_breaks_more_nor_costs_more(instances: list[Sharding]) -> None:
    rng = np.random.default_rng(6)
    for sharding in instances:
        graph = reduce(sharding).graph
        tree, price = tree_memory(graph), np.full(len(graph.room), 0.1)
        choice = (np.diff(graph.first) - 1).astype(np.int32)
        spare = graph.room - profile(graph, choice)
        over, cost = np.maximum(-spare, 0.0).sum(), total_cost(graph, choice)
        for _ in range(20):
            improve(graph, tree, choice, spare, price, 0.01, rng, 3, graph.nodes)
            assert spare == pytest.approx(graph.room - profile(graph, choice))
            now, now_cost = np.maximum(-spare, 0.0).sum(), total_cost(graph, choice)
            assert now < over or (now == over and now_cost <= cost) or len(graph.room) > 1
            over, cost = now, now_cost


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_the_solver_finds_the_optimum_and_bounds_it(
    instances: list[Sharding], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egrl_shard.exact.solve.MOST", 1)
    for sharding in instances[:4]:
        solver, best = Solver(sharding, 0, threads), optimum(sharding)
        bound, found = 0.0, math.inf
        while found != best:
            solver.work(0.05)
            assert solver.bound >= bound
            assert best <= (solver.best_cost or math.inf) <= found
            bound, found = solver.bound, solver.best_cost or math.inf
        assert solver.bound <= best
        assert solver.best is not None
        assert judge(sharding, solver.best.tolist()) == []


def test_what_is_small_is_solved_at_once_by_trying_all(instances: list[Sharding]) -> None:
    for sharding in instances:
        solver = Solver(sharding, 0)
        assert solver.done
        assert solver.best_cost == solver.bound == optimum(sharding)
        assert "tried" in solver.proof


def test_the_solver_begins_with_what_it_is_given() -> None:
    sharding = parse(make(3, 60, 8), "made", "made")
    first = Solver(sharding, 0)
    while first.best is None:
        first.work(0.05)
    again = Solver(sharding, 1, 1, first.best)
    while again.best_cost is None:
        again.work(0.05)
    assert again.best_cost <= exact_cost(sharding, first.best.tolist())


def test_what_is_impossible_is_proved() -> None:
    chain = _chain()
    solver = Solver(replace(chain, limit=11), 0)
    assert solver.done
    assert solver.best is None
    assert solver.bound == math.inf
    assert "no valid mapping" in solver.proof
