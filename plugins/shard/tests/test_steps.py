"""Steps of the solver of sharding: regions, crossover, and which kind of step is taken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from egrl_shard.exact.crossover import components, crossed, differences
from egrl_shard.exact.graph import memory_cost, profile, total_cost
from egrl_shard.exact.reduce import reduce
from egrl_shard.exact.regions import Regions
from egrl_shard.exact.searcher import Earned, Step
from egrl_shard.exact.solution import Solution
from egrl_shard.exact.solve import Solver
from egrl_shard.judge import judge
from egrl_shard.load import parse
from egrl_shard.sharding import Sharding
from make_sharding import like, make
from shard_lists import all_choices, fits


@pytest.mark.parametrize("entries", [1e6, 20.0], ids=["nothing frozen", "some frozen"])
def test_regions_are_solved_as_by_trying_all(
    instances: list[Sharding], entries: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egrl_shard.exact.regions.LEAST_ENTRIES", entries)
    monkeypatch.setattr("egrl_shard.exact.regions.MOST_ENTRIES", entries)
    rng, frozen = np.random.default_rng(8), 0
    for sharding in instances:
        graph = reduce(sharding).graph
        regions, choice = Regions(graph, rng), np.zeros(graph.nodes, np.int32)
        price = rng.random(len(graph.room))
        region = regions.grow()
        order = regions.order(region)
        nodes = [step.node for step in order]
        frozen += len(region) > len(nodes)
        assert all(math.prod(np.diff(graph.first)[[step.node, *step.beside]]) <= entries for step in order)
        inside = {v: regions.parts(v, set(nodes), choice) for v in nodes}
        solved = choice.copy()
        for v, chosen in regions.solve(order, inside, memory_cost(graph, price)).items():
            solved[v] = chosen
        others = [v for v in range(graph.nodes) if v not in nodes]
        assert (solved[others] == choice[others]).all()
        energies = {
            tuple(c): total_cost(graph, c) + (price * profile(graph, c)).sum()
            for c in all_choices(graph)
            if (c[others] == choice[others]).all()
        }
        assert energies[tuple(solved)] == pytest.approx(min(energies.values()), rel=1e-12, abs=1e-6)
    assert (frozen > 0) == (entries < 1e6)


@pytest.mark.slow
def test_a_region_never_breaks_a_limit_nor_costs_more_and_finds_the_best(
    instances: list[Sharding],
) -> None:
    rng, optimal = np.random.default_rng(9), 0
    for sharding in instances:
        reduced = reduce(sharding)
        valid = [c for c in all_choices(reduced.graph) if fits(reduced.graph, c)]
        solution = Solution(reduced, max(valid, key=lambda c: total_cost(reduced.graph, c)).copy())
        regions, best = Regions(reduced.graph, rng), min(total_cost(reduced.graph, c) for c in valid)
        for _ in range(40):
            cost = solution.cost
            regions.improve(solution, np.full(len(reduced.graph.room), 1.0), float(sharding.limit))
            assert solution.cost <= cost
            assert solution.broken == 0.0
            assert fits(reduced.graph, solution.choice)
        optimal += solution.cost - reduced.constant == best
    assert optimal > len(instances) // 2


def test_components_cost_what_they_change_and_the_better_ones_are_taken() -> None:
    rng, gained = np.random.default_rng(11), 0
    for seed in range(12):
        sharding = parse(make(seed, 60, 5, forbidden=0.0, slack=1.02), "made", "made")
        reduced = reduce(sharding)
        graph = reduced.graph
        least = np.zeros(graph.nodes, np.int32)  # what uses least
        for v in range(graph.nodes):
            for at in graph.usage_at[graph.span_at[v] : graph.span_at[v + 1]]:
                least[v] = graph.usage[at : at + graph.first[v + 1] - graph.first[v]].argmin()
        one = Solution(reduced, least)
        other = Solution(reduced, rng.integers(0, np.diff(graph.first)).astype(np.int32))
        of = components(graph, one.choice, other.choice)
        assert ((of >= 0) == (one.choice != other.choice)).all()
        both = (of[graph.a] >= 0) & (of[graph.b] >= 0)
        assert (of[graph.a][both] == of[graph.b][both]).all()
        more = differences(graph, one.choice, other.choice, of)
        for part in range(len(more)):
            mixed = np.where(of == part, other.choice, one.choice)
            assert more[part] == total_cost(graph, mixed) - total_cost(graph, one.choice)
        assert one.broken == 0.0
        found = crossed(one, other, np.full(len(graph.room), 1e-3), float(sharding.limit), graph)
        if found is not None:
            gained += 1
            assert found.broken == 0.0
            assert found.cost < one.cost
    assert gained > 3


def test_the_kind_of_step_that_earns_more_is_taken_more_often() -> None:
    rng, earned = np.random.default_rng(10), Earned()
    taken = np.zeros(len(Step))
    for _ in range(400):
        step = earned.choose(rng)
        taken[step] += 1
        earned.add(step, 1.0 if step is Step.REGION else 2.0, 0.1 if step is Step.REGION else 1.0)
    assert 0.8 * taken.sum() < taken[Step.REGION] < taken.sum()


def test_an_instance_with_more_ties_is_solved_with_fewer_nodes() -> None:
    def given() -> dict[str, Any]:
        return make(5, 80, 4, forbidden=0.0)

    plain, tied = parse(given(), "made", "made"), parse(like(given(), 60, 2, 1.1, 0), "made", "made")
    assert len(tied.edge_nodes) == len(plain.edge_nodes) + 60
    assert reduce(tied).graph.nodes < reduce(plain).graph.nodes
    solver = Solver(tied, 0)
    while solver.best is None:
        solver.work(0.05)
    assert judge(tied, solver.best.tolist()) == []
    assert parse(like(given(), 0, 1, 2.0, 0), "made", "made").limit == 2 * plain.limit
