"""The outcome of an action: whether it is legal, and the interval, copy window and offset that it would place.

Source: MMapGame paper, section 4.2 and appendix A ("Assigning allocation intervals and offsets", equations 5 and 6).
`docs/explanations/mmap.md` has the rulings where the paper is silent.

The *window* of a copy is the steps that lend it their supply. Equation 6, |copy ∩ copy'| <= 1, says that a window may
not hold two neighbouring steps of another one: a *bond* ties neighbours that one window holds, and a sum of supply
begins anew at a bond. A window takes its supply from the end near the instruction, all there is of it, and in part
only at the far end. So what lies inside a window is empty for good, and a scan jumps over runs of empty steps by
links. Both ends of a window had supply when it was placed (an empty step at the near end belongs to no window), so
that no link from outside reaches into one.

A link is one number, 2 (step + 1) + bond: the next step to look at, and whether there is a bond on the way to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hwsim.jit import kernel
from hwsim.mmap.rules.state import (
    COPY,
    DROP,
    DROPPED,
    PLACED,
    UNDECIDED,
    GameState,
    Words,
    is_free,
    lowest_offset,
)
from hwsim.mmap.tables import Records, Tables


@kernel
def _link(step: int, bond: int) -> int:
    """The link to a step from -1 on, with a bond (1) or without one (0) on the way."""
    return 2 * (step + 1) + bond


@kernel
def _step_of(link: int) -> int:
    """The step that a link leads to."""
    return (link >> 1) - 1


@kernel
def _bond_of(link: int) -> int:
    """1 if there is a bond on the way of a link."""
    return link & 1


@kernel
def link_all(steps: Records) -> None:
    """Set the links of the steps that have no supply when the game begins: to their neighbours, without bonds."""
    # Links are read of empty steps only. A window that empties a step sets those of its links that are read later.
    for t in range(len(steps)):
        steps[t].bond = 0
        steps[t].down = _link(t - 1, 0)
        steps[t].up = _link(t + 1, 0)


@kernel
def window_before(steps: Records, top: int, floor: int, demand: float, literal: bool) -> tuple[int, int]:
    """The window [first, last] inside [floor, top] with the latest first step that covers `demand`; (-1, -1): none.

    `literal`: it must end at `top`.
    """
    # `missing` is what steps t + 1 to `last` do not cover; last = -1 as long as the window has no step with supply.
    missing, last, t = demand, top if literal else -1, top
    while t >= floor:
        supply = steps[t].supply_s
        if literal or supply > 0.0:
            if last < 0:
                last = t
            if supply >= missing:
                return t, last
            missing -= supply
            t -= 1
            # A bond between t and t + 1: a window with both would hold two neighbours of another one. A literal window
            # cannot begin elsewhere, any other begins anew below the bond.
            if t >= 0 and steps[t].bond:
                if literal:
                    break
                missing, last = demand, -1
            continue
        # An empty step: jump. Where the link ends at another empty step it takes over that one's link (path halving,
        # as in union-find), so that long runs of empty steps are walked through only once.
        link = steps[t].down
        below = _step_of(link)
        if below >= 0 and steps[below].supply_s == 0.0:
            link = steps[below].down | _bond_of(link)
            steps[t].down = link
            below = _step_of(link)
        if _bond_of(link):
            missing, last = demand, -1
        t = below
    return -1, -1


@kernel
def window_after(steps: Records, bottom: int, demand: float, literal: bool) -> tuple[int, int]:
    """The window [first, last] from `bottom` on with the earliest last step that covers `demand`; (-1, -1): none.

    `literal`: it must begin at `bottom`.
    """
    # The mirror image of `window_before`, except that bond t ties t and t + 1.
    missing, first, t = demand, bottom if literal else -1, bottom
    while t < len(steps):
        supply = steps[t].supply_s
        if literal or supply > 0.0:
            if first < 0:
                first = t
            if supply >= missing:
                return first, t
            missing -= supply
            if steps[t].bond:
                if literal:
                    break
                missing, first = demand, -1
            t += 1
            continue
        link = steps[t].up
        above = _step_of(link)
        if above < len(steps) and steps[above].supply_s == 0.0:
            link = steps[above].up | _bond_of(link)
            steps[t].up = link
            above = _step_of(link)
        if _bond_of(link):
            missing, first = demand, -1
        t = above
    return -1, -1


@kernel
def take_before(steps: Records, first: int, last: int, demand: float) -> None:
    """Place an input's window: take `demand` from `last` downwards, tie its steps, link what is empty."""
    missing = demand
    for t in range(last, first, -1):
        missing -= steps[t].supply_s
        steps[t].supply_s = 0.0
        # Down to the far end, which may keep some supply. No upward links: copies of outputs begin after the present
        # step, and this window lies before it.
        steps[t].down = _link(first, 1)
        steps[t - 1].bond = 1
    steps[first].supply_s -= missing
    if steps[first].supply_s == 0.0:
        steps[first].down = _link(first - 1, steps[first - 1].bond if first > 0 else 0)


@kernel
def take_after(steps: Records, first: int, last: int, demand: float) -> None:
    """Place an output's window: take `demand` from `first` upwards, tie its steps, link what is empty."""
    missing = demand
    for t in range(first, last):
        missing -= steps[t].supply_s
        steps[t].supply_s = 0.0
        steps[t].bond = 1
        # Both ways: later outputs scan upwards from here, later inputs downwards across the whole window.
        steps[t].up = _link(last, 1)
        steps[t].down = _link(first - 1, 1)
    steps[last].supply_s -= missing
    if steps[last].supply_s == 0.0:
        steps[last].up = _link(last + 1, steps[last].bond)
        steps[last].down = _link(first - 1, 1 if last > first else steps[first - 1].bond)
    # The loop wrote a bond for the first step too, but below it there is one only if another window made it.
    if first < last:
        steps[first].down = _link(first - 1, steps[first - 1].bond)


class Outcome(NamedTuple):
    """What an action would place. Steps are closed intervals; -1 = none.

    Attributes:
        legal: whether the action may be played.
        first, last: interval in fast memory.
        copy_first, copy_last: window in which the copy is transferred.
        offset: place in fast memory, in granules.
    """

    legal: bool
    first: int
    last: int
    copy_first: int
    copy_last: int
    offset: int


_ILLEGAL = Outcome(False, -1, -1, -1, -1, -1)
_int64: Any = np.int64
"""Widens int32 fields of records: numba wants the same type from every `return` of a kernel."""


@kernel
def _placement(first: int, last: int, copy_first: int, copy_last: int, offset: int) -> Outcome:
    """A legal outcome with these numbers."""
    return Outcome(True, _int64(first), _int64(last), _int64(copy_first), _int64(copy_last), _int64(offset))


@kernel
def _find_offset(tables: Tables, state: GameState, first: int, fixed: int, words: Words) -> int:
    """Where the present buffer fits from step `first` on: at `fixed`, or lowest if that is -1; -1: nowhere.

    `first` is at most the present step.
    """
    buffer = tables.buffer[state.game[0].cursor]
    now, granules = buffer.step, buffer.granules
    # Without a fixed offset no member of the alias group is placed yet, so that there is no place to share.
    if fixed < 0:
        return lowest_offset(tables, state, first, now, granules, words)
    return fixed if is_free(tables, state, first, now, fixed, granules, buffer.group) else -1


@kernel
def _outcome_of_copy(tables: Tables, state: GameState, fixed: int, words: Words) -> Outcome:
    """Outcome of a Copy, whose interval is its instruction's step and the window of the copy."""
    buffer = tables.buffer[state.game[0].cursor]
    now, demand, literal = buffer.step, buffer.demand_s, tables.literal_copies
    if buffer.is_output:
        # The window follows the instruction, so the interval ends with the window. `_find_offset` gets the present
        # step: what is placed past it are outputs, and it always compares those.
        copy_first, copy_last = window_after(state.step, now + 1, demand, literal)
        first, last, meets_from = now, copy_last, now
    else:
        # The window precedes the instruction, and the tensor must exist in HBM when the window begins.
        ready = state.tensor[buffer.tensor].ready
        copy_first, copy_last = window_before(state.step, now - 1, ready, demand, literal)
        first, last, meets_from = copy_first, now, copy_first
    if copy_first < 0:
        return _ILLEGAL
    offset = _find_offset(tables, state, meets_from, fixed, words)
    return _placement(first, last, copy_first, copy_last, offset) if offset >= 0 else _ILLEGAL


@kernel
def _outcome_of_no_copy(tables: Tables, state: GameState, fixed: int, words: Words) -> Outcome:
    """Outcome of a NoCopy: an output stays for its live range, an input uses what lies in fast memory already."""
    buffer = tables.buffer[state.game[0].cursor]
    now = buffer.step
    if buffer.is_output:
        # A result of the program must reach HBM, and without a copy it would not.
        if buffer.leaves:
            return _ILLEGAL
        first, last = now, buffer.last
    else:
        # An input stays at the offset of its tensor, so the alias group must not lie elsewhere.
        tensor = state.tensor[buffer.tensor]
        if tensor.last < 0 or (fixed >= 0 and fixed != tensor.offset):
            return _ILLEGAL
        # The tensor's latest interval covers this use: nothing more is placed.
        if tensor.last >= now:
            return _placement(-1, -1, -1, -1, tensor.offset)
        # Otherwise the tensor must stay from the end of that interval to this use.
        first, last, fixed = tensor.last + 1, now, tensor.offset
    offset = _find_offset(tables, state, first, fixed, words)
    return _placement(first, last, -1, -1, offset) if offset >= 0 else _ILLEGAL


@kernel
def outcome_of(tables: Tables, state: GameState, action: int, words: Words) -> Outcome:
    """What an action on the present buffer would place; the game must not be over."""
    buffer = tables.buffer[state.game[0].cursor]
    group_state, fixed = UNDECIDED, -1
    if buffer.group >= 0:
        group = state.group[buffer.group]
        group_state, fixed = group.state, group.offset
    # An alias group lies in fast memory wholly or not at all: once a member is placed none may be dropped, and once
    # a member is dropped (or must be) none may be placed.
    if action == DROP:
        return Outcome(group_state != PLACED, -1, -1, -1, -1, -1)
    if group_state >= DROPPED or buffer.granules > tables.capacity:
        return _ILLEGAL
    if action == COPY:
        return _outcome_of_copy(tables, state, fixed, words)
    return _outcome_of_no_copy(tables, state, fixed, words)
