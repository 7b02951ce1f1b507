"""Tensors into memories by score: the placer of `nnpi`, and the compiler's rules, which are tables of scores for it.

Source: list scheduling by priority, here in space: what is placed never moves again. See `hwsim.placing`.

A weight outside the slowest memory is held at every step, an activation from its op to its last consumer (closed).
What weights hold of a memory is one number, which meets the fullest step of the activations. These are a segment tree
over the steps (`Usage`), whose ranges keep what is added to them as a whole, walked from the leaves up: a map takes
T log N operations, however long tensors live.

The EGRL paper (section 4) says of the native compiler only that it is "a collection of heuristic rules specific to the
compute and memory capacity of the hardware". Which rules is an *assumption*, so there are several, by name; the default
has the best geometric-mean latency over the zoo (benchmarks/log/nnpi.md). A rule sees no latency. It ranks the
tensors, and each goes to the fastest memory where it still fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.nnpi.place_features import FEATURE_NAMES, place_features
from hwsim.nnpi.profile_features import PROFILE_NAMES, profile_features
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import WEIGHT, Ints, Tables, Tensors, tensors, units
from hwsim.placing import Placer, Scores, ranked
from hwsim.problem import Mapping16, Profiles
from workloads.errors import InputError
from workloads.text import one_of


class NnpiPlacer(Placer):
    """The placer of a workload on a chip. Memory 0 takes every tensor: the tables are only built where it can."""

    feature_names, profile_names = FEATURE_NAMES, PROFILE_NAMES

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.tensors: Tensors = tensors(tables)
        self.node, self.head = self.tensors.op, self.tensors.head

    @cached_property
    def features(self) -> NDArray[np.float32]:  # type: ignore[override]
        """See `hwsim.nnpi.place_features`."""
        return place_features(self._tables, self.tensors)

    def of_profile(self, mapping: Mapping16, profile: Profiles) -> NDArray[np.float32]:
        """See `hwsim.nnpi.profile_features`."""
        return profile_features(self._tables, self.tensors, mapping, profile)

    def place(self, scores: Scores, free_share: NDArray[np.float64]) -> Mapping16:
        """See `hwsim.placing.Placer.place`."""
        self.check(scores, free_share)
        return place(self._tables, self.tensors, scores, free_share)


def place(tables: Tables, found: Tensors, scores: Scores, free_share: NDArray[np.float64]) -> Mapping16:
    """The maps int16 [B, N, 2] of scores float32 [B, T, L]; `free_share` float64 [B] of the prefetch memory is kept."""
    ops = len(tables.weight_bytes)
    budget = np.array([room(tables, share) for share in free_share.tolist()], np.int64).reshape(
        len(scores), -1
    )
    scores = _pinned_first(tables, found, scores)
    levels = _fill(ops, scores, ranked(scores), found.head, found.size_bytes, found.first, found.last, budget)
    mapping = np.full((len(scores), ops, 2), -1, np.int16)
    mapping[:, found.op, found.head] = levels
    # Where there are pins: tensors that lie together do, and those with a memory are there if it keeps a share free.
    return rectify(tables, mapping)[0] if len(tables.unit_op) else mapping


def _pinned_first(tables: Tables, found: Tensors, scores: Scores) -> Scores:
    """The scores float32 [B, T, L] with tensors that are pinned to a memory ranked first, and for no other."""
    pinned = {tensor: memory for memory, tensors in units(tables) if memory >= 0 for tensor in tensors}
    if not pinned:
        return scores
    scores = scores.copy()
    for k, tensor in enumerate(zip(found.op.tolist(), found.head.tolist(), strict=True)):
        if tensor in pinned:
            scores[:, k] = -np.inf
            scores[:, k, 0] = 0.0
            scores[:, k, pinned[tensor]] = np.finfo(np.float32).max if pinned[tensor] else 0.0
    return scores


def room(tables: Tables, free_share: float) -> list[int]:
    """Whole bytes of each memory that may be used if a share of the prefetch memory stays empty."""
    # An integer exceeds a number if and only if it exceeds its floor; a float of an int64's maximum would overflow.
    limits = [int(capacity) for capacity in tables.capacity_bytes]
    limits[tables.into] = min(math.floor(float(limits[tables.into]) * (1.0 - free_share)), 2**63 - 1)
    return limits


@kernel
def _next_best(scores: NDArray[np.float32], score: float, level: int) -> int:
    """The memory with the best of the scores [L] after that of some score and number; 0 if none is above memory 0.

    The faster of two with equal scores comes first.
    """
    best = 0
    for m in range(len(scores) - 1, 0, -1):
        later = scores[m] < score or (scores[m] == score and m < level)
        if later and scores[m] > scores[best]:
            best = m
    return best


@kernel
def _fill(
    ops: int,
    scores: Scores,
    order: Ints,
    head: Ints,
    size_bytes: Ints,
    first: Ints,
    last: Ints,
    budget: Ints,
) -> NDArray[np.int16]:
    """Memories int16 [B, T] of tensors that are placed in the orders int64 [B, T], in `budget` bytes int64 [B, L]."""
    batch, count, levels = scores.shape
    chosen = np.zeros((batch, count), np.int16)
    for b in range(batch):
        live = [nothing_used(ops) for _ in range(levels)]
        pinned = np.zeros(levels, np.int64)
        for k in order[b]:
            size = size_bytes[k]
            from_step, to_step = (0, ops) if head[k] == WEIGHT else (first[k], last[k] + 1)
            level = _next_best(scores[b, k], np.inf, levels)
            while (
                level > 0 and pinned[level] + most(live[level], from_step, to_step) + size > budget[b, level]
            ):
                level = _next_best(scores[b, k], scores[b, k, level], level)
            # Nothing asks what the slowest memory holds.
            if level > 0 and head[k] == WEIGHT:
                pinned[level] += size
            elif level > 0:
                add(live[level], from_step, to_step, size)
            chosen[b, k] = level
    return chosen


Key = NDArray[np.int64] | NDArray[np.float64]
Order = Callable[[Tensors], tuple[Key, ...]]


@dataclass(frozen=True)
class Rule:
    """A rule of the compiler.

    Attributes:
        name: as in `problem.baseline`.
        summary: one sentence, for people.
        order: sort keys [T], of which the first decides; tensors are placed in rising order.
        free_share: the share of the prefetch memory that stays empty, 0..1.
        largest_share: a tensor larger than this share of a memory is not put there, except in the slowest one.
    """

    name: str
    summary: str
    order: Order
    free_share: float = 0.0
    largest_share: float = 1.0


def _execution(t: Tensors) -> tuple[Key, ...]:
    return (t.op, t.head)


def _activations_first(t: Tensors) -> tuple[Key, ...]:
    return (-t.head, t.op)


def _weights_first(t: Tensors) -> tuple[Key, ...]:
    return (t.head, t.op)


def _smallest_first(t: Tensors) -> tuple[Key, ...]:
    return (t.size_bytes, t.op, t.head)


def _largest_first(t: Tensors) -> tuple[Key, ...]:
    return (-t.size_bytes, t.op, t.head)


def _by_density(t: Tensors) -> tuple[Key, ...]:
    return (-t.density, t.op, t.head)


def _largest_activations_first(t: Tensors) -> tuple[Key, ...]:
    return (-t.head, -t.size_bytes, t.op)


RESERVE = 1 / 8
SMALL = 1 / 4

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("execution-order", "op by op, weight before activation", _execution),
        Rule("activations-first", "all activations in execution order, then all weights", _activations_first),
        Rule("weights-first", "all weights in execution order, then all activations", _weights_first),
        Rule("smallest-first", "by rising size", _smallest_first),
        Rule("largest-first", "by falling size", _largest_first),
        Rule("traffic-density", "by falling bytes moved for one byte held one step", _by_density),
        Rule(
            "largest-activations-first",
            "activations by size, then weights by size",
            _largest_activations_first,
        ),
        Rule("execution-order-small", "op by op, no tensor over 1/4 of a memory", _execution, 0.0, SMALL),
        Rule("smallest-first-reserve", "by rising size, 1/8 left for prefetch", _smallest_first, RESERVE),
        Rule("execution-order-reserve", "op by op, 1/8 left for prefetch", _execution, RESERVE),
        Rule("traffic-density-reserve", "by density, 1/8 left for prefetch", _by_density, RESERVE),
        Rule(
            "largest-activations-first-reserve",
            "activations by size, then weights by size, 1/8 left for prefetch",
            _largest_activations_first,
            RESERVE,
        ),
    )
}
"""All rules by name."""

DEFAULT_RULE = "largest-activations-first-reserve"


def rule_named(name: str) -> Rule:
    """The rule called `name`.

    Raises:
        InputError: no such rule.
    """
    if name not in RULES:
        raise InputError(f"baseline: {one_of(name, RULES)}")
    return RULES[name]


def rule_scores(tables: Tables, found: Tensors, rule: Rule) -> Scores:
    """The scores float32 [1, T, L] that place as the rule does: by its order, into the fastest memory with room."""
    tensors, levels = len(found.op), len(tables.capacity_bytes)
    place_in_order = np.empty(tensors, np.int64)
    place_in_order[np.lexsort(rule.order(found)[::-1])] = np.arange(tensors)
    # Whole numbers, so that float32 is exact: the tensor's turn from the end times L, and the memory's number.
    scores = ((tensors - place_in_order)[:, None] * levels + np.arange(levels)).astype(np.float32)
    largest = rule.largest_share * tables.capacity_bytes.astype(np.float64)
    scores[found.size_bytes[:, None] > largest] = -np.inf
    scores[:, 0] = 0
    return scores[None]


def compile_map(tables: Tables, rule: Rule) -> Mapping16:
    """The valid canonical map int16 [N, 2] that a rule makes."""
    found = tensors(tables)
    made: Mapping16 = place(tables, found, rule_scores(tables, found, rule), np.array([rule.free_share]))[0]
    return made


Usage = tuple[NDArray[np.int64], NDArray[np.int64]]
"""What is used at each of T points: (greatest, added), int64 [2 M] each, M a power of two above T + 1.

The halves of the range at k are at 2 k and 2 k + 1. `added` is what was added to the range as a whole, `greatest` the
most at a point of it, without what was added to the ranges around it. The leaf of point p is at M + 1 + p; the leaves
on either side of the points are free, for `add` and `most` to walk on.
"""


@kernel
def nothing_used(points: int) -> Usage:
    """The tree of so many points, at which nothing is used."""
    half = 2
    while half < points + 2:
        half *= 2
    return np.zeros(2 * half, np.int64), np.zeros(2 * half, np.int64)


@kernel
def add(tree: Usage, lower: int, upper: int, amount: int) -> None:
    """Add an amount at the points lower <= point < upper."""
    if lower >= upper or amount == 0:
        return
    greatest, added = tree
    half = len(greatest) // 2
    left, right = half + lower, half + upper + 1
    while left ^ right ^ 1:
        if not left & 1:
            greatest[left ^ 1] += amount
            added[left ^ 1] += amount
        if right & 1:
            greatest[right ^ 1] += amount
            added[right ^ 1] += amount
        left >>= 1
        right >>= 1
        greatest[left] = max(greatest[2 * left], greatest[2 * left + 1]) + added[left]
        greatest[right] = max(greatest[2 * right], greatest[2 * right + 1]) + added[right]
    while left > 1:
        left >>= 1
        greatest[left] = max(greatest[2 * left], greatest[2 * left + 1]) + added[left]


@kernel
def most(tree: Usage, lower: int, upper: int) -> int:
    """The most that is used at a point lower <= point < upper; 0 if there is none."""
    if lower >= upper:
        return 0
    greatest, added = tree
    half = len(greatest) // 2
    left, right = half + lower, half + upper + 1
    of_left = of_right = -(2**62)
    while left ^ right ^ 1:
        if not left & 1:
            of_left = max(of_left, greatest[left ^ 1])
        if right & 1:
            of_right = max(of_right, greatest[right ^ 1])
        left >>= 1
        right >>= 1
        of_left += added[left]
        of_right += added[right]
    found = max(of_left, of_right)
    while left > 1:
        left >>= 1
        found += added[left]
    return found
