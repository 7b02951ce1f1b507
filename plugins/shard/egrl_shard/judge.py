"""Cost and violations of a choice of strategies, in Python's own integers: slow, obvious, nothing can overflow.

It reads the instance as it was given. A choice is valid if no strategy and no pair of strategies that it takes is
forbidden, and if at no time the usages of the nodes whose interval holds that time are above the limit together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egrl_shard.sharding import FORBIDDEN_FROM, Sharding
from hwsim.problem import Violation


def exact_cost(sharding: Sharding, choice: Sequence[int]) -> int:
    """The sum of all costs of a choice, forbidden ones as the instance has them: the number of the contest."""
    return sum(int(sharding.cost[at]) for _, at in _strategies(sharding, choice)) + sum(
        int(sharding.edge_cost[at]) for _, at in _pairs(sharding, choice)
    )


def judge(sharding: Sharding, choice: Sequence[int]) -> list[Violation]:
    """Everything that a choice, a strategy a node, breaks; of a time above the limit the worst until it is kept again.

    Raises:
        ValueError: another number of nodes.
    """
    nodes = len(sharding.start)
    if len(choice) != nodes:
        raise ValueError(f"choice: expected {nodes} nodes, received {len(choice)}")
    counts = [int(sharding.first[n + 1]) - int(sharding.first[n]) for n in range(nodes)]
    missing = [
        Violation("no such strategy", f"node {n}", float(s), float(counts[n] - 1), "")
        for n, s in enumerate(choice)
        if not 0 <= s < counts[n]
    ]
    if missing:
        return missing
    found = [
        Violation(f"forbidden strategy {choice[n]}", f"node {n}", 1.0, 0.0, "uses")
        for n, at in _strategies(sharding, choice)
        if int(sharding.cost[at]) >= FORBIDDEN_FROM
    ]
    for edge, at in _pairs(sharding, choice):
        if int(sharding.edge_cost[at]) >= FORBIDDEN_FROM:
            a, b = (int(n) for n in sharding.edge_nodes[edge])
            what = f"forbidden pair of strategies {choice[a]} and {choice[b]}"
            found.append(Violation(what, f"edge {edge} from node {a} to node {b}", 1.0, 0.0, "uses"))
    return found + _over_limit(sharding, choice)


def _strategies(sharding: Sharding, choice: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each node, and where what its strategy costs and uses stands."""
    for node, strategy in enumerate(choice):
        yield node, int(sharding.first[node]) + strategy


def _pairs(sharding: Sharding, choice: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each edge, and where what its pair of strategies costs stands."""
    for edge, (a, b) in enumerate(sharding.edge_nodes.tolist()):
        wide = int(sharding.first[b + 1]) - int(sharding.first[b])
        yield edge, int(sharding.edge_first[edge]) + choice[a] * wide + choice[b]


def _over_limit(sharding: Sharding, choice: Sequence[int]) -> list[Violation]:
    """The worst time of each stretch of time in which more is used than the limit."""
    changes: dict[int, int] = {}
    for node, at in _strategies(sharding, choice):
        start, end, used = int(sharding.start[node]), int(sharding.end[node]), int(sharding.usage[at])
        if start < end:
            changes[start] = changes.get(start, 0) + used
            changes[end] = changes.get(end, 0) - used
    found: list[Violation] = []
    held, worst = 0, (0, 0)
    for time in sorted(changes):
        held += changes[time]
        if held > sharding.limit:
            worst = max(worst, (held, -time))
        elif worst[0]:
            found.append(_too_much(sharding, *worst))
            worst = (0, 0)
    return found


def _too_much(sharding: Sharding, held: int, minus_time: int) -> Violation:
    return Violation("usage", f"time {-minus_time}", float(held), float(sharding.limit), "bytes")
