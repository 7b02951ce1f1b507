"""Bounds and solutions beside brute force and beside published optima."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from mcm_instances import MIB, drawn, package

from hwsim.mcm.bound import bound_of, cheapest_chain, closed_bound, fill, ideals, smaller_selections, thin
from hwsim.mcm.config import McmConfig
from hwsim.mcm.cost import costs
from hwsim.mcm.cuts import best_cuts, greedy
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.mcm.rules import misplaced_nodes
from workloads.errors import InputError
from workloads.load import load
from workloads.load_partition import read_instance

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "placement"
OPTIMA = [
    ("LayerGraphs-bert24", 4, 24.9169),
    ("LayerGraphs-bert24", 8, 14.2039),
    ("LayerGraphs-resnet50", 8, 26.7612),
    ("OperatorGraphs-bert_l-3", 4, 27.9186),
    ("OperatorGraphs-resnet50", 4, 151.126),
]


def cheapest(t, chips: int) -> float:
    """By brute force."""
    every = np.array(list(product(range(chips), repeat=len(t.compute_s))), np.int16)
    valid = every[~misplaced_nodes(t, every).any(axis=1)]
    return float(costs(t, valid).min()) if len(valid) else np.inf


@pytest.mark.parametrize("rule", ["compute", "compute+transfers"])
@pytest.mark.parametrize("triangle", [False, True])
def test_no_valid_partition_is_below_the_bound_which_is_the_optimum_without_triangles(rule, triangle):
    for seed in range(6):
        given = package(rule, chips=3, sram_bytes=12 * MIB, triangle=triangle, no_skip=seed % 2 == 0)
        net = drawn(seed, 7, given)
        best = cheapest(net.tables, 3)
        assert closed_bound(net.tables)[0] <= best
        bound, split = bound_of(net, np.inf, 10.0)
        assert bound.cost <= best
        if np.isfinite(best) and not triangle:
            assert bound.cost == pytest.approx(best)
            assert split is not None
            assert costs(net.tables, split[None])[0] == pytest.approx(best)
        cut = best_cuts(net.tables)
        if cut is not None:
            assert not misplaced_nodes(net.tables, cut[None]).any()
            assert best <= costs(net.tables, cut[None])[0] * (1 + 1e-12)


@pytest.mark.parametrize("rule", ["compute", "compute+transfers"])
def test_nodes_that_are_left_out_make_the_best_split_no_dearer_and_leave_room_for_all(rule):
    for seed in range(4):
        t = drawn(seed, 8, package(rule, chips=3, sram_bytes=99 * MIB, triangle=False)).tables
        best = cheapest(t, 3)
        for kept in [np.flatnonzero(np.arange(8) % 3 != k) for k in range(3)] + list(
            smaller_selections(t, t.compute_s > 0)
        ):
            small = thin(t, kept)
            listed = ideals(small, 600.0)
            assert listed is not None
            cost, split = cheapest_chain(small, listed, np.inf, np.inf)
            assert cost <= best * (1 + 1e-12)
            whole = fill(t, kept, split)
            assert (whole[kept] == split).all()
            assert not misplaced_nodes(t, whole[None]).any()


@pytest.mark.exhaustive
def test_a_graph_with_too_many_ideals_is_bounded_by_its_larger_nodes():
    """Two layers of bert_large are on one chip with two matrices of a third: 2 * 268.4 + 2 * 67.1 + 8.4 us."""
    problem = McmProblem(load("bert_large"), load_package("mcm36"))
    found = problem.solve(600.0, 0)
    assert "smallest nodes" in found.bound.proof
    assert found.bound.cost == pytest.approx(679.48e-6, rel=1e-4)
    assert found.bound.cost <= found.cost <= 683e-6
    assert problem.judge(found.mapping) == []


def test_the_best_cuts_are_the_best_of_all_cuts():
    for seed in range(4):
        t = drawn(seed, 8, package("compute+transfers", sram_bytes=99 * MIB, triangle=False)).tables
        rows = np.array([np.sort(p) for p in product(range(3), repeat=8)], np.int16)
        rows = np.unique(rows, axis=0)
        rows = rows[~misplaced_nodes(t, rows).any(axis=1)]
        cut = best_cuts(t)
        assert cut is not None
        assert costs(t, cut[None])[0] == pytest.approx(costs(t, rows).min())


def test_the_greedy_heuristic_fills_chips_in_order_and_keeps_the_triangle_rule():
    t = drawn(1, 12, package(sram_bytes=99 * MIB)).tables
    place = greedy(t)
    assert (np.diff(place) >= 0).all()
    assert not misplaced_nodes(t, place[None]).any()


def test_copies_of_widely_read_nodes_do_not_spoil_the_bound():
    bert = McmProblem(load("bert:layers=3"), load_package("mcm36"), McmConfig(backtracks=50))
    assert bert.network.copy.any()
    bound = bert.bound(600.0)
    assert bound is not None
    assert "ideals" in bound.proof
    assert bound.cost <= bert.baseline.cost


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the published instances")
@pytest.mark.parametrize(("name", "chips", "optimum"), OPTIMA)
def test_published_optima_are_found_and_proved(name, chips, optimum):
    instance = read_instance(str(SHARED / f"{name}_inference.json.gz"))
    problem = McmProblem(instance, load_package("profiled"), McmConfig(chips=chips))
    found = problem.solve(600.0, 0)
    assert found.cost == pytest.approx(optimum, rel=1e-5)
    assert found.bound.cost == pytest.approx(found.cost, rel=1e-8)
    assert problem.judge(found.mapping) == []


def test_a_device_that_no_partition_fits_is_refused_with_what_would_help():
    wanted = (
        r"found none .* at chip \d+: demanded \d+ bytes, available 33554432 bytes; .* help: sram_bytes of \d+"
    )
    with pytest.raises(InputError, match=wanted):
        McmProblem(load("unet"), load_package("mcm36"), McmConfig(model="device"))
