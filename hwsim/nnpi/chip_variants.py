"""Chips around one: what a policy that is to serve chips it has not seen is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hwsim.nnpi.chip import Chip

BANDWIDTH, CAPACITY, CLOCK = 1.0, 1.5, 1.5
"""Largest logarithms to base 2 of the factors by which a chip's bandwidths, capacities and clock are changed."""


def spread(memories: int) -> np.ndarray:
    """Those of the factors of a chip with so many memories, float64 [2 L]: bandwidths, capacities but one, clock."""
    return np.array([BANDWIDTH] * memories + [CAPACITY] * (memories - 1) + [CLOCK])


def chip_with(chip: Chip, factors: Sequence[float], name: str = "") -> Chip:
    """A chip whose bandwidths, capacities but that of the slowest memory, and clock are times 2^factor.

    Bandwidths stay in order. Raises ValueError unless there are 2 L factors.
    """
    count = len(chip.memories)
    if len(factors) != 2 * count:
        raise ValueError(f"factors: expected {2 * count}, received {len(factors)}")
    times = [2.0**factor for factor in factors]
    bandwidths = sorted(m.bandwidth_Bps * by for m, by in zip(chip.memories, times[:count], strict=True))
    capacities = [
        int(m.capacity_bytes * by) for m, by in zip(chip.memories, [1.0, *times[count:-1]], strict=True)
    ]
    memories = tuple(
        replace(memory, bandwidth_Bps=Bps, capacity_bytes=max(capacity, memory.reserved_bytes + 1))
        for memory, Bps, capacity in zip(chip.memories, bandwidths, capacities, strict=True)
    )
    compute = replace(chip.compute, clock_Hz=chip.compute.clock_Hz * times[-1])
    return replace(chip, name=name or chip.name, memories=memories, compute=compute)


def chip_around(chip: Chip, rng: np.random.Generator, name: str = "") -> Chip:
    """A chip whose factors are drawn evenly."""
    largest = spread(len(chip.memories))
    return chip_with(chip, rng.uniform(-largest, largest).round(4).tolist(), name)
