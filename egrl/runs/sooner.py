"""Whether a run could have stopped sooner: what its summary says of `--until-gap`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from egrl.runs.config import share_of
from egrl.runs.gains import IDLE, Gains
from egrl.runs.gap import Gap
from egrl.runs.summary import BUDGET
from egrl.runs.verdict import OPTIMAL

WIDEST = 0.05
"""The widest gap that `--until-gap` is advised with: a wider one says little of another seed. Assumption."""


def sooner(gap: Gap, gains: Gains, document: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `--until-gap` saves a run that was not given it, for the `document` of its summary; None if that is little.

    It is little if less than half of the evaluations came after the last gain, or fewer than `IDLE` generations.

    Returns:
        `until_gap`, the share to give; `evaluations`, after which the best was so near to the bound; `rest`, the share
        by which all others improved it; `known`, True if the bound was known from the beginning.
    """
    cost, (count, speedup) = document["bound"], gains.last()
    late = 2 * count > gains.count or not gains.idle(IDLE)
    if not gap.unasked or document["stopped"] != BUDGET or cost is None or "reward_bound" in document or late:
        return None
    if gap.to(speedup, cost) > WIDEST:
        return None
    for share in _shares(gap.to(speedup, cost)):
        limit = max(share_of(share) or 0.0, OPTIMAL)
        stop = next(rise for rise in gains.rises if gap.to(rise[1], cost) <= limit)
        if stop[0] == count:
            break
    rest = document["best"]["speedup"] / stop[1] - 1.0
    known = gap.begun_with.cost >= cost
    return {"until_gap": share, "evaluations": stop[0], "rest": rest, "known": known}


def _shares(gap: float) -> tuple[str, ...]:
    """Shares above a gap (of an optimum: 0), as `--until-gap` takes them, the rounder one first."""
    if gap <= OPTIMAL:
        return ("0%",)
    return f"{(math.floor(gap * 1e3) + 1) / 10:g}%", f"{(math.floor(gap * 1e4) + 1) / 100:g}%"
