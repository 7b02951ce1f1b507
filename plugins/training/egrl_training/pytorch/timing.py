"""What one op takes, and the clock of a device."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch


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


def now(device: torch.device) -> float:
    """Seconds, when all that the device was given is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
