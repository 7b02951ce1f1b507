"""Local moves where choices are stages of a pipeline: along the execution order they mostly do not fall.

A *shift* takes the decisions between a place where the choice changes (or an end) and another place one stage further
or
back: what lies within one stage crosses a border, what spans several moves their borders, and from the end on
everything, so that a stage is opened or closed. A *nudge* takes one decision to a neighbouring stage: beside the order
there are branches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NUDGE = 0.3
"""Share of nudges (own choice)."""
FAR = 0.2
"""Share of shifts whose length is anything up to all decisions; of the others it is geometric (own choice)."""


def stage_move(
    stage: NDArray[np.int16], limit: NDArray[np.int16], length: float, rng: np.random.Generator
) -> bool:
    """One move in place, on the choices int16 [M] of decisions in execution order, each below its limit [M].

    `length` is the mean of short shifts. False where nothing changed.
    """
    count = len(stage)
    step = 1 if rng.random() < 0.5 else -1
    if rng.random() < NUDGE:
        first = int(rng.integers(count))
        last = first + 1
    else:
        borders = np.concatenate([[0], np.flatnonzero(np.diff(stage)) + 1, [count]])
        border = int(borders[rng.integers(len(borders))])
        far = rng.random() < FAR
        size = int(rng.integers(1, count + 1)) if far else int(rng.geometric(1 / length))
        before = rng.random() < 0.5
        first, last = (max(0, border - size), border) if before else (border, min(count, border + size))
    part = stage[first:last]
    moved = np.clip(part + step, 0, limit[first:last] - 1).astype(np.int16)
    changed = bool((moved != part).any())
    stage[first:last] = moved
    return changed
