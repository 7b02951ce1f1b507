"""What a plan becomes: a flat program of calls and loops over three memories, and the writer of such programs.

Offsets and strides are in complex numbers. Memories are the input (0), the output (1), scratch (2), and scratch that
keeps its zeros (3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hwsim.fft.grammar import Plan
from hwsim.fft.host import lanes
from hwsim.fft.kinds import ARGUMENTS, Kind

Transform = Callable[[Plan, NDArray[np.complex128]], NDArray[np.complex128]]
"""A DFT of complex128 [n] by a plan."""
INPUT, OUTPUT, SCRATCH, ZEROED = range(4)
LOOP, END, CODELET, GATHER, SCATTER, RADER_SUM = range(6)
"""Operations: begin and end of a loop; a codelet; and Rader's, see `hwsim/fft/machine.py`."""
ALIGN = 8
APART = 24
"""Scratch blocks are multiples of ALIGN long and APART from each other, lest they share cache sets (assumption)."""


@dataclass(frozen=True)
class View:
    """Elements in a memory: `offset`, `stride` between elements, and a stride for each of the loops around."""

    memory: int
    offset: int
    stride: int
    around: tuple[int, ...] = ()

    def at(self, offset: int, stride: int) -> View:
        """Another beginning, relative to this one, and another stride."""
        return replace(self, offset=self.offset + offset, stride=stride)

    def inside(self, stride: int) -> View:
        """The same within one more loop that moves it by `stride`."""
        return replace(self, around=(*self.around, stride))


@dataclass(frozen=True)
class Loop:
    """A DFT asked for `count` times, its input and its output moved by so much each time."""

    count: int
    source: int
    target: int


@dataclass(frozen=True)
class Twiddle:
    """Factors on the inputs ("pre") or outputs ("post") of a codelet.

    Attributes:
        loops: positions of the loops that they depend on.
        shape: counts of these loops, then the number of elements that have a factor.
        make: the factors, complex128 of that shape.
    """

    when: Literal["pre", "post"]
    loops: tuple[int, ...]
    shape: tuple[int, ...]
    make: Callable[[], NDArray[np.complex128]]


@dataclass(frozen=True)
class Call:
    """One operation: a codelet's kind or another operation, its views, and int64 arguments."""

    operation: int
    kind: Kind | None
    source: View
    target: View
    table: View
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Begin:
    """The begin of a loop."""

    count: int


@dataclass(frozen=True)
class End:
    """The end of a loop."""


@dataclass
class Arena:
    """Blocks of scratch, first fit."""

    size: int = 0
    _free: list[tuple[int, int]] = field(default_factory=list)

    def take(self, wanted: int) -> tuple[int, int]:
        """(offset, length) of at least so much."""
        length = -(-wanted // ALIGN) * ALIGN + APART
        for number, (offset, room) in enumerate(self._free):
            if room >= length:
                del self._free[number]
                if room > length:
                    self._free.append((offset + length, room - length))
                    self._free.sort()
                return offset, length
        offset = self.size
        self.size += length
        return offset, length

    def give(self, block: tuple[int, int] | None) -> None:
        """Take a block back."""
        if block is None:
            return
        merged: list[tuple[int, int]] = []
        for offset, room in sorted([*self._free, block]):
            if merged and merged[-1][0] + merged[-1][1] == offset:
                merged[-1] = merged[-1][0], merged[-1][1] + room
            else:
                merged.append((offset, room))
        self._free = merged


class Writer:
    """Collects a program; without a `transform` all but its factors, which is much quicker."""

    def __init__(self, transform: Transform | None) -> None:
        self.transform = transform
        self.code: list[Call | Begin | End] = []
        self.arena, self.zeroed = Arena(), Arena()
        self.tables: list[NDArray[np.complex128]] = []
        self.indices: list[NDArray[np.int64]] = []
        self.table_size = 0

    def _table(self, twiddle: Twiddle, order: list[int]) -> int:
        """Where the factors begin among all, their axes in another order."""
        length = math.prod(twiddle.shape)
        if self.transform is not None:
            self.tables.append(np.ascontiguousarray(twiddle.make().transpose(order)).reshape(-1))
        self.table_size += length
        return self.table_size - length

    def index(self, values: NDArray[np.int64]) -> int:
        """Where a table of indices begins among all."""
        self.indices.append(values)
        return sum(len(array) for array in self.indices) - len(values)

    def outside(self, loops: Sequence[Loop], *views: tuple[View, Literal["source", "target"]]) -> list[View]:
        """Begin loops around what follows; the views as they are inside."""
        found = [view for view, _ in views]
        for loop in loops:
            self.code.append(Begin(loop.count))
            found = [
                view.inside(loop.source if side == "source" else loop.target)
                for view, (_, side) in zip(found, views, strict=True)
            ]
        return found

    def close(self, loops: Sequence[Loop]) -> None:
        """End them."""
        self.code.extend(End() for _ in loops)

    def codelet(
        self,
        size: int,
        source: View,
        target: View,
        loops: Sequence[Loop],
        twiddle: Twiddle | None = None,
        conjugate: bool = False,
    ) -> None:
        """A codelet for all of the loops: one in its lanes, one around these, the others around the call."""
        in_place = source.memory == target.memory and source.offset == target.offset
        places = [(p, loop) for p, loop in enumerate(loops) if loop.count > 1]
        depends = set(twiddle.loops) if twiddle else set()
        free = [place for place in places if place[0] not in depends]
        places = [*_merged(free), *(place for place in places if place[0] in depends)]
        places.sort(key=lambda place: _worth(place[1], in_place))
        inner = places.pop() if places else (-1, Loop(1, 1, 1))
        places.sort(key=lambda place: (place[0] in depends, place[1].count))
        outer = places.pop() if places else (-1, Loop(1, 0, 0))
        near = inner[1].source == 1, inner[1].target == 1

        strides, tk, at, word = {}, 0, 0, "none"
        if twiddle:
            each = inner[0] in depends
            order = [axis for axis, loop in enumerate(twiddle.loops) if not (each and loop == inner[0])]
            order.append(len(twiddle.loops))
            if each:
                order.append(twiddle.loops.index(inner[0]))
            lengths = [twiddle.shape[axis] for axis in order]
            steps = {axis: math.prod(lengths[p + 1 :]) for p, axis in enumerate(order)}
            strides = {loop: steps[axis] for axis, loop in enumerate(twiddle.loops)}
            tk, at = steps[len(twiddle.loops)], self._table(twiddle, order)
            word = f"{twiddle.when}-{'each' if each else 'same'}"
        rest = [loop for _, loop in places]
        table = View(0, at, 1, (0,) * len(source.around) + tuple(strides.get(p, 0) for p, _ in places))
        views = self.outside(rest, (source, "source"), (target, "target"))
        arguments = dict(zip(ARGUMENTS, (
            source.stride, target.stride, inner[1].count, inner[1].source, inner[1].target,
            outer[1].count, outer[1].source, outer[1].target, tk, strides.get(outer[0], 0), int(not in_place),
        ), strict=True))  # fmt: skip
        kind = Kind(size, near[0], near[1], word, conjugate)  # type: ignore[arg-type]
        self.code.append(Call(CODELET, kind, views[0], views[1], table, tuple(arguments.values())))
        self.close(rest)

    def call(self, operation: int, source: View, target: View, table: View, arguments: Sequence[int]) -> None:
        """Another operation."""
        self.code.append(Call(operation, None, source, target, table, tuple(arguments)))


def _merged(places: list[tuple[int, Loop]]) -> list[tuple[int, Loop]]:
    """Loops that follow on each other in memory made one."""
    found: list[tuple[int, Loop]] = []
    for place, loop in sorted(places, key=lambda p: (abs(p[1].target), abs(p[1].source))):
        if found:
            last = found[-1][1]
            if (loop.source, loop.target) == (last.source * last.count, last.target * last.count):
                found[-1] = found[-1][0], Loop(last.count * loop.count, last.source, last.target)
                continue
        found.append((place, loop))
    return found


def _worth(loop: Loop, in_place: bool) -> float:
    """How well a loop fills the lanes: higher is better (an estimate, for the choice among loops only)."""
    width = lanes()
    whole, rest = divmod(loop.count, width)
    turns = whole + (0 if not rest else 1 if whole and not in_place else rest)
    far = (loop.source != 1) + (loop.target != 1)
    return loop.count / (turns * width) / (1 + 0.5 * far)
