"""How much of its time can any play of the MMapGame save a program: a proven upper bound on the return.

Source: linear relaxation (`bound_rows.py`); HiGHS (Huangfu and Hall, Math. Prog. Comp. 2018) suggests multipliers, from
which the bound is computed anew, so that it holds whatever HiGHS's tolerances (`hwsim.linear_program.linear_bound`).
The proof is in docs/mmap.md, "Upper bound".

Deviations: programs of many steps are solved with few checkpoints first, so that there is a bound when time runs out.
"""

from __future__ import annotations

import time

import numpy as np

from hwsim.linear_program import linear_bound
from hwsim.mmap.bound_gains import savings
from hwsim.mmap.bound_rows import relaxation
from hwsim.mmap.bound_uses import ROUNDING, Ints, Uses, uses_of
from hwsim.mmap.tables import Tables
from hwsim.problem import RewardBound

DEFAULT_SECONDS = 60.0

CHECKPOINTS = (300, 1200)
"""Of the first programs that are solved, where the steps are more than twice as many."""

METHOD = "highs-ipm"
"""Of `scipy.optimize.linprog`."""

SHARE = 0.5
"""Of the time left, for a program that is not the last."""


def upper_bound(tables: Tables, time_limit_s: float = DEFAULT_SECONDS) -> RewardBound:
    """What no legal play returns more than, as a share of the most that fast memory could save.

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
    for number in (*(few for few in CHECKPOINTS if 2 * few < steps), steps):
        left_s = until - time.monotonic()
        if best <= 0.0 or left_s <= 0:
            break
        program = relaxation(tables, uses, spread(steps, number))
        share = 1.0 if number == steps else SHARE
        found = -linear_bound(program, left_s * share, METHOD)
        if found < best:
            rows, columns = program.matrix.shape
            best = found
            proof = (
                f"multipliers of the linear relaxation of the game ({number:,} of {steps:,} steps;"
                f" {rows:,} rows, {columns:,} columns, {program.matrix.nnz:,} nonzeros)"
            )
    slack = ROUNDING * max(tables.none_s / tables.most_s, 1.0)
    return RewardBound(max(best, 0.0) + slack, proof, time.monotonic() - begun)


def trivial_bound(tables: Tables, uses: Uses) -> float:
    """The return if every buffer that can be placed at all lay in fast memory."""
    cap, saved = savings(tables, uses)
    total = np.bincount(uses.step, saved, len(tables.step))
    return float(np.minimum(total, cap).sum())


def spread(steps: int, number: int) -> Ints:
    """int64 [number], steps at equal distances, the last one included."""
    return np.asarray((np.arange(1, number + 1) * steps) // number - 1, np.int64)
