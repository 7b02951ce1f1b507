"""How fast can any mapping be: a proven lower bound on latency, and the mapping that the proof suggests.

Source: mixed-integer programming by branch and cut; HiGHS (Huangfu and Hall, Math. Prog. Comp. 2018) through
`scipy.optimize.milp`. The program is a relaxation of the full model (`exact_model.py`, `docs/explanations/exact.md`).

The feasible set is that of rectified maps: every memory holds, at every step, the weights pinned in it and the
activations live in it.

Deviations: first the linear relaxation gives a bound that holds whatever HiGHS's tolerances (`linear_bound`); that of
the branch and cut is HiGHS's number less a margin, see `margin`. The better one counts. A program that would not fit
in memory is made smaller by a fixed rule, see `tabulate`.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from hwsim.linear_program import linear_bound
from hwsim.nnpi.exact.columns import scope
from hwsim.nnpi.exact.model import Model, build
from hwsim.nnpi.exact.trivial import MAX_PLACEMENTS, ROUNDING, trivial_bound
from hwsim.nnpi.latency import trace_latency
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.rules import DEFAULT_RULE, compile_map, rule_named
from hwsim.nnpi.tables import Tables
from hwsim.problem import Bound, Floats, Mapping16

OBJECTIVE = 1e4
"""The program is scaled so that the trivial bound is this many units."""

DUAL_TOLERANCE = 1e-7
"""Of HiGHS: a reduced cost may have the wrong sign by this many units."""

BYTES_AN_ENTRY = 400
"""Memory that HiGHS takes, a nonzero of the program."""

FIRST_STEP = 1e-3
"""The first ceiling is at least this share above the bound."""

LAST_STEP = 0.5
"""A ceiling this share above the bound is no longer put."""

SHARE_OF_A_STEP = 0.5
"""Of the time left, for one ceiling."""

DISTRUST = 1e-6
"""HiGHS's bound may be above a mapping's latency by this share, margin included, before it counts as wrong."""

QUICK = 0.05
"""Of the time left: a ceiling done sooner makes the next one half as high again."""

INFEASIBLE = 2
"""`scipy.optimize.milp`: status of a program without solutions."""

TRIVIAL_S = 1.0
"""Seconds that the trivial bound has at least; it has half of the time."""

FIRST_RULES = (DEFAULT_RULE, "execution-order", "traffic-density")

PROVED = "proved"
TIME_LIMIT = "time limit"
TOO_LARGE = "too large"


@dataclass(frozen=True)
class ExactResult:
    """What a solve gave.

    Attributes:
        bound_s: no capacity-valid mapping has a noise-free latency below this.
        mapping: int16 [N, 2], canonical and valid, the solution as it would run; None where none was found.
        model_cost_s: noise-free latency of `mapping`; infinity where there is none.
        status: "proved" (the program was solved to `gap`), "time limit", or "too large".
        seconds: that the solve took.
        proof: how the bound was obtained, in words.
        entries: estimated nonzeros of the program.
    """

    bound_s: float
    mapping: Mapping16 | None
    model_cost_s: float
    status: str
    seconds: float
    proof: str
    entries: int

    @property
    def gap(self) -> float:
        """model_cost_s / bound_s - 1."""
        return self.model_cost_s / self.bound_s - 1.0

    def as_bound(self) -> Bound:
        """For `HasBound.bound`."""
        return Bound(self.bound_s, math.inf, self.proof, self.seconds)


def solve(
    tables: Tables,
    *,
    time_limit_s: float,
    gap: float = 1e-3,
    memory_bytes: int = 2**30,
    max_placements: int = MAX_PLACEMENTS,
) -> ExactResult:
    """A lower bound on the latency of every valid mapping of a workload on a chip, and a good mapping.

    Args:
        tables: the workload on the chip.
        time_limit_s: of the whole solve; HiGHS looks at the clock now and then, so it may take a little longer.
        gap: stop when solution and bound of the program differ by this share.
        memory_bytes: that HiGHS may take, by estimate.
        max_placements: see `tabulate`.

    Raises:
        ValueError: a limit is not positive or the gap is negative.
    """
    if not time_limit_s > 0:
        raise ValueError(f"time_limit_s: expected a positive number, received {time_limit_s!r}")
    if not gap >= 0:
        raise ValueError(f"gap: expected a number >= 0, received {gap!r}")
    if memory_bytes <= 0:
        raise ValueError(f"memory_bytes: expected a positive number, received {memory_bytes!r}")
    begun = time.monotonic()
    until = begun + time_limit_s
    trivial_s = trivial_bound(
        tables, max_placements=max_placements, until=begun + max(time_limit_s / 2, TRIVIAL_S)
    )
    tabulated, entries = tabulate(tables, memory_bytes // BYTES_AN_ENTRY, max_placements=max_placements)
    if entries * BYTES_AN_ENTRY > memory_bytes:
        proof = (
            f"each op by itself at its best; the program (about {entries:,} nonzeros, "
            f"{entries * BYTES_AN_ENTRY / 2**30:.1f} GiB) exceeds the {memory_bytes / 2**30:.1f} GiB allowed"
        )
        return _without_solution(trivial_s, TOO_LARGE, begun, proof, entries)
    reached_s = reached(tables)
    model = build(tables, scale=OBJECTIVE / trivial_s, tabulated=tabulated, reached_s=reached_s, until=until)
    if model is None:
        proof = (
            f"each op by itself at its best; the program (about {entries:,} nonzeros) was not written in time"
        )
        return _without_solution(trivial_s, TIME_LIMIT, begun, proof, entries)
    return _run_solver(tables, model, trivial_s, reached_s, gap, begun, until, entries)


def reached(tables: Tables) -> float:
    """Seconds of the fastest of a few maps that the compiler's rules make."""
    return min(trace_latency(tables, compile_map(tables, rule_named(name)))[0] for name in FIRST_RULES)


def tabulate(tables: Tables, most_entries: int, *, max_placements: int) -> tuple[NDArray[np.bool_], int]:
    """Which ops get columns (bool [N]), and an estimate of the program's nonzeros.

    The rule: ops with more than `max_placements` joint placements never do; of the others those with the most
    placements lose theirs first, until the estimate is at most `most_entries` or none is left.
    """
    ops, levels = len(tables.weight_bytes), len(tables.capacity_bytes)
    tensors = np.array([len(scope(tables, i).tensors) for i in range(ops)])
    placements = float(levels) ** tensors
    as_table = placements * (tensors + 3.0) * (1.0 + 2.0 / levels)
    as_rows = 12.0 * levels * (tensors + 1.0)
    held = np.arange(ops)
    live = float((tables.last_use - held + 1).sum() + 4 * ops) * levels
    chosen = placements <= max_placements
    order = np.argsort(-as_table, kind="stable")
    # What the estimate is once the first of `order` have lost their columns: none, one, two …
    saved = np.where(chosen, as_table - as_rows, 0.0)[order]
    estimates = np.where(chosen, as_table, as_rows).sum() + live - np.concatenate([[0.0], np.cumsum(saved)])
    enough = np.flatnonzero(estimates <= most_entries)
    chosen[order[: enough[0] if len(enough) else ops]] = False
    return chosen, int(np.where(chosen, as_table, as_rows).sum() + live)


def margin(model: Model) -> float:
    """Objective units that are taken off HiGHS's dual bound.

    A dual solution whose reduced costs have the wrong sign by up to the tolerance proves a bound that is too
    high by at most the tolerance times the range of each variable, summed.
    """
    program = model.program
    return DUAL_TOLERANCE * float((program.upper - program.lower).sum())


def _run_solver(
    tables: Tables,
    model: Model,
    trivial_s: float,
    reached_s: float,
    gap: float,
    begun: float,
    until: float,
    entries: int,
) -> ExactResult:
    """The best of three bounds (each op by itself, linear, branch and cut), as far as the time goes."""
    program = model.program
    rows, variables = program.matrix.shape
    size = f"{rows:,} rows, {variables:,} columns, {program.matrix.nnz:,} nonzeros"
    bounds = {"each op by itself at its best": trivial_s}
    if (left_s := until - time.monotonic()) > 0:
        linear_s = linear_bound(program, left_s) / model.scale * (1.0 - ROUNDING)
        bounds[f"multipliers of the linear relaxation of the model ({size})"] = linear_s
    search = _search(model, max(bounds.values()) * model.scale, gap, until)
    status, mapping, cost_s = PROVED if search.proved else TIME_LIMIT, None, float("inf")
    if search.solution is not None:
        mapping = rectify(tables, model.mapping(search.solution)[None])[0][0]
        cost_s = trace_latency(tables, mapping)[0]
    mip_s = (search.bound - margin(model)) / model.scale * (1.0 - ROUNDING)
    if mip_s <= min(cost_s, reached_s):
        bounds[f"HiGHS's branch and cut on a relaxation of the model ({size})"] = mip_s
    elif search.bound > model.scale * min(cost_s, reached_s) * (1.0 + DISTRUST):
        status = TIME_LIMIT  # a mapping contradicts HiGHS, which must have lost it to its tolerances
    proof = max(bounds, key=bounds.__getitem__)
    bound_s = min(bounds[proof], cost_s, reached_s)
    return ExactResult(bound_s, mapping, cost_s, status, time.monotonic() - begun, proof, entries)


@dataclass(frozen=True)
class _Search:
    """A bound in objective units before the margin, the best solution float64 [V], whether they met."""

    bound: float
    solution: Floats | None
    proved: bool


def _search(model: Model, bound: float, gap: float, until: float) -> _Search:
    """Branch and cut with a ceiling on the objective a little above the bound, raised as long as nothing is below.

    Under a low ceiling most columns price out, and what is left is quickly searched. A ceiling that nothing
    reaches is itself a bound. `bound` is the one known so far, in objective units.
    """
    step = max(gap, FIRST_STEP)
    best, best_value = None, np.inf
    while (left_s := until - time.monotonic()) > 0:
        ceiling = bound * (1.0 + step)
        last = step >= LAST_STEP
        limit_s = left_s if last else min(left_s, max(left_s * SHARE_OF_A_STEP, 1.0))
        reached, solution, done = _branch_and_cut(model, limit_s, gap / 2, np.inf if last else ceiling)
        bound = max(bound, min(reached, np.inf if last else ceiling))
        if solution is not None and (value := float(model.program.cost @ solution)) < best_value:
            best, best_value = solution, value
        if last or (done and solution is not None) or best_value <= bound * (1.0 + gap):
            return _Search(min(bound, best_value), best, done or best_value <= bound * (1.0 + gap))
        if not done:
            step *= 8.0
        elif time.monotonic() - (until - left_s) < QUICK * left_s:
            step *= 1.5
    return _Search(min(bound, best_value), best, False)


def _branch_and_cut(
    model: Model, time_limit_s: float, gap: float, ceiling: float
) -> tuple[float, Floats | None, bool]:
    """A bound below the ceiling in objective units, a solution float64 [V] if any, and whether HiGHS finished.

    HiGHS may drop nodes within its gap of the incumbent without lowering the bound it reports, so the gap is
    taken off.
    """
    program = model.program
    constraints = [LinearConstraint(program.matrix, program.row_lower, program.row_upper)]
    if np.isfinite(ceiling):
        constraints.append(LinearConstraint(program.cost[None] / OBJECTIVE, -np.inf, ceiling / OBJECTIVE))
    found = milp(
        program.cost,
        integrality=program.integer,
        bounds=Bounds(program.lower, program.upper),
        constraints=constraints,
        options={"time_limit": time_limit_s, "mip_rel_gap": gap, "disp": False},
    )
    if found.status == INFEASIBLE:
        return ceiling, None, True
    reached = -np.inf if found.mip_dual_bound is None else float(found.mip_dual_bound)
    if found.x is None:
        return reached, None, False
    reached = min(reached, float(program.cost @ found.x) * (1.0 - gap))
    return reached, np.asarray(found.x, np.float64), found.status == 0


def _without_solution(bound_s: float, status: str, begun: float, proof: str, entries: int) -> ExactResult:
    return ExactResult(bound_s, None, float("inf"), status, time.monotonic() - begun, proof, entries)
