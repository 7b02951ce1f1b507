"""A proven upper bound on the return: how much of its time any play of the MMapGame can save a program.

Source: linear relaxation (`hwsim/mmap/bound/relaxation.py`). HiGHS (Huangfu and Hall, Math. Prog. Comp. 2018) suggests
multipliers, from which the bound is computed anew, so that it holds whatever HiGHS's tolerances
(`hwsim.linear_program.linear_bound`). Of programs with few decisions, then branch and cut over whole decisions; that
bound is HiGHS's less a margin. The better one counts. The proof is in docs/log/mmap-bound.md.

Deviations: programs of many steps are solved with few checkpoints first, so that there is a bound when time runs out.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from hwsim.linear_program import LinearProgram, linear_bound
from hwsim.mmap.bound.gains import savings
from hwsim.mmap.bound.relaxation import relaxation
from hwsim.mmap.bound.uses import ROUNDING, Ints, Uses, uses_of
from hwsim.mmap.tables import Tables
from hwsim.problem import Bound

DEFAULT_SECONDS = 60.0

SIMPLEX, INTERIOR = "highs-ds", "highs-ipm"

FIRST = ((300, SIMPLEX), (1200, INTERIOR))
"""Checkpoints of the programs that are solved first, where there are more than twice as many steps, and how: on 300
the dual simplex was ahead, on all the interior point."""

SEARCHED = 1500
"""Programs with up to this many uses are searched by branch and cut."""

OBJECTIVE = 1e4
"""Units of the objective of branch and cut that are a reward of 1."""

DUAL_TOLERANCE = 1e-7
"""Of HiGHS: a reduced cost may have the wrong sign by this many units."""

LATENCY_ROUNDING = 1e-12
"""What the bound on the cost gives away for sums in another order."""

GAP = 1e-4
"""Branch and cut stops when bound and solution differ by this share."""


def upper_bound(tables: Tables, time_limit_s: float = DEFAULT_SECONDS) -> Bound:
    """What no legal play returns more than, as a share of the most that fast memory could save; and costs less than.

    It holds with and without `drop_backup` and for both rules of copies.

    Args:
        tables: the program on the chip.
        time_limit_s: HiGHS looks at the clock now and then, so it may take a little longer.

    Raises:
        ValueError: the limit is not positive.
    """
    if not time_limit_s > 0:
        raise ValueError(f"time_limit_s: expected a positive number, received {time_limit_s!r}")
    begun = time.monotonic()
    until = begun + time_limit_s
    uses = uses_of(tables)
    best, proof = trivial_bound(tables, uses), "each instruction by itself at its best"
    steps = len(tables.step)
    for number, method in (*(few for few in FIRST if 2 * few[0] < steps), (steps, INTERIOR)):
        # A program on few steps is quick and gives a bound early; a later one counts only if it is lower.
        left_s = until - time.monotonic()
        if best <= 0.0 or left_s <= 0:
            break
        program = relaxation(tables, uses, spread(steps, number))
        found = -linear_bound(program, left_s, method)
        size = _describe_size(program, number, steps)
        if found < best:
            best, proof = found, f"multipliers of the linear relaxation of the game {size}"
        left_s = until - time.monotonic()
        if number == steps and len(uses) <= SEARCHED and left_s > 0:
            found = -_branch_and_cut(program, left_s)
            if found < best:
                best, proof = found, f"HiGHS's branch and cut on a relaxation of the game {size}"
    return _bound(tables, best, proof, time.monotonic() - begun)


def known_at_once(tables: Tables) -> Bound:
    """What needs no search: no play returns more than everything in fast memory would, which is 1."""
    return _bound(tables, 1.0, "everything in fast memory", 0.0)


def _bound(tables: Tables, best: float, proof: str, seconds: float) -> Bound:
    """No latency is below the sum of L_I(S), and no return above the best: so no cost is below what that leaves."""
    reward = max(best, 0.0) + ROUNDING * max(tables.none_s / tables.most_s, 1.0)
    least_s = tables.none_s * (1 - LATENCY_ROUNDING) - reward * tables.most_s
    return Bound(max(least_s, 0.0), reward, proof, seconds)


def _describe_size(program: LinearProgram, number: int, steps: int) -> str:
    """How large a program is, for the text of a proof."""
    rows, columns = program.matrix.shape
    entries = program.matrix.nnz
    return f"({number:,} of {steps:,} steps; {rows:,} rows, {columns:,} columns, {entries:,} nonzeros)"


def _branch_and_cut(program: LinearProgram, time_limit_s: float) -> float:
    """A lower bound on the program's objective where whole decisions are whole; -infinity where none came in time.

    What is taken off: HiGHS's tolerance of reduced costs times the range of each variable, summed, and its gap, within
    which of the best solution it may drop nodes without lowering the bound that it reports.
    """
    found = milp(
        program.cost * OBJECTIVE,
        integrality=program.integer,
        bounds=Bounds(program.lower, program.upper),
        constraints=[LinearConstraint(program.matrix, program.row_lower, program.row_upper)],
        options={"time_limit": time_limit_s, "mip_rel_gap": GAP, "disp": False},
    )
    if found.mip_dual_bound is None:
        return -float("inf")
    reached = float(found.mip_dual_bound)
    if found.x is not None:
        value = float(program.cost @ found.x) * OBJECTIVE
        reached = min(reached, value - GAP * abs(value))
    return (reached - DUAL_TOLERANCE * float((program.upper - program.lower).sum())) / OBJECTIVE


def trivial_bound(tables: Tables, uses: Uses) -> float:
    """The return if every buffer that can be placed at all lay in fast memory."""
    cap, saved = savings(tables, uses)
    total = np.bincount(uses.step, saved, len(tables.step))
    return float(np.minimum(total, cap).sum())


def spread(steps: int, number: int) -> Ints:
    """int64 [number], steps at equal distances, the last one included."""
    return np.asarray((np.arange(1, number + 1) * steps) // number - 1, np.int64)
