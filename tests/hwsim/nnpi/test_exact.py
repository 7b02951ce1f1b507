"""The bound against every valid map of small problems, and what a solve promises."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hwsim.linear_program import linear_bound
from hwsim.nnpi import problem as nnpi
from hwsim.nnpi.chip import (
    Chip,
    Compute,
    Effects,
    ElementWidths,
    Memory,
    Noise,
    Overhead,
    Prefetch,
    load_chip,
)
from hwsim.nnpi.exact import model as writing
from hwsim.nnpi.exact import solve as exact
from hwsim.nnpi.exact.columns import columns, scope
from hwsim.nnpi.exact.model import build
from hwsim.nnpi.exact.solve import (
    MAX_PLACEMENTS,
    OBJECTIVE,
    PROVED,
    TIME_LIMIT,
    TOO_LARGE,
    fastest_of_all,
    reached,
    solve,
    tabulate,
    trivial_bound,
)
from hwsim.nnpi.judge import judge
from hwsim.nnpi.latency import latencies, trace_latency
from hwsim.nnpi.problem import NnpiProblem
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables, build_tables
from hwsim.problem import Mapping16
from strategies import chips, workloads
from workloads.errors import InputError
from workloads.load import load
from workloads.workload import Edge, Op, Workload

MOST_MAPS = 50_000
LIMIT_S = 600.0
SMALL = settings(deadline=None, suppress_health_check=list(HealthCheck))


def tables_of(workload: Workload, chip: Chip) -> Tables:
    try:
        tables = build_tables(workload, replace(chip, effects=replace(chip.effects, noise=False)))
    except InputError:
        assume(False)
        raise
    live = int((tables.weight_bytes > 0).sum() + (tables.activation_bytes > 0).sum())
    assume(len(chip.memories) ** live <= MOST_MAPS)
    return tables


def all_maps(tables: Tables) -> Mapping16:
    """Every valid canonical map, int16 [B, N, 2]: those that the compiler leaves alone."""
    sizes = np.stack([tables.weight_bytes, tables.activation_bytes], axis=1)
    choices = [range(len(tables.capacity_bytes)) if size else (-1,) for size in sizes.ravel()]
    every = np.array(list(itertools.product(*choices)), np.int16).reshape(-1, len(sizes), 2)
    return every[rectify(tables, every)[1] == 0]


def optimum(tables: Tables) -> float:
    every = all_maps(tables)
    return float(latencies(tables, every, np.zeros(len(every))).min())


ALL_OFF = Effects(False, False, False, False, False, False)
ALL_ON = Effects(True, True, True, True, True, False)
SWITCHES = ("cross", "prefetch", "contention", "moves", "overhead")
ONE_BY_ONE = (
    ALL_ON,
    ALL_OFF,
    *(replace(ALL_ON, **{switch: False}) for switch in SWITCHES),
    *(replace(ALL_OFF, **{switch: True}) for switch in SWITCHES),
)


@pytest.mark.slow
@settings(SMALL)
@given(workloads(max_ops=4), chips(st.sampled_from(ONE_BY_ONE)), st.sampled_from((4096, 4096, 0, 9)))
def test_the_bound_is_never_above_the_optimum(workload, chip, max_placements):
    tables = tables_of(workload, chip)
    best = optimum(tables)
    result = solve(tables, time_limit_s=LIMIT_S, gap=0.0, max_placements=max_placements)
    assert 0 <= result.bound_s <= best * (1 + 1e-12)
    assert result.status == PROVED
    assert result.model_cost_s >= best * (1 - 1e-12)


@pytest.mark.slow
@settings(SMALL)
@given(workloads(max_ops=4), chips(), st.sampled_from((4096, 4096, 0)))
def test_without_prefetch_the_solution_is_optimal_and_the_bound_meets_it(workload, chip, max_placements):
    chip = replace(chip, effects=replace(chip.effects, prefetch=False))
    tables = tables_of(workload, chip)
    best = optimum(tables)
    result = solve(tables, time_limit_s=LIMIT_S, gap=1e-6, max_placements=max_placements)
    assert result.model_cost_s == pytest.approx(best, rel=3e-6)
    assert result.bound_s == pytest.approx(best, rel=1e-5)


@pytest.mark.slow
@settings(SMALL)
@given(workloads(max_ops=4), chips(st.just(ALL_ON)), st.booleans())
def test_the_multipliers_of_the_linear_relaxation_alone_never_prove_too_much(workload, chip, tabulated):
    tables = tables_of(workload, chip)
    scale = OBJECTIVE / trivial_bound(tables)
    chosen = np.full(len(workload), tabulated)
    model = build(tables, scale=scale, tabulated=chosen, reached_s=reached(tables))
    assert linear_bound(model.program, LIMIT_S) / scale <= optimum(tables) * (1 + 1e-9)


@settings(SMALL)
@given(workloads(max_ops=4), chips())
def test_the_trivial_bound_is_a_bound(workload, chip):
    tables = tables_of(workload, chip)
    best = optimum(tables)
    assert trivial_bound(tables) <= best
    assert trivial_bound(tables, max_placements=0) <= trivial_bound(tables)


@pytest.mark.slow
@settings(SMALL)
@given(workloads(max_ops=4), chips(st.just(ALL_ON)), st.integers(0, 2**32 - 1))
def test_what_an_op_did_lies_in_the_hull_of_its_columns(workload, chip, seed):
    tables = tables_of(workload, chip)
    every = all_maps(tables)
    mapping = every[np.random.default_rng(seed).integers(len(every))]
    _, trace = trace_latency(tables, mapping)
    for i in range(len(workload)):
        of = scope(tables, i)
        table = columns(tables, of)
        mine = (table.place == np.array([mapping[t] for t in of.tensors], np.int8)).all(axis=1)
        used, duration = table.used_bytes[mine], table.duration_s[mine]
        order = np.argsort(used)
        held = np.interp(trace.prefetched_bytes[i], used[order], duration[order])
        assert held <= trace.duration_s[i] * (1 + 1e-12)


def test_a_weight_only_part_of_which_can_be_buffered_beside_the_ops_input_is_not_charged_for_all_of_it():
    size = (1, 1, 1)
    ops = (
        Op("a", "conv", (), size, size, 100, weight_bytes=100, weight_read_bytes=100, vector_ops=1),
        Op("b", "conv", (), size, size, 0, weight_bytes=100, weight_read_bytes=100),
        Op("c", "conv", (Edge("a", 1),), size, size, 0, weight_bytes=1000, weight_read_bytes=1000),
    )
    chip = Chip(
        name="small",
        memories=(Memory("m0", 2**30, 1e8), Memory("m1", 500, 1e9)),
        compute=Compute(1, 1, 1, 1, 1e8, 1),
        overhead=Overhead(1e-9),
        element_bytes=ElementWidths(1.0, 1.0),
        prefetch=Prefetch("m1", "m1"),
        noise=Noise(0.5),
        effects=ALL_ON,
    )
    tables = build_tables(Workload("w", ops), chip)
    result = solve(tables, time_limit_s=LIMIT_S, gap=0.0)
    assert result.bound_s <= optimum(tables)
    table = columns(tables, scope(tables, 2))
    beside_input = (table.place == [0, 1]).all(axis=1)
    assert table.used_bytes[beside_input].max() == 400


def without_prefetch(chip: Chip) -> Chip:
    return replace(chip, effects=replace(chip.effects, prefetch=False))


@pytest.mark.parametrize(("name", "gap"), [("resnet50", 1e-3), ("alexnet", 1e-3), ("unet", 2e-3)])
def test_small_networks_are_solved_on_the_full_model(name, gap):
    chip = load_chip("nnpi")
    workload = load(name)
    result = solve(build_tables(workload, chip), time_limit_s=LIMIT_S)
    assert result.mapping is not None
    memories = [(memory.name, memory.capacity_bytes) for memory in chip.memories]
    assert not judge(workload, memories, 1.0, 1.0, result.mapping)
    assert 0 <= result.gap <= gap
    assert result.as_bound().cost == result.bound_s
    assert "relaxation" in result.proof


def test_the_separable_model_of_resnet50_is_proved_within_a_thousandth():
    result = solve(build_tables(load("resnet50"), without_prefetch(load_chip("nnpi"))), time_limit_s=LIMIT_S)
    assert result.status == PROVED
    assert 0 <= result.gap <= 1e-3


@pytest.mark.exhaustive
def test_a_time_limit_gives_the_bound_reached_so_far(monkeypatch):
    tables, now_s = build_tables(load("bert"), load_chip("nnpi")), [0.0]

    def relaxed(*given: Any) -> float:
        try:
            return linear_bound(*given)
        finally:
            now_s[0] = 100.0  # nothing else takes any time

    with monkeypatch.context() as patch:
        patch.setattr(exact, "linear_bound", relaxed)
        for module in (exact, writing, exact):
            patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
        result = solve(tables, time_limit_s=100.0)
    assert result.status == TIME_LIMIT
    assert "linear relaxation" in result.proof
    assert trivial_bound(tables) < result.bound_s < 875e-6
    monkeypatch.setattr(exact, "TRIVIAL_S", LIMIT_S)
    at_once = solve(tables, time_limit_s=1e-9)
    assert at_once.bound_s == trivial_bound(tables)
    assert at_once.mapping is None
    assert at_once.model_cost_s == float("inf")


def test_a_program_that_would_not_fit_gets_fewer_columns_and_then_only_the_trivial_bound():
    tables = build_tables(load("resnet50"), load_chip("nnpi"))
    all_columns, most = tabulate(tables, 10**9, max_placements=MAX_PLACEMENTS)
    assert all_columns.all()
    some, fewer = tabulate(tables, most * 3 // 4, max_placements=MAX_PLACEMENTS)
    assert 0 < some.sum() < len(some)
    assert fewer <= most * 3 // 4
    result = solve(tables, time_limit_s=LIMIT_S, memory_bytes=1000)
    assert result.status == TOO_LARGE
    assert result.bound_s == trivial_bound(tables)
    assert "exceeds" in result.proof


def test_an_estimate_of_the_program_is_not_far_below_its_size():
    tables = build_tables(load("bert"), load_chip("nnpi"))
    chosen, entries = tabulate(tables, 10**9, max_placements=MAX_PLACEMENTS)
    for tabulated in (chosen, np.zeros_like(chosen)):
        _, entries = tabulate(tables, 10**9, max_placements=MAX_PLACEMENTS if tabulated.any() else 0)
        program = build(tables, scale=1e7, tabulated=tabulated, reached_s=1e-3).program
        assert 0.5 * program.matrix.nnz <= entries <= 20 * program.matrix.nnz


@pytest.mark.parametrize(
    "wrong", [{"time_limit_s": 0.0}, {"time_limit_s": float("nan")}, {"gap": -1.0}, {"memory_bytes": 0}]
)
def test_limits_out_of_range_are_refused(wrong):
    tables = build_tables(load("alexnet"), load_chip("nnpi"))
    with pytest.raises(ValueError, match=next(iter(wrong))):
        solve(tables, **{"time_limit_s": LIMIT_S, **wrong})


@pytest.mark.slow
@SMALL
@given(workloads(max_ops=4), chips())
def test_where_there_are_few_mappings_all_of_them_are_tried(workload, chip):
    tables = tables_of(workload, chip)
    found = fastest_of_all(tables)
    assert found is not None
    mapping, seconds, count = found
    assert count >= len(all_maps(tables))
    assert seconds == optimum(tables) == trace_latency(tables, mapping)[0]
    np.testing.assert_array_equal(rectify(tables, mapping[None])[1], [0])


def test_a_problem_of_few_mappings_is_proved_and_one_of_many_is_not_tried(monkeypatch):
    whole = load("alexnet")
    few = NnpiProblem(replace(whole, ops=whole.ops[:5]), load_chip("edge"))
    monkeypatch.setattr(exact, "solve", None)  # nothing else is solved
    solution = few.solve(LIMIT_S, 0)
    assert solution.bound.proof.startswith("all ")
    assert solution.bound == few.bound(1.0)
    assert solution.cost == few.model_cost(solution.mapping)
    assert 0 < solution.cost / solution.bound.cost - 1 < 2e-9
    assert fastest_of_all(build_tables(load("alexnet"), load_chip("nnpi"))) is None


@pytest.mark.exhaustive
def test_a_solve_from_a_start_is_a_fixed_amount_of_work_and_no_worse_than_the_start(monkeypatch):
    monkeypatch.setattr(nnpi, "NEAR_STEPS", (40_000, 40_000))
    problem = NnpiProblem(load("resnet50"), load_chip("edge"))
    start = problem.space.initial
    first, again = (problem.solve(LIMIT_S, 3, start) for _ in range(2))
    assert first.complete
    np.testing.assert_array_equal(first.mapping, again.mapping)
    assert (first.cost, first.bound.cost) == (again.cost, again.bound.cost)
    assert first.bound.cost <= first.cost <= min(problem.model_cost(start), problem.baseline.cost)
    assert problem.model_cost(first.mapping) == first.cost
    assert problem.judge(first.mapping) == []


def test_a_solve_from_a_start_says_that_the_limit_cut_it_short():
    problem = NnpiProblem(load("resnet50"), load_chip("edge"))
    found = problem.solve(1e-9, 3, problem.baseline.mapping)
    assert not found.complete
    assert found.bound.cost <= found.cost <= problem.baseline.cost
