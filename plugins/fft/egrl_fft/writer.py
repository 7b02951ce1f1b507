"""The writer of a plan's instructions: it takes scratch, lays out factors, and chooses which loop fills the lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_fft.grammar import Plan
from egrl_fft.instructions import ARGUMENTS, CODELET, Begin, Call, End, Kind, Loop, Twiddle, View
from hwsim.kernel_cache import lanes

Transform = Callable[[Plan, NDArray[np.complex128]], NDArray[np.complex128]]
"""A DFT of complex128 [n] by a plan."""
ALIGN = 8
APART = 24
"""Scratch blocks are multiples of ALIGN long, and APART from each other to avoid shared cache sets (assumption)."""


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


Place = tuple[int, Loop]
"""A loop and its number among those of a call; -1: a loop of one turn that stands for none."""


class _Factors(NamedTuple):
    """Where a codelet's factors lie: strides by loop and by element, their begin, and the kind's word for them."""

    strides: dict[int, int]
    element: int
    begin: int
    word: str


class Writer:
    """Collects instructions; without a `transform` all but the factors, which is much quicker."""

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
        depends = set(twiddle.loops) if twiddle else set()
        inner, outer, others = _assign(loops, depends, in_place)
        near = inner[1].source == 1, inner[1].target == 1
        strides, element, begin, word = self._factors(twiddle, inner[0])
        around = [loop for _, loop in others]
        table = View(
            0, begin, 1, (0,) * len(source.around) + tuple(strides.get(place, 0) for place, _ in others)
        )
        views = self.outside(around, (source, "source"), (target, "target"))
        arguments = dict(zip(ARGUMENTS, (
            source.stride, target.stride, inner[1].count, inner[1].source, inner[1].target,
            outer[1].count, outer[1].source, outer[1].target, element, strides.get(outer[0], 0), int(not in_place),
        ), strict=True))  # fmt: skip
        kind = Kind(size, near[0], near[1], word, conjugate)  # type: ignore[arg-type]
        self.code.append(Call(CODELET, kind, views[0], views[1], table, tuple(arguments.values())))
        self.close(around)

    def _factors(self, twiddle: Twiddle | None, inner: int) -> _Factors:
        """Lay out the factors of a codelet whose lanes run over loop number `inner`."""
        if twiddle is None:
            return _Factors({}, 0, 0, "none")
        # Axes: the other loops, the elements, and last the loop in the lanes, so that its factors lie side by side.
        each = inner in twiddle.loops
        order = [axis for axis, loop in enumerate(twiddle.loops) if loop != inner]
        order.append(len(twiddle.loops))
        if each:
            order.append(twiddle.loops.index(inner))
        lengths = [twiddle.shape[axis] for axis in order]
        steps = {axis: math.prod(lengths[p + 1 :]) for p, axis in enumerate(order)}
        strides = {loop: steps[axis] for axis, loop in enumerate(twiddle.loops)}
        word = f"{twiddle.when}-{'each' if each else 'same'}"
        return _Factors(strides, steps[len(twiddle.loops)], self._table(twiddle, order), word)

    def call(self, operation: int, source: View, target: View, table: View, arguments: Sequence[int]) -> None:
        """Another operation."""
        self.code.append(Call(operation, None, source, target, table, tuple(arguments)))


def _assign(loops: Sequence[Loop], depends: set[int], in_place: bool) -> tuple[Place, Place, list[Place]]:
    """Which loop runs in a codelet's lanes, which one around these inside it, and which around the call.

    `depends`: numbers of the loops that the factors depend on. These are never merged, since the table has an axis for
    each of them.
    """
    places = [(number, loop) for number, loop in enumerate(loops) if loop.count > 1]
    free = [place for place in places if place[0] not in depends]
    places = [*_merge(free), *(place for place in places if place[0] in depends)]
    places.sort(key=lambda place: _worth(place[1], in_place))
    inner = places.pop() if places else (-1, Loop(1, 1, 1))
    # Of the rest a loop on which factors depend, and of these the longest, saves most calls.
    places.sort(key=lambda place: (place[0] in depends, place[1].count))
    outer = places.pop() if places else (-1, Loop(1, 0, 0))
    return inner, outer, places


def _merge(places: list[Place]) -> list[Place]:
    """Make one loop of loops that follow on each other in memory."""
    found: list[Place] = []
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
