"""Branch and bound for a packing below a given height, one try.

Source: the branching is that of Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
Learning" (ASPLOS 2023): buffers are placed from the bottom up, each on what lies beneath it; what lives in one section
of time and is not placed must still fit above the lowest place that is left there; parts that share no section are
solved by themselves.

Deviations:
- Sections are the maximal sets of buffers that live together (an interval graph's cliques): fewer than all intervals
  between two events, and they imply the same bounds.
- A buffer that can no longer lie where it would fall to must come to rest on another: its place is bounded by the
  lowest top that this other can have. This prunes where a section has no slack.
- Which buffer first among those that can be placed is by the place they fall to and then by a rank, which the caller
  varies; a try ends after a number of nodes.

The search is complete: of the packings below the height take one with the least sum of offsets. There every buffer
rests on another or on the ground, and placed in order of (offset, rank) it breaks no rule by which branches are cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel

Ints = NDArray[np.int64]
FAILED, FOUND, OUT_OF_NODES = 0, 1, 2
BLAME = 5
"""What a section is blamed for a branch that it ended; one that a buffer ended blames each of its sections with 1."""


class State(NamedTuple):
    """One try, for M buffers and T sections; all arrays int64. The search changes everything below `height`.

    Attributes:
        size, first, end: [M] each; sections first <= t < end.
        rank: [M], a permutation: the order of buffers that fall to the same place.
        height: [1], no buffer may end above it.
        nodes: [1], how many more may be opened.
        fall: [M], where a buffer that is not placed would come to rest now.
        offset: [M], where placed ones are.
        left: [T], sum of sizes that are not placed.
        blame: [T], counts how often a section was why a branch ended.
        lowest, top, second, owner: [T], scratch: the lowest place left; the two lowest tops and whose the first is.
    """

    size: Ints
    first: Ints
    end: Ints
    rank: Ints
    height: Ints
    nodes: Ints
    fall: Ints
    offset: Ints
    left: Ints
    blame: Ints
    lowest: Ints
    top: Ints
    second: Ints
    owner: Ints


def attempt(
    size: Ints, first: Ints, end: Ints, rank: Ints, blame: Ints, height: int, nodes: int
) -> tuple[int, Ints]:
    """Try to pack M buffers in `height`.

    Args:
        size: int64 [M], positive, in units of the alignment.
        first, end: int64 [M], sections of `sections`, half-open.
        rank: int64 [M], a permutation.
        blame: int64 [T], to which the search adds; see `State`.
        height: in the unit of the sizes.
        nodes: when to give up.

    Returns:
        FOUND and the offsets int64 [M]; FAILED if there is no packing; OUT_OF_NODES.
    """
    count = len(size)
    spans = int(end.max(initial=0))
    left = np.zeros(spans, np.int64)
    for i in range(count):
        left[first[i] : end[i]] += size[i]
    state = State(
        size,
        first,
        end,
        rank,
        np.array([height]),
        np.array([nodes]),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        left,
        blame,
        *(np.zeros(spans, np.int64) for _ in range(4)),
    )
    found = int(_solve(state, np.argsort(first, kind="stable"), 0, -1))
    return found, state.offset


def sections(first: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Lifetimes int64 [M] (half-open, any integers) as half-open ranges of maximal cliques, int64 [M] each.

    Two buffers live together if and only if their ranges overlap.
    """
    starts = np.unique(first)
    ends = np.unique(end)
    # A clique ends with the first buffer that dies after a birth: the last birth before each death.
    last_birth = np.searchsorted(starts, ends, side="left") - 1
    cliques = np.unique(starts[last_birth])
    return np.searchsorted(cliques, first), np.searchsorted(cliques, end)


@kernel
def _solve(s: State, members: Ints, level: int, last: int) -> int:
    """Place `members`, in order of their first section, at `level` or above; rank above `last` at level itself."""
    count = len(members)
    if count == 0:
        return FOUND
    # Where no section holds buffers of both sides, the sides have nothing to do with each other. The smaller one goes
    # first: it shows sooner whether it fails.
    stop = s.end[members[0]]
    for x in range(1, count):
        if s.first[members[x]] >= stop:
            smaller, larger = members[:x], members[x:]
            if len(smaller) > len(larger):
                smaller, larger = larger, smaller
            found = _solve(s, smaller, level, last)
            return _solve(s, larger, level, last) if found == FOUND else found
        stop = max(stop, s.end[members[x]])
    s.nodes[0] -= 1
    if s.nodes[0] < 0:
        return OUT_OF_NODES
    start = s.first[members[0]]
    least_top = _lowest_tops(s, members, start, stop, level)
    most_left = _fits(s, members, start, stop, level, last)
    if most_left < 0:
        return FAILED
    candidates = np.empty(count, np.int64)
    number = _list_candidates(s, members, level, last, least_top, most_left, candidates)
    rest, falls = np.empty(count - 1, np.int64), np.empty(count - 1, np.int64)
    for i in candidates[:number]:
        offset = s.fall[i]
        _place(s, members, i, rest, falls)
        found = _solve(s, rest, offset, s.rank[i])
        if found != FAILED:
            return found
        _take_back(s, i, rest, falls)
    return FAILED


@kernel
def _list_candidates(
    s: State, members: Ints, level: int, last: int, least_top: int, most_left: int, candidates: Ints
) -> int:
    """List the members that can be placed next by the place that they fall to, then by rank; returns their number."""
    number = 0
    for i in members:
        fall = s.fall[i]
        # Below `level`, and at it up to rank `last`, another order of the same placements was tried before. From
        # `least_top` on another member would fit beneath. And the fullest section must have room above the place.
        if (
            fall < level
            or fall >= least_top
            or fall + most_left > s.height[0]
            or (fall == level and s.rank[i] <= last)
        ):
            continue
        # Insertion sort: there are few.
        y = number
        while y > 0 and (
            s.fall[candidates[y - 1]] > fall
            or (s.fall[candidates[y - 1]] == fall and s.rank[candidates[y - 1]] > s.rank[i])
        ):
            candidates[y] = candidates[y - 1]
            y -= 1
        candidates[y] = i
        number += 1
    return number


@kernel
def _place(s: State, members: Ints, i: int, rest: Ints, falls: Ints) -> None:
    """Place member i where it falls to: the other members in `rest`, the places that they fell to before in `falls`."""
    offset = s.fall[i]
    top = offset + s.size[i]
    z = 0
    for j in members:
        if j == i:
            continue
        rest[z], falls[z] = j, s.fall[j]
        # What lives together with it cannot lie lower than its top any more.
        if s.first[j] < s.end[i] and s.first[i] < s.end[j] and s.fall[j] < top:
            s.fall[j] = top
        z += 1
    for t in range(s.first[i], s.end[i]):
        s.left[t] -= s.size[i]
    s.offset[i] = offset


@kernel
def _take_back(s: State, i: int, rest: Ints, falls: Ints) -> None:
    """Reverse `_place`."""
    for t in range(s.first[i], s.end[i]):
        s.left[t] += s.size[i]
    for x in range(len(rest)):
        s.fall[rest[x]] = falls[x]


@kernel
def _lowest_tops(s: State, members: Ints, start: int, stop: int, level: int) -> int:
    """Fill `top`, `second` and `owner` of sections start <= t < stop; the lowest top of all."""
    # Above everything: no place and no size is more than the height.
    beyond = 4 * s.height[0] + 4
    for t in range(start, stop):
        s.top[t], s.second[t], s.owner[t] = beyond, beyond, -1
    least = beyond
    for i in members:
        top = max(s.fall[i], level) + s.size[i]
        least = min(least, top)
        # The two lowest tops of each section, and whose the lowest is: a buffer cannot rest on itself.
        for t in range(s.first[i], s.end[i]):
            if top < s.top[t]:
                s.second[t] = s.top[t]
                s.top[t] = top
                s.owner[t] = i
            elif top < s.second[t]:
                s.second[t] = top
    return least


@kernel
def _fits(s: State, members: Ints, start: int, stop: int, level: int, last: int) -> int:
    """The most that is left in a section start <= t < stop; -1 if a buffer or a section cannot fit any more."""
    height = s.height[0]
    beyond = 4 * height + 4
    for t in range(start, stop):
        s.lowest[t] = beyond
    for i in members:
        place = s.fall[i]
        # It can no longer lie where it would fall to, so it will rest on another: at the lowest top of one, at least.
        if place < level or (place == level and s.rank[i] <= last):
            place = beyond
            for t in range(s.first[i], s.end[i]):
                place = min(place, s.second[t] if s.owner[t] == i else s.top[t])
        # A buffer that ends a branch blames all of its sections.
        if place + s.size[i] > height:
            for t in range(s.first[i], s.end[i]):
                s.blame[t] += 1
            return -1
        for t in range(s.first[i], s.end[i]):
            s.lowest[t] = min(s.lowest[t], place)
    # All that is left in a section lies above the lowest place there.
    most = 0
    for t in range(start, stop):
        if s.left[t] > 0 and s.lowest[t] + s.left[t] > height:
            s.blame[t] += BLAME
            return -1
        most = max(most, s.left[t])
    return most
