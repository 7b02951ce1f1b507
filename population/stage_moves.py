"""Local moves for choices that are stages of a pipeline: along the execution order stages mostly do not fall.

A *shift* moves a run of decisions one stage later or earlier. The run begins or ends where the stage changes, or at an
end of the order. If it lies within one stage, its decisions cross a border; if it spans several stages, their borders
move; if it reaches the end of the order, a stage opens or closes. A *nudge* moves one decision to a neighbouring stage,
since graphs have branches. *Relief* moves a node out of one of the fullest stages, which set the pace.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.stages import Pipeline, fullness, heat

NUDGE = 0.3
"""Share of nudges (own choice)."""
FAR = 0.2
"""Share of shifts whose length is anything up to all decisions; of the others it is geometric (own choice)."""

TRIES = 8
"""Moves that relief chooses from (own choice)."""


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


def relieve(
    stage: NDArray[np.int16], limit: NDArray[np.int16], pipeline: Pipeline, rng: np.random.Generator
) -> bool:
    """Move a node of one of the fullest stages, and what has to follow it, to a neighbouring stage, in place.

    Of `TRIES` such moves it makes the one after which the fuller of the two stages is least full. Stages int16 [N] (-1:
    none) are drawn in proportion to their heat, nodes to the root of their load, as large ones seldom fit elsewhere.
    False if nothing changed.
    """
    count = int(limit.max())
    loads = fullness(stage[None], pipeline.load, count)
    full, heats = loads[0], heat(loads)[0]
    if not heats.any():
        return False
    fullest = int(rng.choice(count, p=heats / heats.sum()))
    inside = np.flatnonzero(stage == fullest)
    weight = np.sqrt(pipeline.load[inside])
    best, least = None, np.inf
    for node in rng.choice(inside, TRIES, p=weight / weight.sum()).tolist():
        later = bool(rng.random() < 0.5)
        goal = fullest + (1 if later else -1)
        along = pipeline.along(node, stage, later)
        if 0 <= goal < limit[along].min():
            moved = pipeline.load[along].sum()
            fuller = max(full[fullest] - moved, full[goal] + moved)
            if fuller < least:
                best, least = (along, goal), fuller
    if best is None:
        return False
    stage[best[0]] = best[1]
    return True
