"""Which codelets there are: a size, how its vectors lie in memory, and its twiddle factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
