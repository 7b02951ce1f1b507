"""A sharding instance: nodes with strategies, what strategies cost by themselves and in pairs, and memory over time.

Source: the contest on intra-operator parallelism of ASPLOS / EuroSys 2025, whose format `load_sharding` reads. A
node is an op of a model, a strategy one way to split its tensors over a mesh of accelerators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError

FORBIDDEN_FROM = 10**17
"""Costs from here on mean that a strategy, or a pair of strategies, is forbidden. The contest writes 10^18; the
greatest other cost of the ten published instances is 1.6 * 10^13."""
MOST_TOTAL = 2**62
"""What the greatest costs that are not forbidden, and the greatest usages, stay below together: so whatever is chosen,
and the difference of two such sums, is exact in int64. Forbidden costs are counted and never added."""
MOST_STRATEGIES = 2**15 - 1
"""Of a node: choices are int16."""


@dataclass(frozen=True, eq=False)
class Sharding:
    """N nodes with S strategies in all, and E edges.

    Attributes:
        name: of the instance.
        limit: the usage that all nodes together may have at any time.
        start, end: int64 [N], the half-open interval of time in which a node's usage counts; empty: it never does.
        first: int64 [N + 1], where a node's strategies begin in the flat arrays: first[n]:first[n + 1].
        cost, usage: int64 [S], as the file has them; `FORBIDDEN_FROM` says which costs forbid.
        edge_nodes: int32 [E, 2], two nodes a and b each; several edges may join the same two, and their costs add.
        edge_first: int64 [E + 1], where an edge's costs begin in `edge_cost`.
        edge_cost: int64 [sum of products], row by row: strategy of a, then strategy of b.
    """

    name: str
    limit: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    first: NDArray[np.int64]
    cost: NDArray[np.int64]
    usage: NDArray[np.int64]
    edge_nodes: NDArray[np.int32]
    edge_first: NDArray[np.int64]
    edge_cost: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def strategies(self) -> NDArray[np.int64]:
        """int64 [N], how many strategies each node has."""
        return np.diff(self.first)

    @property
    def busy(self) -> NDArray[np.bool_]:
        """bool [N]: whose interval is not empty."""
        return self.start < self.end


def check(sharding: Sharding, where: str) -> None:
    """Refuse an instance whose sums could overflow, or of which it is plain that nothing in it is valid.

    The shapes of its arrays are taken as right. `where` opens the message.

    Raises:
        InputError: sums of costs or usages from `MOST_TOTAL` on; a node or an edge of which everything is forbidden; or
            a time at which the least usages are above the limit.
    """
    s = sharding
    allowed, pairs = _allowed(s.cost), _allowed(s.edge_cost)
    greatest = sum(np.maximum.reduceat(allowed, s.first[:-1]).tolist())
    least = np.minimum.reduceat(s.usage, s.first[:-1])
    forbidden = np.minimum.reduceat(s.cost, s.first[:-1]) >= FORBIDDEN_FROM
    if forbidden.any():
        node = int(forbidden.argmax())
        raise InputError(f"{where}: nodes.costs[{node}]: expected a strategy that is allowed, found none")
    if len(s.edge_nodes):
        greatest += sum(np.maximum.reduceat(pairs, s.edge_first[:-1]).tolist())
        forbidden = np.minimum.reduceat(s.edge_cost, s.edge_first[:-1]) >= FORBIDDEN_FROM
        if forbidden.any():
            edge = int(forbidden.argmax())
            raise InputError(
                f"{where}: edges.costs[{edge}]: expected a pair of strategies that is allowed, found none"
            )
    used = sum(np.maximum.reduceat(s.usage, s.first[:-1]).tolist())
    for field, total in (("costs", greatest), ("usages", used)):
        if total >= MOST_TOTAL:
            raise InputError(f"{where}: {field}: expected sums below 2^62, found up to {total}")
    times, held = held_over_time(s, least)
    if len(held) and held.max() > s.limit:
        raise InputError(
            f"{where}: usage_limit: expected at least {held.max()}, the least that all nodes together use at time"
            f" {times[held.argmax()]}, found {s.limit}"
        )


def held_over_time(
    sharding: Sharding, usage: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Times at which the nodes in use change, int64 [T] ascending, and the usages int64 [T] in all from each on.

    `usage` int64 [N] is that of each node; T is 0 where no interval holds a time.
    """
    busy = sharding.busy
    times = np.unique(np.concatenate([sharding.start[busy], sharding.end[busy]]))
    change = np.zeros(len(times), np.int64)
    np.add.at(change, np.searchsorted(times, sharding.start[busy]), usage[busy])
    np.subtract.at(change, np.searchsorted(times, sharding.end[busy]), usage[busy])
    return times, np.cumsum(change)


def _allowed(cost: NDArray[np.int64]) -> NDArray[np.int64]:
    """Costs with 0 where they forbid."""
    return np.where(cost >= FORBIDDEN_FROM, 0, cost)
