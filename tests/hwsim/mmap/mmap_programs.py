"""Hypothesis strategies: small programs with aliases and empty tensors, and chips on which they compete for room."""

from __future__ import annotations

from hypothesis import strategies as st

from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor

GRANULE = 16


SIZE = st.sampled_from((0, 1, 16, 16, 17, 32, 48, 64, 100, 200, 300)) | st.integers(1, 400)
"""Bytes; with the chips below a copy takes as many nanoseconds, or half or a third of it."""
FLOPS = st.sampled_from((0, 20, 50, 80, 200))
SLOW = st.sampled_from((0, 0, 0, 40))
MOST_READ = st.sampled_from((4, 4, 4, 10))
LEAVES = st.sampled_from((False, False, True))
FACTOR = st.sampled_from((1, 1, 1, 2, 0))
ALIAS = st.sampled_from((NO_ALIAS, NO_ALIAS, 0, 7))


@st.composite
def chips(draw: st.DrawFn) -> Chip:
    hbm = draw(st.sampled_from((1e9, 1e9, 2e9, 3e9)))
    return Chip(
        "drawn",
        Cmem(GRANULE * draw(st.sampled_from((2, 4, 8, 20, 70, 200))), GRANULE, 3 * hbm, 2 * hbm),
        Hbm(hbm),
        Compute(1e9),
    )


@st.composite
def programs(draw: st.DrawFn, max_steps: int = 9, aliases: bool = True) -> Program:
    """Up to `max_steps` instructions of 0 to 4 inputs and 0 to 2 outputs; now and then more than 8 buffers of one."""
    steps = draw(st.integers(1, max_steps))
    tensors: list[list] = [[f"p{k}", draw(SIZE), -1, 0, False] for k in range(draw(st.integers(1, 4)))]
    instructions, buffers = [], []
    for i in range(steps):
        flops = draw(FLOPS)
        instructions.append(Instruction(f"i{i}", "fusion", flops, draw(SLOW)))
        most = draw(MOST_READ)
        read = draw(st.lists(st.integers(0, len(tensors) - 1), max_size=most, unique=True))
        written = list(range(len(tensors), len(tensors) + draw(st.integers(0, 2))))
        for k in read:
            tensors[k][3] = max(tensors[k][3], i)
        tensors += [[f"t{k}", draw(SIZE), i, i, draw(LEAVES)] for k in written]
        for k in (*read, *written):
            factor = draw(FACTOR)
            alias = draw(ALIAS) if aliases else NO_ALIAS
            buffers.append(Buffer(k, i, k in written, factor * tensors[k][1], alias))
    return Program("drawn", tuple(instructions), tuple(Tensor(*row) for row in tensors), tuple(buffers))


def playable(program: Program) -> bool:
    """Whether there is something to decide and the program takes time."""
    decisions = any(program.tensors[b.tensor].size_bytes for b in program.buffers)
    work = any(i.flops or i.slow_bytes for i in program.instructions)
    return decisions and (work or any(b.traffic_bytes for b in program.buffers))
