"""Are the copies of the production heuristic's layout in time? Slow and obvious, and shares no code with it.

Its copies overlap, so equations 5 and 6 of the paper cannot hold. What must hold instead: on a timeline on which every
instruction takes as long as with all its buffers in HBM, the copies of each direction, one after the other in the order
of their first steps (of equal ones in that of buffers), end in their windows.
"""

from __future__ import annotations

from hwsim.mmap.layout import Layout
from hwsim.problem import Violation
from workloads.programs.program import Program

COPY = 1
TOLERANCE = 1e-9
"""Share of the program's time by which a copy may be late."""


def late_copies(program: Program, hbm_Bps: float, peak_flops: float, layout: Layout) -> list[Violation]:
    """A violation for each copy that ends after its window."""
    moved = [instruction.slow_bytes for instruction in program.instructions]
    for use in program.buffers:
        moved[use.instruction] += use.traffic_bytes
    begin = [0.0]
    for instruction, traffic in zip(program.instructions, moved, strict=True):
        begin.append(begin[-1] + max(instruction.flops / peak_flops, traffic / hbm_Bps))
    found = []
    for out in (False, True):
        copies = [
            n for n, use in enumerate(program.buffers) if layout.action[n] == COPY and use.is_output == out
        ]
        # When the copy before this one ends.
        end = 0.0
        for n in sorted(copies, key=lambda n: (int(layout.copy_first[n]), n)):
            size = program.tensors[program.buffers[n].tensor].size_bytes
            end = max(begin[int(layout.copy_first[n])], end) + size / hbm_Bps
            due = begin[min(int(layout.copy_last[n]) + 1, len(begin) - 1)]
            if end > due + TOLERANCE * begin[-1]:
                found.append(Violation("copy ends after its window", program.buffer_name(n), end, due, "s"))
    return found
