"""The bound that needs no program: no op is faster than it could be by itself."""

from __future__ import annotations

import math
import time

from hwsim.nnpi.exact.columns import ColumnsOf, scope
from hwsim.nnpi.tables import Tables

ROUNDING = 1e-9
"""Relative allowance for float rounding in tables, columns and sums."""

MAX_PLACEMENTS = 4096
"""An op with more joint placements of its tensors gets linear rows."""


def trivial_bound(tables: Tables, *, max_placements: int = MAX_PLACEMENTS, until: float = math.inf) -> float:
    """Seconds: every op by itself at its fastest placement.

    Its compute time stands for that where there are too many placements, and for all ops that are left at the time
    `until` (of `time.monotonic`): less than the fastest, so still a bound.
    """
    levels, columns = len(tables.capacity_bytes), ColumnsOf(tables)
    total = 0.0
    for i in range(len(tables.weight_bytes)):
        if time.monotonic() > until:
            rest = tables.compute_s[i:]
            total += float(rest.sum()) + len(rest) * tables.launch_s
            break
        of = scope(tables, i)
        if levels ** len(of.tensors) <= max_placements:
            total += float(columns(of).duration_s.min())
        else:
            total += tables.launch_s + float(tables.compute_s[i])
    return total * (1.0 - ROUNDING)
