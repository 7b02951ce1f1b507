"""The changes that lead from the baseline to a faster mapping, in steps that each run and gain, the best first.

Source: greedy, by gain per change. What does not fit alone is put in a step with the changes that make room for it:
each time the one that leaves the least to repair (`Evaluation.epsilon`), or the fastest of those that leave nothing.

Deviations: where no step buys `LEAST`, or after `LIMIT` evaluations, all that is left is the last step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.nearest import EQUAL, Costs, changed
from hwsim.problem import Mapping16, Problem

Changes = NDArray[np.int64]
"""int64 [K, 2], node and head of each."""
LARGEST = 8
"""Changes of a step that makes room, at most."""
LEAST = 1e-3
"""Of all that is gained, what a step buys at least."""
LIMIT = 12_000
"""Evaluations after which no further step is looked for."""


@dataclass(frozen=True)
class Step:
    """Changes that are made together, and the cost of the baseline's mapping with these and all before them."""

    changes: Changes
    cost: float


def best_first(problem: Problem, mapping: Mapping16) -> list[Step]:
    """The changes of a valid mapping int16 [N, H] in steps; the first k steps make a valid mapping, for every k."""
    costs = Costs(problem, LIMIT)
    now = problem.baseline.mapping
    cost, left = costs.of(now), changed(problem, mapping)
    least = LEAST * (cost - costs.of(mapping))
    steps: list[Step] = []
    while len(left):
        group, cost = _best(costs, now, mapping, left, (cost, least))
        steps.append(Step(left[group], cost))
        now, left = _with(now, mapping, left[group]), np.delete(left, group, axis=0)
    return steps


def _with(now: Mapping16, mapping: Mapping16, changes: Changes) -> Mapping16:
    """A map int16 [N, H] with some choices of another one."""
    out = now.copy()
    out[changes[:, 0], changes[:, 1]] = mapping[changes[:, 0], changes[:, 1]]
    return out


def _best(
    costs: Costs, now: Mapping16, mapping: Mapping16, left: Changes, limits: tuple[float, float]
) -> tuple[list[int], float]:
    """The numbers of the changes `left` that gain the most per change, and the cost with them.

    All, if none gains enough. `limits`: the cost now, and what is enough.
    """
    cost, least = limits
    best, most = list(range(len(left))), 0.0
    after = -1.0
    for group, found in _groups(costs, now, mapping, left):
        gain = (cost - found) / len(group)
        if gain > most and cost - found >= max(least, EQUAL * cost):
            best, most, after = group, gain, found
    return best, after if after >= 0 else costs.of(mapping)


def _groups(
    costs: Costs, now: Mapping16, mapping: Mapping16, left: Changes
) -> Iterator[tuple[list[int], float]]:
    """Groups of the changes `left` that run when they are added, each with the cost then; one per change at most."""
    alone, cost, _ = _tried(costs, now, mapping, left, [])
    for k in range(len(left)):
        if alone[k]:
            yield [k], float(cost[k])
    for k in np.flatnonzero(~alone).tolist():
        if costs.calls >= costs.limit:
            return
        if (found := _completed(costs, now, mapping, left, k)) is not None:
            yield found


def _completed(
    costs: Costs, now: Mapping16, mapping: Mapping16, left: Changes, first: int
) -> tuple[list[int], float] | None:
    """A change with those that make room for it, and the cost then; None if few do not."""
    group, need = [first], np.inf
    while len(group) < LARGEST:
        alone, cost, needs = _tried(costs, now, mapping, left, group)
        alone[group], needs[group] = False, np.inf
        if alone.any():
            at = int(np.argmin(np.where(alone, cost, np.inf)))
            return [*group, at], float(cost[at])
        at = int(np.argmin(needs))
        if not needs[at] < need:
            return None
        group, need = [*group, at], needs[at]
    return None


def _tried(
    costs: Costs, now: Mapping16, mapping: Mapping16, left: Changes, group: list[int]
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """A group with each of the changes `left` [K]: whether it runs as it stands, its cost, what must be repaired."""
    rows = np.stack([_with(now, mapping, left[[*group, k]]) for k in range(len(left))])
    runs, cost = costs(rows)
    return (runs == rows).all(axis=(1, 2)) & np.isfinite(cost), cost, costs.epsilon
