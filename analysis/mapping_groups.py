"""Two groups of a search's mappings, compiler-competitive and best, and how far apart they lie (EGRL, Section 5).

Deviations:
- The paper collects mappings "when" a run reaches the compiler's speed, and says no more: here the first ones, in the
  order of evaluation, whose speedup is within 2% of 1.
- What it sees in two dimensions is measured in the space of mappings itself: a projection that keeps neighbourhoods
  keeps neither distances nor densities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COMPETITIVE, BEST = "competitive", "best"
WITHIN = 0.02
"""A speedup this near to 1 is compiler-competitive. Assumption; the paper says about 1."""
MOST = 100
"""Mappings of each group that are taken of a run, at most. Assumption."""
BEST_SHARE = 0.1
"""The best are at most this share of a run's evaluations, so that those of a short run are no others than all."""


@dataclass(frozen=True)
class Groups:
    """M distinct mappings of some runs, none of them the compiler's.

    Attributes:
        run: int64 [M], number of the run.
        index: int64 [M], place among the evaluations of that run.
        best: bool [M]; the others are compiler-competitive.
    """

    run: NDArray[np.int64]
    index: NDArray[np.int64]
    best: NDArray[np.bool_]


@dataclass(frozen=True)
class Distances:
    """How two groups and the compiler's mapping lie, in shares of the decisions in which two mappings differ.

    Attributes:
        separation: mean silhouette of the mappings, -1 (mixed up) to 1 (two tight groups far apart).
        spread: group -> mean distance of two of its mappings.
        spread_in_a_run: the same of two mappings of one run; NaN where no run has two.
        spread_between_runs: the same of two mappings of different runs, which share no ancestor; NaN for one run.
        to_compiler: group -> mean distance of its mappings to the compiler's.
        nearest_to_compiler: group -> distance of its mapping that is nearest to the compiler's.
        compiler_is_nearer_to: the group to which the compiler's mapping has the smaller mean distance.
    """

    separation: float
    spread: dict[str, float]
    spread_in_a_run: dict[str, float]
    spread_between_runs: dict[str, float]
    to_compiler: dict[str, float]
    nearest_to_compiler: dict[str, float]
    compiler_is_nearer_to: str


def choose(
    runs: Sequence[tuple[NDArray[np.integer], NDArray[np.float64]]],
    compiler: NDArray[np.integer],
    within: float = WITHIN,
    most: int = MOST,
) -> Groups:
    """The two groups of some runs.

    Of each run the `most` fastest distinct mappings (and at most BEST_SHARE of it), then the first `most` others within
    1 ± `within`, both ends included. What another run has found, too, counts once, for the run that is named first.

    Args:
        runs: mappings [M, D] of the live decisions, in the order of evaluation, and speedups [M] (0: nothing ran).
        compiler: [D], the compiler's mapping, which is in neither group.
    """
    seen = {_bytes(compiler)}
    found: list[tuple[int, int, bool]] = []
    for number, (rows, speedup) in enumerate(runs):
        order = np.argsort(-speedup, kind="stable")
        fastest = order[speedup[order] > 0].tolist()
        room = min(most, int(np.ceil(BEST_SHARE * len(rows))))
        found += [(number, index, True) for index in _distinct(fastest, rows, seen, room)]
    for number, (rows, speedup) in enumerate(runs):
        near = np.flatnonzero(np.abs(speedup - 1.0) <= within + 1e-12).tolist()
        found += [(number, index, False) for index in _distinct(near, rows, seen, most)]
    run, index, best = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return Groups(run, index, best.astype(np.bool_))


def _bytes(row: NDArray[np.integer]) -> bytes:
    return row.astype(np.int16).tobytes()


def _distinct(order: Iterable[int], rows: NDArray[np.integer], seen: set[bytes], most: int) -> list[int]:
    """The first `most` indices of rows that were not seen before; they are seen then."""
    found: list[int] = []
    for index in order:
        if len(found) == most:
            break
        key = _bytes(rows[index])
        if key not in seen:
            seen.add(key)
            found.append(index)
    return found


def hamming(rows: NDArray[np.integer]) -> NDArray[np.float64]:
    """float64 [M, M], the share of decisions in which two of M mappings [M, D] differ."""
    return np.stack([(row != rows).mean(axis=1) for row in rows])


def silhouette(distance: NDArray[np.float64], group: NDArray[np.bool_]) -> float:
    """Mean silhouette (Rousseeuw 1987) of two groups: distances [M, M], membership [M].

    A mapping that is alone in its group, or as near to both, counts 0.
    """
    sizes = np.where(group, group.sum(), (~group).sum())
    sums = np.where(group[:, None] == group[None], distance, 0.0).sum(axis=1)
    others = np.where(group[:, None] != group[None], distance, 0.0).sum(axis=1) / (len(group) - sizes)
    own = sums / np.maximum(sizes - 1, 1)
    larger = np.maximum(own, others)
    values = np.divide(others - own, larger, out=np.zeros(len(group)), where=(larger > 0) & (sizes > 1))
    return float(values.mean())


def measure(distance: NDArray[np.float64], best: NDArray[np.bool_], run: NDArray[np.int64]) -> Distances:
    """How the groups lie: distances [M + 1, M + 1], the compiler's mapping last, membership [M], number of the run [M].

    ValueError where a group has fewer than two mappings.
    """
    members = {COMPETITIVE: np.flatnonzero(~best), BEST: np.flatnonzero(best)}
    if min(len(group) for group in members.values()) < 2:
        counts = {name: len(group) for name, group in members.items()}
        raise ValueError(f"best: expected two mappings in each group, received {counts}")
    between = distance[:-1, :-1]
    other = ~np.eye(len(best), dtype=np.bool_)
    alike = other & (run[:, None] == run)
    means = {name: float(distance[-1, group].mean()) for name, group in members.items()}
    return Distances(
        separation=silhouette(between, best),
        spread={name: _mean(between, other, group) for name, group in members.items()},
        spread_in_a_run={name: _mean(between, alike, group) for name, group in members.items()},
        spread_between_runs={name: _mean(between, other & ~alike, group) for name, group in members.items()},
        to_compiler=means,
        nearest_to_compiler={name: float(distance[-1, group].min()) for name, group in members.items()},
        compiler_is_nearer_to=min(means, key=means.__getitem__),
    )


def _mean(distance: NDArray[np.float64], pairs: NDArray[np.bool_], members: NDArray[np.int64]) -> float:
    """Of the distances [M, M] between some members, over those pairs [M, M] that count; NaN where none does."""
    counted = distance[np.ix_(members, members)][pairs[np.ix_(members, members)]]
    return float(counted.mean()) if len(counted) else float("nan")
