"""What one op takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """What an op takes.

    Attributes:
        seconds: the shortest run.
        peak_bytes: allocated at most while it runs, beside its inputs.
        held_bytes: for each result the bytes of its storage, sometimes more than it needs; 0 for what is no tensor.
        estimated: True if it could not run by itself: then it takes as long as reading and writing its values.
    """

    seconds: float
    peak_bytes: int
    held_bytes: tuple[int, ...] = ()
    estimated: bool = False
