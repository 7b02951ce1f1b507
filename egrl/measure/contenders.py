"""The mappings of a run that may be its best, given the noise of its measurements."""

from __future__ import annotations

import numpy as np

from egrl.core.archive import Archive
from egrl.measure.records import digest
from hwsim.problem import Status

NOISE_DEVIATIONS = 3.0
"""A mapping may be the best if its cost is at most this many standard deviations of the noise above the lowest."""


def contenders(archive: Archive, noise: float, most: int) -> list[int]:
    """Tickets of the mappings that may be the best under that relative noise, best first, each mapping once."""
    first = max(0, len(archive) - archive.window)
    status, cost, partial = (archive.column(name)[first:] for name in ("status", "cost", "partial"))
    cost = np.where((status == Status.OK) & ~partial, cost, np.inf)
    order = np.argsort(cost, kind="stable")
    if not len(order) or not np.isfinite(cost[order[0]]):
        return []
    reach = cost[order[0]] * (1 + NOISE_DEVIATIONS * noise)
    seen: dict[str, int] = {}
    for at in order.tolist():
        if cost[at] > reach or len(seen) >= most:
            break
        seen.setdefault(digest(archive.mappings(np.array([first + at]))[0]), first + at)
    return list(seen.values())
