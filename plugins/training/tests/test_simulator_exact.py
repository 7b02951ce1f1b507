"""The exact solver: no plan is below its bound, and small steps are solved as by trying every plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from clocks import Ticking
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import csr_array

from egrl_training.simulator.device import Device
from egrl_training.simulator.exact import branch
from egrl_training.simulator.exact import solve as solving
from egrl_training.simulator.exact.facts import facts_of
from egrl_training.simulator.exact.fits import find_fit
from egrl_training.simulator.exact.program import OBJECTIVE, Builder, Moment
from egrl_training.simulator.exact.solve import plan
from egrl_training.simulator.problem import TrainingConfig, TrainingProblem
from egrl_training.simulator.simulate import OFFLOAD, simulate
from egrl_training.simulator.tables import Tables, build_tables
from hwsim.linear_program import LinearProgram, proven_bound, relax
from make_training import decoder, random_step, unet

MOST_DECISIONS = 9
TELLING = (123, 133, 184, 273)
"""Steps whose bounds are too high if a row counts an op as done one op too early."""


MOST_PLANS = 2**MOST_DECISIONS


def small(
    steps: Iterable[int], hosts: tuple[tuple[float, float], ...] = ((0.0, 0.0),)
) -> Iterator[tuple[Tables, int, float, np.ndarray]]:
    """Tables of small steps, limits, the least seconds within them by brute force, and a plan that fits.

    `hosts` are rates of copies, which the steps take in turn.
    """
    for seed in steps:
        step = random_step(seed, 6 + seed % 10)
        tables = build_tables(
            step, 3, None, {"aten.f": (1.0, 0.3, 2.0)[seed % 3]}, hosts[seed // 3 % len(hosts)]
        )
        choices = np.full(len(step.candidates), 2)
        if len(tables.to_host_s):
            choices += tables.to_host_s[tables.decision >= 0] > 0
        if not 1 < choices.prod() <= MOST_PLANS:
            continue
        plans = np.array(list(itertools.product(*map(range, choices))), np.int16)
        seconds, peak = simulate(tables, plans)
        for limit in np.unique(np.quantile(peak, [0, 0.4, 0.8]).astype(np.int64)):
            fits = peak <= limit
            yield (
                tables,
                int(limit),
                float(seconds[fits].min()),
                plans[int(np.where(fits, peak, np.inf).argmin())],
            )


HOSTS = ((4e5, 4e5), (2e6, 1e6), (3e5, 5e6))
"""Bytes per second: a copy takes about as long as an op."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hosts", "least_closed"),
    [
        pytest.param(((0.0, 0.0),), 0.9, id="alone"),
        pytest.param(HOSTS, 0.6, id="host", marks=pytest.mark.exhaustive),
    ],
)
def test_no_plan_is_below_the_bounds_and_rows_for_moments_raise_them(hosts, least_closed):
    """Of the relaxation and of the whole-number program, without rows for moments and with one for each there is."""
    cases, raised, closed = 0, 0, 0
    for tables, limit, best, _ in small(
        (*range(25), *TELLING, *(range(300, 325) if len(hosts) > 1 else ())), hosts
    ):
        facts = facts_of(tables)
        builder = Builder(tables, facts, limit)
        every = [
            Moment(at, op)
            for at in range(len(tables.phase) - tables.turn)
            for op in (-1, *range(tables.turn))
        ]
        values = []
        for moments in ([], every):
            program = builder.program(moments)
            found = milp(
                program.cost,
                integrality=program.integer,
                bounds=Bounds(program.lower, program.upper),
                constraints=LinearConstraint(program.matrix, program.row_lower, program.row_upper),
            )
            relaxed = relax(program, 600.0)
            assert found.status == 0
            assert relaxed is not None
            assert found.fun * facts.base_s / OBJECTIVE <= best * (1 + 1e-7)
            assert proven_bound(program, relaxed.multipliers) <= found.fun + 1e-6
            values.append(found.fun)
        cases += 1
        raised += values[1] > values[0] + 1e-6
        closed += values[1] >= best * (1 - 1e-7) / facts.base_s * OBJECTIVE
    assert cases > 40
    assert raised > 3
    assert closed > least_closed * cases


@pytest.mark.slow
@pytest.mark.parametrize(
    "hosts",
    [pytest.param(((0.0, 0.0),), id="alone", marks=pytest.mark.exhaustive), pytest.param(HOSTS, id="host")],
)
def test_small_steps_are_solved_as_by_trying_every_plan(hosts, monkeypatch):
    monkeypatch.setattr(solving, "clock", Ticking().monotonic)
    missed, gaps = 0, []
    for tables, limit, best, start in small(range(25), hosts):
        found = plan(tables, limit, start, 60.0, 0)
        seconds, peak = simulate(tables, found.mapping[:, 0][None])
        assert peak[0] <= limit
        assert seconds[0] == found.cost
        assert found.bound.cost <= best * (1 + 1e-9)
        missed += found.cost > best * (1 + 1e-9)
        gaps.append(found.cost / found.bound.cost - 1)
    assert missed == 0
    assert np.median(gaps) < 1e-6


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("step", "fraction"),
    [
        (unet(3), 0.6),
        pytest.param(decoder(4, tokens=8192, vocabulary=2048), 0.5, marks=pytest.mark.exhaustive),
    ],
    ids=["unet", "decoder"],
)
def test_networks_are_solved_to_a_small_gap(step, fraction):
    problem = TrainingProblem(step, None, TrainingConfig(fraction=fraction))
    found = problem.solve(60.0, 0)
    assert problem.judge(found.mapping) == []
    assert found.cost < problem.baseline.cost * 0.97
    assert found.cost <= found.bound.cost * 1.002
    assert problem.bound(0) == found.bound


@pytest.mark.exhaustive
def test_networks_with_a_host_are_solved_to_a_small_gap_and_faster_than_without():
    step = unet(3)
    without = TrainingProblem(step, None, TrainingConfig(fraction=0.5)).solve(60.0, 0)
    device = Device("host", memory_fraction=0.5, to_host_Bps=2.5e10, from_host_Bps=2.5e10)
    problem = TrainingProblem(step, device)
    found = problem.solve(60.0, 0)
    assert problem.judge(found.mapping) == []
    assert found.cost < without.bound.cost * 0.95
    assert found.cost <= found.bound.cost * 1.02
    assert (found.mapping == OFFLOAD).any()


def test_where_everything_fits_everything_is_kept():
    problem = TrainingProblem(unet(1), None, TrainingConfig(fraction=1.0))
    found = problem.solve(60.0, 0)
    assert found.cost == problem.keep_all[0] == pytest.approx(found.bound.cost)


@pytest.mark.slow
def test_a_limit_that_no_plan_can_keep_is_proved_to_be_one_and_others_are_met():
    proved = 0
    for tables, limit, _, start in small(range(20)):
        fit, impossible = find_fit(tables, limit, 600.0)
        assert not impossible
        assert fit is None or simulate(tables, fit[None])[1][0] <= limit
        least = int(simulate(tables, start[None])[1][0])
        fit, impossible = find_fit(tables, least - 1, 600.0)
        assert fit is None
        proved += impossible
    assert proved > 10


def test_a_program_that_only_presolving_finds_impossible_is_solved(monkeypatch):
    real, asked = branch.milp, []

    def doubtful(*args, options, **kwargs):
        asked.append(options["presolve"])
        if options["presolve"]:
            return OptimizeResult(x=None, status=branch.INFEASIBLE, mip_dual_bound=None)
        return real(*args, options=options, **kwargs)

    monkeypatch.setattr(branch, "milp", doubtful)
    one = np.ones(1)
    program = LinearProgram(
        one, 0 * one, 5 * one, one.astype(np.uint8), csr_array([[1.0]]), 2.5 * one, 9 * one
    )
    found = branch.branch_and_cut(program, 600.0, 1e-6)
    assert found.solution == pytest.approx([3.0])
    assert (found.done, found.impossible, asked) == (True, False, [True, False])
