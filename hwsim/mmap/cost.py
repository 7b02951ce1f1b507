"""The time of one instruction, some of whose buffers lie in fast memory.

Source: L_I(S) of the MMapGame paper, appendix A ("Benefit and supply values"), there measured on the hardware for
every subset of an instruction's 8 largest buffers.

Deviations (*assumptions*): a roofline (Williams, Waterman, Patterson, CACM 2009) stands for the measurement,

    L_I(S) = max(flops / peak, slow bytes / HBM + fast reads / CMEM read + fast writes / CMEM write),

so that transfers of one instruction do not overlap with each other, but with its arithmetic. "Largest" is by traffic,
and a buffer that is not among them is read from or written to HBM wherever it lies. It is evaluated from two sums of
bytes where it is needed, which takes three divisions; a table of all subsets would be read from memory instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from workloads.programs.program import Program

VARIED = 8
"""Only so many buffers of an instruction can be in fast memory with an effect on its time (paper, appendix A)."""


@kernel
def roofline_s(
    compute_s: float,
    traffic_bytes: int,
    fast_read_bytes: int,
    fast_write_bytes: int,
    hbm_Bps: float,
    read_Bps: float,
    write_Bps: float,
) -> float:
    """Seconds of an instruction that moves `traffic_bytes` in all, of which these from and to fast memory."""
    slow = (traffic_bytes - fast_read_bytes - fast_write_bytes) / hbm_Bps
    return max(compute_s, slow + fast_read_bytes / read_Bps + fast_write_bytes / write_Bps)


def find_varied(program: Program) -> NDArray[np.bool_]:
    """bool [N]: the buffers with a place that counts, the 8 with most traffic of each instruction, ties by order.

    A buffer of a tensor without a size is none of them: it is never placed.
    """
    of_step: list[list[int]] = [[] for _ in program.instructions]
    for number, buffer in enumerate(program.buffers):
        if program.tensors[buffer.tensor].size_bytes > 0:
            of_step[buffer.instruction].append(number)
    counted = np.zeros(len(program), np.bool_)
    for numbers in of_step:
        counted[_largest(program, numbers)] = True
    return counted


def _largest(program: Program, numbers: Sequence[int]) -> list[int]:
    return sorted(numbers, key=lambda number: (-program.buffers[number].traffic_bytes, number))[:VARIED]
