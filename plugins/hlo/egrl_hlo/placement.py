"""Where XLA put the buffers of a program, read from its scheduled text: memory spaces of operands and results, copies.

A buffer that lies in fast memory where its instruction reads it was copied there if that is the first use of the copy,
and else lies there already. A result that is written to fast memory was copied out if a copy of it to HBM begins.

What a text has and a placement of the game has not: a copy in slices is one copy, from where its first slice begins; a
copy that nothing runs beside counts as running beside the instruction before it (into fast memory) or after it (out);
the prefetch for the next program, and copies that nothing uses, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from egrl_hlo.layout import HBM, VMEM
from egrl_hlo.trace import NONE, Trace
from workloads.programs.compiled import COPY, DROP, NO_COPY, Compiled, Estimate, Placed
from workloads.programs.program import Program

NAME = "xla"


def placement(found: Trace, program: Program, values: Sequence[int]) -> Compiled | None:
    """XLA's placement and estimates; None where the text has neither. `values` [U] are the tensors' in the trace."""
    if not any(place.space == VMEM for place in found.places) and not any(s.cycles for s in found.steps):
        return None
    out: dict[int, int] = {}
    for number, place in enumerate(found.places):
        if place.source != NONE and place.space == HBM:
            out.setdefault(place.source, number)
    last = max(len(found.steps) - 1, 0)
    used: set[int] = set()
    buffers = []
    for use in program.buffers:
        number = found.steps[use.instruction].at[values[use.tensor]]
        place = found.places[number]
        if place.space != VMEM:
            buffers.append(Placed(DROP))
        elif use.is_output and number in out:
            copy = found.places[out[number]]
            buffers.append(Placed(COPY, min(copy.begin, last), min(max(copy.begin, copy.ready - 1), last)))
        elif use.is_output or number in used or place.source == NONE:
            buffers.append(Placed(NO_COPY))
        else:
            end = max(place.ready - 1, 0)
            buffers.append(Placed(COPY, min(place.begin, end), end))
        used.add(number)
    estimates = (Estimate(step.cycles, step.scratch_bytes) for step in found.steps)
    return Compiled(NAME, tuple(estimates), tuple(buffers))
