"""Which mappings of a run may be the best of it, as far as the noise lets anyone tell."""

from __future__ import annotations

import numpy as np

from egrl.core.archive import Archive
from egrl.measure.records import digest
from hwsim.problem import Status

WITHIN = 3.0
"""A mapping may be the best where it is so many standard deviations of the noise from it."""


def contenders(archive: Archive, noise: float, most: int) -> list[int]:
    """Tickets of the mappings that may be the best under that relative noise, best first, each mapping once."""
    cost = np.where(archive.column("status") == Status.OK, archive.column("cost"), np.inf)
    cost = np.where(archive.column("partial"), np.inf, cost)
    first = max(0, len(archive) - archive.window)
    order = first + np.argsort(cost[first:], kind="stable")
    if not len(order) or not np.isfinite(cost[order[0]]):
        return []
    reach = cost[order[0]] * (1 + WITHIN * noise)
    seen: dict[str, int] = {}
    for ticket in order.tolist():
        if cost[ticket] > reach or len(seen) >= most:
            break
        seen.setdefault(digest(archive.mappings(np.array([ticket]))[0]), ticket)
    return list(seen.values())
