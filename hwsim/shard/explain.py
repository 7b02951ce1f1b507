"""Where cost and memory of a choice go: to which nodes and edges, and to whom at the fullest time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.explanation import Breakdown, Holder, Payer
from hwsim.shard.judge import exact_cost
from workloads.sharding import Sharding, held_over_time

SHOWN = 10
"""Nodes that are named of each kind."""


def explain(sharding: Sharding, choice: NDArray[np.int16]) -> Breakdown:
    """The breakdown of a choice int16 [N]."""
    s = sharding
    at = s.first[:-1] + choice
    a, b = s.edge_nodes[:, 0], s.edge_nodes[:, 1]
    paid = s.edge_cost[s.edge_first[:-1] + choice[a].astype(np.int64) * s.strategies[b] + choice[b]]
    own, used = s.cost[at], s.usage[at]
    # As float64, which ranks well enough: sums of forbidden costs do not fit int64.
    near = np.bincount(a, paid, minlength=len(s)) + np.bincount(b, paid, minlength=len(s))
    dearest = np.argsort(-(own + near / 2), kind="stable")[:SHOWN].tolist()
    times, held = held_over_time(s, used)
    peak = int(held.argmax()) if len(held) else 0
    time = int(times[peak]) if len(held) else 0
    there = (s.start <= time) & (time < s.end)
    largest = np.argsort(np.where(there, -used, 1), kind="stable")[: min(SHOWN, int(there.sum()))].tolist()
    total, of_nodes = exact_cost(s, choice.tolist()), sum(own.tolist())
    return Breakdown(
        total,
        {"strategies": of_nodes, "edges": total - of_nodes},
        tuple(Payer(str(n), str(choice[n]), int(own[n]), float(near[n])) for n in dearest),
        s.limit,
        int(held[peak]) if len(held) else 0,
        time,
        tuple(Holder(str(n), str(choice[n]), int(used[n]), int(s.start[n]), int(s.end[n])) for n in largest),
    )
