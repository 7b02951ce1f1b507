"""What a plan becomes: a flat list of instructions, calls and loops over four memories; and the codelets they call.

Offsets and strides are in complex numbers. Memories are the input (0), the output (1), scratch (2), and scratch that
keeps its zeros (3). `egrl_fft/writer.py` writes such lists, `egrl_fft/machine.py` runs them. The factors that
codelets multiply by are roots of unity, laid out by the loops that they depend on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ARGUMENTS = ("is", "os", "count", "iv", "ov", "outer", "oi", "oo", "tk", "to", "overlap")
"""The int64 arguments, strides in complex numbers: of elements, vectors and the outer loop, in and out; of twiddles by
element and by the outer loop; whether the last vector may overlap the one before (not where input is output)."""


@dataclass(frozen=True)
class Kind:
    """Which codelet.

    Attributes:
        size: 1 .. 64.
        near_in, near_out: the vectors lie side by side in memory (iv = 1, ov = 1).
        twiddle: none, or inputs (pre) or outputs (post) are multiplied: factors for every vector (each), or the same
            for all vectors of one turn of the outer loop (same). Factor 0 is 1 and not stored, except for size 1.
        conjugate: outputs are conjugated, after the twiddle factors.
    """

    size: int
    near_in: bool
    near_out: bool
    twiddle: Literal["none", "pre-each", "pre-same", "post-each", "post-same"] = "none"
    conjugate: bool = False

    @property
    def name(self) -> str:
        """A name that the linker takes."""
        near = f"{'n' if self.near_in else 's'}{'n' if self.near_out else 's'}"
        return f"dft{self.size}_{near}_{self.twiddle.replace('-', '_')}{'_c' if self.conjugate else ''}"


INPUT, OUTPUT, SCRATCH, ZEROED = range(4)
LOOP, END, CODELET, GATHER, SCATTER, RADER_SUM = range(6)
"""Operations: begin and end of a loop; a codelet; and Rader's, see `egrl_fft/machine.py`."""


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


def roots(n: int, rows: int, columns: int) -> NDArray[np.complex128]:
    """exp(-2 pi i a b / n) for a < rows, b < columns: complex128 [rows, columns]."""
    return unit(np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64)), n)


def stage(when: Literal["pre", "post"], loop: int, n: int, count: int, size: int) -> Twiddle:
    """Of a codelet of that size, between the steps of a decimation; it depends on one loop."""
    return Twiddle(when, (loop,), (count, size - 1), lambda: roots(n, count, size)[:, 1:])


def pointwise(count: int, make: Callable[[], NDArray[np.complex128]]) -> Twiddle:
    """A factor for each turn of the first loop, from complex128 [count]."""
    return Twiddle("pre", (0,), (count, 1), lambda: make()[:, None])


def unit(exponent: NDArray[np.int64], n: int) -> NDArray[np.complex128]:
    """exp(-2 pi i exponent / n), by angles of an eighth of a turn at most, so that rounding stays small."""
    eighth, rest = np.divmod(exponent % n * 8, n)
    odd = eighth % 2 == 1
    angle = (2 * np.pi / 8) * np.where(odd, n - rest, rest) / n
    c, s = np.cos(angle), np.sin(angle)
    c, s = np.where(odd, s, c), np.where(odd, c, s)
    quarter = eighth // 2
    c, s = np.where(quarter % 2 == 1, -s, c), np.where(quarter % 2 == 1, c, s)
    return np.where(quarter >= 2, -1, 1) * (c - 1j * s)
