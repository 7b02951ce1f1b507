"""How long an instruction takes, and what fast memory saves it, by the cost of `hwsim.mmap.cost`."""

from __future__ import annotations

import numpy as np

from hwsim.jit import kernel
from hwsim.mmap.cost import roofline_s
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats


@kernel
def instruction_s(tables: Tables, step: int, read_bytes: int, write_bytes: int) -> float:
    """Seconds of an instruction that moves these bytes from and to fast memory."""
    row = tables.step[step]
    return roofline_s(
        row.compute_s,
        row.traffic_bytes,
        read_bytes,
        write_bytes,
        tables.hbm_Bps,
        tables.read_Bps,
        tables.write_Bps,
    )


@kernel
def savings_s(tables: Tables) -> Floats:
    """float64 [N], what each buffer saves its instruction when nothing else of it lies in fast memory."""
    saved = np.empty(len(tables.buffer))
    # Each alone, so that what several save together may be less than the sum.
    for b in range(len(saved)):
        buffer = tables.buffer[b]
        saved[b] = instruction_s(tables, buffer.step, 0, 0)
        saved[b] -= instruction_s(tables, buffer.step, buffer.read_bytes, buffer.write_bytes)
    return saved


@kernel
def begins_s(tables: Tables) -> Floats:
    """float64 [T + 1], when each instruction begins, and the last one ends, with everything in HBM."""
    # Added from the first to the last, as `program_s` adds, so that equal layouts cost the same to the last bit.
    begin = np.zeros(len(tables.step) + 1)
    for t in range(len(tables.step)):
        begin[t + 1] = begin[t] + instruction_s(tables, t, 0, 0)
    return begin
