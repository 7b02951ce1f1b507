"""What a plan becomes: a flat list of instructions, calls and loops over four memories.

Offsets and strides are in complex numbers. Memories are the input (0), the output (1), scratch (2), and scratch that
keeps its zeros (3). `hwsim/fft/writer.py` writes such lists, `hwsim/fft/machine.py` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hwsim.fft.kinds import Kind

INPUT, OUTPUT, SCRATCH, ZEROED = range(4)
LOOP, END, CODELET, GATHER, SCATTER, RADER_SUM = range(6)
"""Operations: begin and end of a loop; a codelet; and Rader's, see `hwsim/fft/machine.py`."""


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
