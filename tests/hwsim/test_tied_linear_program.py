"""Bounds by tied multipliers: never above the optimum, equal to it where the parts of a program repeat."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwsim import linear_program
from hwsim.linear_program import (
    Colours,
    LinearProgram,
    Sheet,
    linear_bound,
    proven_bound,
    relax,
    tie,
    tied_bound,
)
from hwsim.nnpi.annealing import anneal
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.exact import solve as nnpi_exact
from hwsim.nnpi.exact.model import build
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load

SECONDS = 600.0
LAYERS = "llama3_8b:layers={}:hidden=512:heads=8:kv_heads=4:intermediate=1024:vocabulary=1000:length=128"


def chain(parts: int, rng: np.random.Generator, *, equal: bool) -> LinearProgram:
    """Parts of three variables each, which share one limit and hand something on to the next."""
    sheet = Sheet()
    limit = sheet.row(1, -math.inf, 0.3 * parts)
    before = None
    numbers = rng.uniform(0.5, 1.5, (1 if equal else parts, 5)).repeat(parts if equal else 1, axis=0)
    for cost, gain, use, least, passed in numbers:
        x = sheet.add(3, 0.0, 1.0, [cost, 0.2 * cost, 0.0])
        sheet.put(limit.repeat(2), x[:2], [use, 0.5])
        need = sheet.row(1, 0.5 * least, math.inf)
        sheet.put(need.repeat(3), x, [gain, 0.7, -0.1])
        if before is not None:
            sheet.put(need, before, passed)
        before = x[2:]
    return sheet.finish()


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 30), st.integers(0, 2**32 - 1), st.booleans())
def test_the_bound_is_never_above_the_optimum(parts, seed, equal):
    program = chain(parts, np.random.default_rng(seed), equal=equal)
    optimum = relax(program, SECONDS)
    found = tied_bound(program, time.monotonic() + SECONDS)
    if optimum is not None and found is not None:
        assert found.bound <= float(program.cost @ optimum.solution) + 1e-6


@given(st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_any_multipliers_prove_a_bound(parts, seed):
    rng = np.random.default_rng(seed)
    program = chain(parts, rng, equal=False)
    point = rng.uniform(program.lower, program.upper)
    rows = program.matrix @ point
    if ((rows >= program.row_lower) & (rows <= program.row_upper)).all():
        bound = proven_bound(program, rng.normal(size=len(rows)))
        assert bound <= program.cost @ point + 1e-9


@pytest.mark.parametrize("parts", [40, 400])
def test_of_a_chain_of_equal_parts_a_small_program_proves_the_optimum(parts):
    program = chain(parts, np.random.default_rng(3), equal=True)
    found = tied_bound(program, time.monotonic() + SECONDS)
    assert found is not None
    assert found.bound == pytest.approx(linear_bound(program, SECONDS), rel=2e-2 if parts == 40 else 2e-3)
    assert found.colours.rows.max() < 40


def test_with_a_colour_each_the_program_is_the_same():
    program = chain(12, np.random.default_rng(5), equal=False)
    rows, variables = program.matrix.shape
    same = tie(program, Colours(np.arange(rows), np.arange(variables)))
    assert linear_bound(same, SECONDS) == pytest.approx(linear_bound(program, SECONDS))


def test_what_does_not_repeat_is_left_alone():
    program = chain(50, np.random.default_rng(7), equal=False)
    found = tied_bound(program, time.monotonic() + SECONDS)
    assert found is None or not found.converged


def test_without_time_there_is_no_bound():
    assert tied_bound(chain(50, np.random.default_rng(7), equal=True), time.monotonic() - 1) is None


@pytest.fixture(scope="module")
def decoder() -> NnpiProblem:
    return NnpiProblem(load(LAYERS.format(30)), load_chip("nnpi"))


@pytest.mark.slow
def test_equal_layers_are_priced_once(decoder):
    tables = decoder.tables
    tabulated, _ = nnpi_exact.tabulate(tables, 10**9, max_placements=4096)
    model = build(tables, scale=1e7, tabulated=tabulated, reached_s=nnpi_exact.reached(tables))
    assert model is not None
    found = tied_bound(model.program, time.monotonic() + SECONDS)
    assert found is not None
    assert found.converged
    assert found.colours.rows.max() < model.program.matrix.shape[0] / 8
    assert found.bound == pytest.approx(linear_bound(model.program, SECONDS), rel=1e-6)


@pytest.mark.slow
def test_a_large_network_is_solved_by_ties(decoder, monkeypatch):
    monkeypatch.setattr(nnpi_exact, "TIED_NONZEROS", 0)
    found = nnpi_exact.solve(decoder.tables, time_limit_s=SECONDS)
    assert "tied" in found.proof
    assert found.mapping is not None
    assert not decoder.judge(found.mapping)
    _, polished_s = anneal(decoder.tables, found.mapping, steps=5_000)
    assert found.bound_s <= polished_s
    assert found.model_cost_s <= 1.3 * found.bound_s


@pytest.mark.exhaustive
def test_where_layers_differ_the_whole_program_is_solved(decoder, monkeypatch):
    monkeypatch.setattr(nnpi_exact, "TIED_NONZEROS", 0)
    monkeypatch.setattr(linear_program, "MOST_ROWS", 10)
    found = nnpi_exact.solve(decoder.tables, time_limit_s=SECONDS, branch=False)
    assert "linear relaxation" in found.proof
    assert "tied" not in found.proof


def test_shares_are_rounded_evenly(decoder):
    tables = decoder.tables
    tabulated, _ = nnpi_exact.tabulate(tables, 10**9, max_placements=4096)
    model = build(tables, scale=1e7, tabulated=tabulated, reached_s=nnpi_exact.reached(tables))
    assert model is not None
    shares = np.tile([0.5, 0.25, 0.25], model.program.matrix.shape[1] // 3 + 1)
    first = int(model.first[model.first >= 0].min())
    shares = np.roll(shares, first % 3)[: model.program.matrix.shape[1]]
    mapping = model.rounded(shares, np.zeros(len(shares), np.int64))
    count = np.bincount(mapping[mapping >= 0], minlength=3) / (mapping >= 0).sum()
    assert count == pytest.approx([0.5, 0.25, 0.25], abs=0.01)
