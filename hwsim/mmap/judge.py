"""Is a layout one that the rules of the game allow? Slow and obvious; it shares no code with the game.

What must hold (MMapGame paper, appendix A, with the rulings of docs/explanations/mmap.md):

- a tensor with a size is dropped, or lies at a whole granule inside fast memory; an alias group lies there wholly at
  one offset, or not at all;
- two buffers never lie at the same place at the same time, unless they are of one alias group;
- a Copy of an input is transferred from when its tensor exists in HBM until before its instruction, and lies in fast
  memory from the first step of that until its instruction; a Copy of an output the other way round, in time to end;
- a NoCopy of an input goes on where the same tensor lies already; a NoCopy of an output lies there as long as its
  tensor is available, and a result of the program must be in HBM at the end;
- two windows of copies have at most one step in common (equation 6); what each step gives is no more than its time with
  all buffers in fast memory, and is enough for all copies in their windows (equation 5).

The last rule holds for layouts of the game only. The copies of the production heuristic overlap, so equations 5 and 6
cannot hold for them. What must hold instead: on a timeline on which every instruction takes as long as with all its
buffers in HBM, the copies of each direction, one after the other in the order of their first steps (then of buffers),
end in their windows.

Whether an interval is as short and an offset as low as possible is not judged; the tests' twin checks that.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.mmap.layout import Layout
from hwsim.problem import Violation
from workloads.programs.program import NO_ALIAS, Program

DROP, COPY, NO_COPY = 0, 1, 2
NAMES = {-1: "undecided", DROP: "drop", COPY: "copy", NO_COPY: "nocopy"}
TOLERANCE = 1e-9
"""Share of a copy, and of the longest step, by which sums of seconds may be off."""
LATE_TOLERANCE = 1e-9
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
            if end > due + LATE_TOLERANCE * begin[-1]:
                found.append(Violation("copy ends after its window", program.buffer_name(n), end, due, "s"))
    return found


def overlaps(program: Program, layout: Layout, held: NDArray[np.int64]) -> list[Violation]:
    """Pairs that overlap in time and place: each of `held` against all that begin within its interval."""
    held = held[np.argsort(layout.first[held], kind="stable")]
    size = np.array([program.tensors[program.buffers[n].tensor].size_bytes for n in held], np.int64)
    alias = np.array([program.buffers[n].alias_id for n in held], np.int64)
    first, last, offset = layout.first[held], layout.last[held], layout.offset_bytes[held]
    pairs = []
    for k, n in enumerate(held):
        later = slice(k + 1, np.searchsorted(first, last[k], side="right"))
        clash = first[k] <= last[later]
        clash &= (offset[later] < offset[k] + size[k]) & (offset[k] < offset[later] + size[later])
        clash &= (alias[later] != alias[k]) | (alias[k] == NO_ALIAS)
        pairs += [(min(n, m), max(n, m)) for m in held[later][clash]]
    return [
        Violation(
            "two buffers at the same place and time",
            f"{program.buffer_name(n)} and {program.buffer_name(m)}",
            2,
            1,
            "buffers",
        )
        for n, m in sorted(pairs)
    ]


def windows(program: Program, layout: Layout) -> list[Violation]:
    """Equation 6: pairs of windows with more than one step in common, each against all that begin within it."""
    copies = np.array([n for n in range(len(program)) if layout.action[n] == COPY], np.int64)
    copies = copies[np.argsort(layout.copy_first[copies], kind="stable")]
    start, end = layout.copy_first[copies], layout.copy_last[copies]
    pairs = []
    for k, n in enumerate(copies):
        later = slice(k + 1, np.searchsorted(start, end[k], side="left"))
        common = np.minimum(end[k], end[later]) - start[later] + 1
        pairs += [
            (min(n, m), max(n, m), int(steps))
            for m, steps in zip(copies[later], common, strict=True)
            if steps > 1
        ]
    return [
        Violation(
            "copies at the same time",
            f"{program.buffer_name(n)} and {program.buffer_name(m)}",
            steps,
            1,
            "steps",
        )
        for n, m, steps in sorted(pairs)
    ]


@dataclass(frozen=True)
class Rates:
    """The chip as the judge needs it: bytes, bytes per second, operations per second."""

    capacity_bytes: int
    granule_bytes: int
    hbm_Bps: float
    read_Bps: float
    write_Bps: float
    peak_flops: float


def judge(
    program: Program, rates: Rates, layout: Layout, literal_copies: bool = False, pools: bool = False
) -> list[Violation]:
    """Every rule that a layout breaks; empty: it is valid.

    Args:
        program, rates: what is laid out on what.
        layout: of N buffers and T steps.
        literal_copies: whether a copy's window must touch its instruction (the paper's own equation 6).
        pools: whether copies may overlap, a queue in each direction, as the heuristic's do.

    Raises:
        ValueError: the layout has other numbers of buffers or steps.
    """
    if len(layout.action) != len(program) or len(layout.copy_use_s) != len(program.instructions):
        raise ValueError(
            f"layout: expected {len(program)} buffers and {len(program.instructions)} steps, received"
            f" {len(layout.action)} and {len(layout.copy_use_s)}"
        )
    placed = [n for n in range(len(program)) if layout.action[n] in (COPY, NO_COPY)]
    uses: list[list[int]] = [[] for _ in program.tensors]
    for n, use in enumerate(program.buffers):
        uses[use.tensor].append(n)
    ready = [_in_hbm_from(program, layout, mine) if mine else 0 for mine in uses]
    found = []
    for n, use in enumerate(program.buffers):
        found += _alone(program, rates, layout, n, uses[use.tensor], ready[use.tensor], literal_copies)
    found += _groups(program, layout)
    found += overlaps(program, layout, np.array([n for n in placed if layout.first[n] >= 0], np.int64))
    if pools:
        return found + late_copies(program, rates.hbm_Bps, rates.peak_flops, layout)
    return found + windows(program, layout) + _supply(program, rates, layout)


def _alone(
    program: Program, rates: Rates, layout: Layout, n: int, uses: list[int], ready: int, literal: bool
) -> list[Violation]:
    """Violations of one buffer, apart from room.

    `uses`: the buffers of its tensor; `ready`: the first step at which that can be copied in.
    """
    action, where = int(layout.action[n]), program.buffer_name(n)
    size = program.tensors[program.buffers[n].tensor].size_bytes
    offset, span, window = int(layout.offset_bytes[n]), _interval(layout, n), _window(layout, n)
    if (size == 0) != (action == -1) or action not in NAMES:
        return [
            Violation("decision for a buffer without a size, or none for one with", where, action, size, "")
        ]
    if action in (-1, DROP):
        if (offset, span, window) != (-1, (-1, -1), (-1, -1)):
            return [Violation("place in fast memory though not put there", where, offset, -1, "bytes")]
        return []
    if offset < 0 or offset % rates.granule_bytes:
        return [Violation("offset is no whole granule", where, offset, rates.granule_bytes, "bytes")]
    if offset + size > rates.capacity_bytes:
        return [Violation("beyond fast memory", where, offset + size, rates.capacity_bytes, "bytes")]
    if action == COPY:
        return _copy(program, layout, n, ready, literal)
    if window != (-1, -1):
        return [Violation("copy window of a NoCopy", where, window[0], -1, "step")]
    return _no_copy(program, layout, n, uses)


def _copy(program: Program, layout: Layout, n: int, ready: int, literal: bool) -> list[Violation]:
    """Violations of a Copy: its window, its interval, and that its tensor is in HBM by then."""
    use, where = program.buffers[n], program.buffer_name(n)
    now, (first, last), (start, end) = use.instruction, _interval(layout, n), _window(layout, n)
    if start > end:
        return [Violation("copy window is empty", where, start, end, "step")]
    # Out: written at the instruction, copied after it, gone when the copy ends.
    if use.is_output:
        if (first, last) != (now, end):
            return [
                Violation("interval is not from the instruction to the copy's end", where, last, end, "step")
            ]
        if start <= now or (literal and start != now + 1):
            return [Violation("copy does not begin after the instruction", where, now + 1, start, "step")]
        steps = len(program.instructions)
        return (
            [Violation("copy ends after the program", where, end, steps - 1, "step")] if end >= steps else []
        )
    # In: there from the first step of the copy, copied before the instruction.
    if (first, last) != (start, now):
        return [
            Violation("interval is not from the copy's start to the instruction", where, first, start, "step")
        ]
    if end >= now or (literal and end != now - 1):
        return [Violation("copy does not end before the instruction", where, end, now - 1, "step")]
    return (
        [Violation("copy before the tensor is in HBM", where, ready, start, "step")] if start < ready else []
    )


def _in_hbm_from(program: Program, layout: Layout, uses: list[int]) -> int:
    """The first step at which a tensor can be copied in: after its copy out, or after the step that makes it."""
    for n in uses:
        if program.buffers[n].is_output and layout.action[n] == COPY:
            return int(layout.copy_last[n]) + 1
    return program.tensors[program.buffers[uses[0]].tensor].produced + 1


def _no_copy(program: Program, layout: Layout, n: int, uses: list[int]) -> list[Violation]:
    """Violations of a NoCopy: an output's interval, or that an input lies there already."""
    use, where = program.buffers[n], program.buffer_name(n)
    first, last = _interval(layout, n)
    if use.is_output:
        if program.tensors[use.tensor].leaves:
            return [Violation("a result is kept in fast memory only", where, 1, 0, "copies")]
        wanted = program.live_range(use.tensor)
        if (first, last) != wanted:
            return [Violation("interval is not the live range", where, last, wanted[1], "step")]
        return []
    if first >= 0 and last != use.instruction:
        return [Violation("interval does not end at the instruction", where, use.instruction, last, "step")]
    # An earlier use of the tensor must lie at the same place at step `held`: now, or just before the interval begins.
    held = use.instruction if first < 0 else first - 1
    # The last one first: a tensor that is used often lies there by the use before this one.
    for k in range(bisect_left(uses, n) - 1, -1, -1):
        other = uses[k]
        start, end = _interval(layout, other)
        there = layout.offset_bytes[other] == layout.offset_bytes[n] and layout.action[other] in (
            COPY,
            NO_COPY,
        )
        if there and 0 <= start <= held <= end:
            return []
    return [Violation("the tensor does not lie there already", where, held, -1, "step")]


def _groups(program: Program, layout: Layout) -> list[Violation]:
    """Members of an alias group that do not lie where the first one does (-1: in HBM)."""
    found: list[Violation] = []
    first: dict[int, int] = {}
    for n, use in enumerate(program.buffers):
        if use.alias_id == NO_ALIAS or program.tensors[use.tensor].size_bytes == 0:
            continue
        m = first.setdefault(use.alias_id, n)
        if layout.offset_bytes[n] != layout.offset_bytes[m]:
            where = f"{program.buffer_name(m)} and {program.buffer_name(n)}"
            offsets = float(layout.offset_bytes[n]), float(layout.offset_bytes[m])
            found.append(Violation(f"alias group {use.alias_id} is apart", where, *offsets, "bytes"))
    return found


def _supply(program: Program, rates: Rates, layout: Layout) -> list[Violation]:
    """Equation 5: what copies use of each step is there, and is enough for all of them.

    It is handed out step by step to the copies that are under way, to the one whose window ends first. If that does
    not serve all of them no other order does.
    """
    supply = _fast_seconds(program, rates)
    slack = TOLERANCE * float(supply.max(initial=0.0))
    found = [
        Violation("copies take longer than the step", f"step {t}", float(used), float(supply[t]), "s")
        for t, used in enumerate(layout.copy_use_s)
        if not -slack <= used <= supply[t] + slack
    ]
    starting: dict[int, list[int]] = {}
    demand = {}
    for n, use in enumerate(program.buffers):
        if layout.action[n] == COPY:
            starting.setdefault(int(layout.copy_first[n]), []).append(n)
            demand[n] = program.tensors[use.tensor].size_bytes / rates.hbm_Bps
    missing = dict(demand)
    waiting: list[tuple[int, int]] = []
    for t, used in enumerate(layout.copy_use_s):
        for n in starting.get(t, []):
            heapq.heappush(waiting, (int(layout.copy_last[n]), n))
        left = float(used)
        # A copy whose window is over leaves the queue with what it misses.
        while waiting and (left > 0 or waiting[0][0] < t):
            end, n = waiting[0]
            taken = min(left, missing[n]) if end >= t else 0.0
            missing[n] -= taken
            left -= taken
            if end < t or missing[n] <= 0:
                heapq.heappop(waiting)
    for n, rest in missing.items():
        if rest > TOLERANCE * demand[n] + slack:
            where = program.buffer_name(n)
            found.append(
                Violation("window is too short for its copy", where, demand[n], demand[n] - rest, "s")
            )
    # Seconds that belong to no copy are wrong, too.
    used_s, wanted_s = float(layout.copy_use_s.sum()), sum(demand.values())
    if used_s > wanted_s + TOLERANCE * wanted_s + slack * len(supply):
        found.append(Violation("more is taken than is copied", "all steps", used_s, wanted_s, "s"))
    return found


def _fast_seconds(program: Program, rates: Rates) -> NDArray[np.float64]:
    """float64 [T], seconds of each instruction when its 8 buffers with most traffic lie in fast memory."""
    uses: list[list[int]] = [[] for _ in program.instructions]
    for n, use in enumerate(program.buffers):
        uses[use.instruction].append(n)
    seconds = []
    for instruction, mine in zip(program.instructions, uses, strict=True):
        sized = [n for n in mine if program.tensors[program.buffers[n].tensor].size_bytes > 0]
        fast = sorted(sized, key=lambda n: -program.buffers[n].traffic_bytes)[:8]
        memory = instruction.slow_bytes / rates.hbm_Bps
        for n in mine:
            rate = rates.hbm_Bps
            if n in fast:
                rate = rates.write_Bps if program.buffers[n].is_output else rates.read_Bps
            memory += program.buffers[n].traffic_bytes / rate
        seconds.append(max(instruction.flops / rates.peak_flops, memory))
    return np.array(seconds, np.float64)


def _interval(layout: Layout, n: int) -> tuple[int, int]:
    """First and last step in fast memory."""
    return int(layout.first[n]), int(layout.last[n])


def _window(layout: Layout, n: int) -> tuple[int, int]:
    """First and last step of the copy."""
    return int(layout.copy_first[n]), int(layout.copy_last[n])
