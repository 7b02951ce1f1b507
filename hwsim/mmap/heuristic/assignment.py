"""The production heuristic: what XLA's memory space assignment would do with a program, simplified.

Source: openxla/xla, `xla/service/memory_space_assignment/` (older and in one file: tensorflow 2.x,
`tensorflow/compiler/xla/service/memory_space_assignment.cc`). The paper names it as its baseline (section 5.1) and
does not describe it; the ratios are those of XLA's own tests, which has no defaults for them.

Values (tensors) are placed one after the other, the one first whose place matters most for its size. Each use of a
value finds it where it lies, or it is prefetched, or the use reads from HBM. A value that was written into fast memory
and cannot stay there is evicted after it was written. Values tied by alias groups are placed together: all of them, or
the block is tried again.

Deviations:

- A program is flat (a loop is one instruction); XLA goes into the bodies of loops and calls. Control flow has no
  cost here.
- Times come from the roofline of `hwsim.mmap.cost` with everything in HBM, whatever has been placed.
- Boundedness leaves out what copies would cost other values.
- A window of a copy takes its first step into account and may be as short as its copy: XLA's intervals are open.
- An eviction's window begins with the step after the producer and is not tried step by step where its preferred end
  fails.
- A use that would not be quicker from fast memory is not prefetched: the copy could only slow others down.
- Where an alias group cannot be placed in two tries, its values are tried without it; XLA leaves all of them in HBM.
- No repacking, no copies between places in fast memory, no sliced or cross-program prefetches, no scoped allocations.
- At most 100 steps before the preferred one are tried for a prefetch (XLA limits them likewise in later versions).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hwsim.mmap.heuristic.room import (
    add_copy,
    best_fit,
    hold,
    in_time,
    is_free,
    new_pool,
    new_room,
    prefetch,
    remove_copy,
)
from hwsim.mmap.layout import Layout
from hwsim.mmap.rules.state import COPY, DROP, NO_COPY
from hwsim.mmap.tables import Tables, begins_s, savings_s
from hwsim.problem import Floats
from workloads.programs.program import Program

HBM = -1
"""The offset of an alias group that is in slow memory."""


class Ratios(NamedTuple):
    """Least, preferred and greatest time that a copy may overlap with, over the time that it takes."""

    least: float
    preferred: float
    greatest: float


class _Failed(Exception):
    """A value can neither stay in fast memory nor be evicted, or an alias group would be apart."""


class _Use(NamedTuple):
    """A buffer as the tables have it."""

    number: int
    step: int
    granules: int
    group: int
    demand_s: float
    is_output: bool


@dataclass
class _Held:
    """Where a value lies in fast memory.

    offset: granules; last: to which step; output: the output that has no copy in HBM yet, None: it has one.
    """

    offset: int
    last: int
    output: _Use | None


class Placer:
    """Builds a layout, block by block.

    begin: float64 [T + 1], when each step begins on the heuristic's timeline; saved: float64 [N], seconds that each
    buffer saves in fast memory; longest_s: the longest that a value is kept from one use to the next.
    """

    def __init__(
        self,
        program: Program,
        tables: Tables,
        begin: Floats,
        saved: Floats,
        ratios: Ratios,
        longest_s: float,
    ) -> None:
        self._program, self._tables, self._begin, self._ratios = program, tables, begin, ratios
        self._saved, self._longest_s = saved.tolist(), longest_s
        buffers = len(tables.buffer)
        self._room = new_room(buffers, tables.capacity)
        self._into, self._out = new_pool(buffers, begin), new_pool(buffers, begin)
        self._groups = {int(g): HBM for g in np.flatnonzero(tables.group["oversized"])}
        self._uses: list[list[_Use]] = [[] for _ in program.tensors]
        columns = ("step", "granules", "group", "demand_s", "is_output")
        rows = zip(*(tables.buffer[name].tolist() for name in columns), strict=True)
        for number, (use, row) in enumerate(zip(program.buffers, rows, strict=True)):
            if 0 < row[1] <= tables.capacity:
                self._uses[use.tensor].append(_Use(number, *row))
        self._action = np.where(tables.buffer["granules"] > 0, DROP, -1).astype(np.int8)
        self._offset = np.full(buffers, -1, np.int64)
        self._first, self._last, self._copy_first, self._copy_last = np.full((4, buffers), -1, np.int32)

    def layout(self, granule_bytes: int) -> Layout:
        """What has been placed so far."""
        offset = np.where(self._offset >= 0, self._offset * granule_bytes, -1)
        none = np.zeros(len(self._tables.step))
        return Layout(self._action, offset, self._first, self._last, self._copy_first, self._copy_last, none)

    def place(self, block: list[int], retries: int) -> None:
        """Place the tensors of a block together; what cannot be placed stays in HBM."""
        uses = [use for tensor in block for use in self._uses[tensor]]
        groups = {use.group for use in uses if use.group >= 0 and use.group not in self._groups}
        for turn in range(retries + 1):
            if self._try_block(block, uses, groups, turn):
                return
        if groups:
            self._groups |= dict.fromkeys(groups, HBM)
            self._try_block(block, uses, set(), retries)

    def _try_block(self, block: list[int], uses: list[_Use], groups: set[int], turn: int) -> bool:
        """Place a block, wholly or not at all; whether it is placed."""
        held = int(self._room.held[0])
        try:
            for tensor in block:
                self._place_value(tensor, turn)
        except _Failed:
            # Intervals were appended: the count takes them back. Copies stand in order of time and go one by one.
            self._room.held[0] = held
            for use in uses:
                self._take_back(use)
            for group in groups:
                self._groups.pop(group, None)
            return False
        return True

    def _take_back(self, use: _Use) -> None:
        """Leave a use in HBM again."""
        b = use.number
        if self._action[b] == COPY:
            remove_copy(self._out if use.is_output else self._into, int(self._copy_first[b]), b)
        self._action[b], self._offset[b] = DROP, -1
        self._first[b] = self._last[b] = self._copy_first[b] = self._copy_last[b] = -1

    def _place_value(self, tensor: int, turn: int) -> None:
        """Place the uses of a tensor one after the other. Raises `_Failed` if that cannot be done."""
        uses, ready = self._uses[tensor], int(self._tables.ready[tensor])
        # Where the value lies at the moment; None: in HBM only.
        held: _Held | None = None
        if uses and uses[0].is_output:
            held = self._define(uses[0], uses[1].step if len(uses) > 1 else uses[0].step, tensor)
        for use in uses[1 if uses and uses[0].is_output else 0 :]:
            if held is not None and self._keep_until(use, held):
                continue
            # It cannot stay: it must be in HBM before this use, which then may be prefetched from there.
            if held is not None and held.output is not None:
                ready = self._evict(held.output, held, use.step - 1, turn)
            held = self._prefetch(use, ready)
        if held is None or held.output is None:
            return
        # Still without a copy in HBM after the last use: it stays as a NoCopy to the end of its live range, unless it
        # is a result or something else is there by then.
        last = self._program.live_range(tensor)[1]
        if self._program.tensors[tensor].leaves or not self._reserve(held, last, held.output):
            self._evict(held.output, held, len(self._tables.step) - 1, turn)
        else:
            self._first[held.output.number], self._last[held.output.number] = held.output.step, last

    def _fixed(self, use: _Use) -> int | None:
        """The offset that a use's alias group lies at; HBM; None if that is open."""
        return self._groups.get(use.group) if use.group >= 0 else None

    def _decide(self, use: _Use, offset: int) -> None:
        """Put a use there, and its alias group."""
        if use.group >= 0 and self._groups.setdefault(use.group, offset) != offset:
            raise _Failed
        self._offset[use.number] = offset

    def _reserve(self, held: _Held, last: int, use: _Use) -> bool:
        """Go on holding a value until `last`, for the alias group of `use`; False: something else is there."""
        if last <= held.last:
            return True
        if not is_free(self._room, held.last + 1, last, held.offset, use.granules, use.group):
            return False
        hold(self._room, held.last + 1, last, held.offset, use.granules, use.group)
        held.last = last
        return True

    def _define(self, use: _Use, until: int, tensor: int) -> _Held | None:
        """Write a value into fast memory, where it stays until its first use; None: it goes to HBM."""
        fixed = self._fixed(use)
        # A result that nothing reads later would only be written back.
        needless = self._program.tensors[tensor].leaves and until == use.step
        kept_s = float(self._begin[until] - self._begin[use.step])
        if fixed == HBM or needless or kept_s > self._longest_s:
            self._decide(use, HBM)
            return None
        at = -1 if fixed is None else fixed
        offset = best_fit(self._room, use.step, until, use.granules, at, use.group)
        # An alias group without room is decided, too: it stays in HBM.
        self._decide(use, offset)
        if offset < 0:
            return None
        hold(self._room, use.step, until, offset, use.granules, use.group)
        self._action[use.number] = NO_COPY
        return _Held(offset, until, use)

    def _keep_until(self, use: _Use, held: _Held) -> bool:
        """Keep a value where it lies until this use; False: it cannot stay."""
        first, fixed = held.last + 1, self._fixed(use)
        if fixed is not None and fixed != held.offset:
            return False
        if float(self._begin[use.step] - self._begin[held.last]) > self._longest_s:
            return False
        if not self._reserve(held, use.step, held.output or use):
            return False
        self._decide(use, held.offset)
        self._action[use.number] = NO_COPY
        # The interval of an output is written when it is evicted or stays for good.
        if held.output is None:
            self._first[use.number], self._last[use.number] = first, use.step
        return True

    def _evict(self, output: _Use, held: _Held, limit: int, turn: int) -> int:
        """Copy a value to HBM after it was written; the first step at which it is there."""
        begin, first = self._begin, output.step + 1
        # The window ends when the wanted time is over, but not before what is promised already, nor after `limit`.
        # Where something else lies there by then it is shortened.
        wanted = begin[first] + self._ratios.preferred * 2.0**turn * output.demand_s
        last = min(max(int(np.searchsorted(begin, wanted)) - 1, first, held.last), limit)
        while last > held.last and not self._reserve(held, last, output):
            last -= 1
        if last < first or not in_time(self._out, first, last, output.demand_s, output.number):
            raise _Failed
        b = output.number
        add_copy(self._out, first, last, output.demand_s, b)
        self._action[b] = COPY
        self._first[b], self._last[b] = output.step, last
        self._copy_first[b], self._copy_last[b] = first, last
        return last + 1

    def _prefetch(self, use: _Use, ready: int) -> _Held | None:
        """Copy a value from HBM in time for a use; None: the use reads from HBM."""
        fixed, saved_s, b = self._fixed(use), self._saved[use.number], use.number
        if fixed == HBM or (fixed is None and saved_s <= 0.0):
            self._decide(use, HBM)
            return None
        at = -1 if fixed is None else fixed
        first, offset = prefetch(
            self._room,
            self._into,
            ready,
            use.step,
            use.granules,
            at,
            use.group,
            use.demand_s,
            saved_s,
            b,
            self._ratios,
        )
        self._decide(use, offset)
        if offset < 0:
            return None
        hold(self._room, first, use.step, offset, use.granules, use.group)
        add_copy(self._into, first, use.step - 1, use.demand_s, b)
        self._action[b] = COPY
        self._first[b], self._last[b] = first, use.step
        self._copy_first[b], self._copy_last[b] = first, use.step - 1
        return _Held(offset, use.step, None)


RATIOS = Ratios(0.8, 1.5, 10.0)
"""The greatest also limits how long a value is kept without a copy, as a multiple of the time in which all of fast
memory could be copied."""
RETRIES = 1
"""Tries of a value after its first one; each doubles the time that an eviction is given."""


def heuristic_layout(program: Program, tables: Tables, granule_bytes: int, ratios: Ratios = RATIOS) -> Layout:
    """The heuristic's layout of a program.

    Copies overlap in it, which the judge accepts with `pools=True`; `copy_use_s` is all zeros, since nothing is
    taken of the game's supply. Its `action` is also the proposal with which the game comes near to it.
    """
    saved = savings_s(tables)
    longest_s = ratios.greatest * tables.capacity * granule_bytes / tables.hbm_Bps
    placer = Placer(program, tables, begins_s(tables), saved, ratios, longest_s)
    for block in _blocks(tables, _order(program, tables, saved)):
        placer.place(block, RETRIES)
    return placer.layout(granule_bytes)


def _order(program: Program, tables: Tables, saved: Floats) -> list[int]:
    """The tensors that fit, those first whose place matters most: boundedness, size, duration, latest use, start."""
    benefit = np.zeros(len(program.tensors))
    np.add.at(benefit, tables.buffer["tensor"], saved)
    fits = {
        int(b["tensor"])
        for b in tables.buffer[["tensor", "granules"]]
        if 0 < b["granules"] <= tables.capacity
    }

    def key(tensor: int) -> tuple[float, int, int, int, int, int]:
        size, (first, last) = program.tensors[tensor].size_bytes, program.live_range(tensor)
        return -float(benefit[tensor]) / size**0.5, -size, first - last, last, first, tensor

    return sorted(fits, key=key)


def _blocks(tables: Tables, order: list[int]) -> list[list[int]]:
    """Tensors that alias groups tie together, in the order of their first one; within a block by number."""
    root: dict[int, int] = {}

    def find(tensor: int) -> int:
        """The representative of a tensor's block (union-find with path halving)."""
        while root.setdefault(tensor, tensor) != tensor:
            root[tensor] = root[root[tensor]]
            tensor = root[tensor]
        return tensor

    member: dict[int, int] = {}
    for buffer in tables.buffer[["tensor", "group", "granules"]]:
        tensor, group = int(buffer["tensor"]), int(buffer["group"])
        if group >= 0 and buffer["granules"] > 0:
            root[find(tensor)] = find(member.setdefault(group, tensor))
    blocks: dict[int, list[int]] = {}
    for tensor in order:
        blocks.setdefault(find(tensor), []).append(tensor)
    return [sorted(block) for block in blocks.values()]
