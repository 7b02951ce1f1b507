"""The best placement as a mixed-integer linear program, solved by HiGHS.

One binary variable per place and memory, and one row per memory and step for the capacity. Lives are counted, addresses
are not: a placement may still not pack.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from egrl_edge.banks.cost import fit
from egrl_edge.banks.tables import Ints, Tables
from hwsim.linear_program import Sheet
from hwsim.problem import Bound, Mapping16

SAFETY = 1e-6
"""Relative tolerance of HiGHS, taken off what it proves."""
UNIT = 1e3
"""The objective where all lies in the slowest memory."""
INFEASIBLE = 2
"""The status of a program that has no solution, as scipy says it."""


@dataclass(frozen=True)
class Solved:
    """The result of a solve: the best placement int16 [N, 1] or None, the bound, and True if none exists."""

    mapping: Mapping16 | None
    bound: Bound
    impossible: bool


def solve(tables: Tables, time_limit_s: float) -> Solved:
    """The best placement that fits, or the best found within the time limit."""
    begun = time.monotonic()
    places, levels = tables.size_bytes.shape
    live = tables.size_bytes.max(axis=1) > 0
    seconds = tables.moved_bytes[:, None] * tables.inverse_bandwidth
    scale = UNIT / max(float(seconds[:, 0].sum()), 1e-30)
    sheet = Sheet()
    fits = live[:, None] & (tables.size_bytes <= tables.capacity_bytes)
    chosen = sheet.add(
        places * levels, 0, fits.ravel().astype(np.float64), (seconds * scale).ravel(), integer=True
    ).reshape(places, levels)
    one = sheet.row(int(live.sum()), 1.0, 1.0)
    sheet.put(np.repeat(one, levels), chosen[live].ravel(), 1.0)
    for m in range(levels):
        _add_capacity(sheet, tables, chosen[:, m], m)
    program = sheet.finish()
    found = milp(
        program.cost,
        integrality=program.integer,
        bounds=Bounds(program.lower, program.upper),
        constraints=LinearConstraint(program.matrix, program.row_lower, program.row_upper),
        options={"time_limit": max(time_limit_s, 0.1), "mip_rel_gap": 1e-6},
    )
    reached = found.mip_dual_bound
    if reached is None or not math.isfinite(reached):
        reached = 0.0
    proved = tables.fixed_s + max(0.0, reached / scale * (1 - SAFETY))
    bound = Bound(proved, math.inf, "branch and bound on the placement by HiGHS", time.monotonic() - begun)
    if found.x is None:
        return Solved(None, bound, found.status == INFEASIBLE)
    memory = np.where(live, found.x[chosen].argmax(axis=1), -1).astype(np.int16)
    fitted, moved = fit(tables, memory[None, :, None])
    return Solved(fitted[0] if moved[0] >= 0 else None, bound, False)


def _add_capacity(sheet: Sheet, tables: Tables, chosen: Ints, memory: int) -> None:
    """A row for every step at which a place begins to live: what lives at others is no more than at one of these."""
    size = tables.size_bytes[:, memory]
    capacity = float(tables.capacity_bytes[memory])
    for step in np.unique(tables.first):
        here = np.flatnonzero((tables.first <= step) & (step <= tables.last) & (size > 0))
        free = capacity - float(tables.held_bytes[step, memory])
        if len(here) and size[here].sum() > free:
            scale = max(capacity, 1.0)
            row = sheet.row(1, -math.inf, free / scale)
            sheet.put(np.repeat(row, len(here)), chosen[here], size[here] / scale)
