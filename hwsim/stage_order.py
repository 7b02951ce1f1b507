"""Stages of a pipeline brought in order: what a node that moves takes along."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.stages import Pipeline


def in_order(stage: NDArray[np.int16], pipeline: Pipeline, later: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Stages int16 [B, N] made to keep the order: rows with `later` [B] by moving nodes behind what they read, the
    others by moving nodes before what reads them. -1 stays, and asks nothing of others."""
    out = np.ascontiguousarray(stage, np.int16).copy()
    _in_order(out, *pipeline.sorted_edges, later)
    return out


@kernel
def _in_order(
    stage: NDArray[np.int16],
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    backwards: NDArray[np.int64],
    later: NDArray[np.bool_],
) -> None:
    for row in range(len(stage)):
        place = stage[row]
        if later[row]:
            for e in range(len(source)):
                if place[target[e]] >= 0 and place[source[e]] > place[target[e]]:
                    place[target[e]] = place[source[e]]
        else:
            for e in backwards:
                if place[source[e]] >= 0 and 0 <= place[target[e]] < place[source[e]]:
                    place[source[e]] = place[target[e]]
