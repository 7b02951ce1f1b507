"""Windows of copies: which steps lend their supply to a copy.

Source: MMapGame paper, appendix A, equations 5 and 6. `docs/mmap.md` has the rulings where it is silent.

Equation 6, |copy ∩ copy'| <= 1, says that a window may not hold two neighbouring steps of another one: a *bond* ties
neighbours that one window holds, and a sum of supply begins anew at a bond. A window takes its supply from the end
near the instruction, all there is of it, and in part only at the far end; so what lies inside a window is empty for
good, and a scan jumps over runs of empty steps by links. Both ends of a window had supply when it was placed (an empty
step at the near end belongs to no window), so that no link from outside reaches into one.
"""

from __future__ import annotations

from hwsim.jit import kernel
from hwsim.mmap.tables import Records


@kernel
def link_all(steps: Records) -> None:
    """Links of the steps that have no supply when the game begins."""
    for t in range(len(steps)):
        steps[t].bond = 0
        steps[t].down = 2 * t
        steps[t].up = 2 * (t + 2)


@kernel
def window_before(steps: Records, top: int, floor: int, demand: float, literal: bool) -> tuple[int, int]:
    """The window [first, last] inside [floor, top] with the latest first step that covers `demand`; (-1, -1): none.

    `literal`: it must end at `top`.
    """
    rest, last, t = demand, top if literal else -1, top
    while t >= floor:
        left = steps[t].supply_s
        if literal or left > 0.0:
            if last < 0:
                last = t
            if left >= rest:
                return t, last
            rest -= left
            t -= 1
            if t >= 0 and steps[t].bond:
                if literal:
                    break
                rest, last = demand, -1
            continue
        code = steps[t].down
        below = (code >> 1) - 1
        if below >= 0 and steps[below].supply_s == 0.0:
            code = steps[below].down | (code & 1)
            steps[t].down = code
            below = (code >> 1) - 1
        if code & 1:
            rest, last = demand, -1
        t = below
    return -1, -1


@kernel
def window_after(steps: Records, bottom: int, demand: float, literal: bool) -> tuple[int, int]:
    """The window [first, last] from `bottom` on with the earliest last step that covers `demand`; (-1, -1): none.

    `literal`: it must begin at `bottom`.
    """
    rest, first, t = demand, bottom if literal else -1, bottom
    while t < len(steps):
        left = steps[t].supply_s
        if literal or left > 0.0:
            if first < 0:
                first = t
            if left >= rest:
                return first, t
            rest -= left
            if steps[t].bond:
                if literal:
                    break
                rest, first = demand, -1
            t += 1
            continue
        code = steps[t].up
        above = (code >> 1) - 1
        if above < len(steps) and steps[above].supply_s == 0.0:
            code = steps[above].up | (code & 1)
            steps[t].up = code
            above = (code >> 1) - 1
        if code & 1:
            rest, first = demand, -1
        t = above
    return -1, -1


@kernel
def take_before(steps: Records, first: int, last: int, demand: float) -> None:
    """Place an input's window: take `demand` from `last` downwards, tie its steps, link what is empty."""
    rest = demand
    for t in range(last, first, -1):
        rest -= steps[t].supply_s
        steps[t].supply_s = 0.0
        steps[t].down = 2 * (first + 1) + 1
        steps[t - 1].bond = 1
    steps[first].supply_s -= rest
    if steps[first].supply_s == 0.0:
        steps[first].down = 2 * first + (steps[first - 1].bond if first > 0 else 0)


@kernel
def take_after(steps: Records, first: int, last: int, demand: float) -> None:
    """Place an output's window: take `demand` from `first` upwards, tie its steps, link what is empty."""
    rest = demand
    for t in range(first, last):
        rest -= steps[t].supply_s
        steps[t].supply_s = 0.0
        steps[t].bond = 1
        steps[t].up = 2 * (last + 1) + 1
        steps[t].down = 2 * first + 1
    steps[last].supply_s -= rest
    if steps[last].supply_s == 0.0:
        steps[last].up = 2 * (last + 2) + steps[last].bond
        steps[last].down = 2 * first + (1 if last > first else steps[first - 1].bond)
    if first < last:
        steps[first].down = 2 * first + steps[first - 1].bond
