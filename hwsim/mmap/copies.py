"""Windows of copies: which steps lend their supply to a copy.

Source: MMapGame paper, appendix A, equations 5 and 6. `docs/mmap.md` has the rulings where it is silent.

Equation 6, |copy ∩ copy'| <= 1, says that a window may not hold two neighbouring steps of another one: a *bond* ties
neighbours that one window holds, and a sum of supply begins anew at a bond. A window takes its supply from the end
near the instruction, all there is of it, and in part only at the far end; so what lies inside a window is empty for
good, and a scan jumps over runs of empty steps by links. Both ends of a window had supply when it was placed (an empty
step at the near end belongs to no window), so that no link from outside reaches into one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel

Floats = NDArray[np.float64]
Steps = NDArray[np.int32]
Bytes = NDArray[np.int8]


@kernel
def link_all(supply: Floats, bond: Bytes, down: Steps, up: Steps) -> None:
    """Links of the steps that have no supply when the game begins."""
    for t in range(len(supply)):
        if supply[t] == 0.0:
            down[t] = 2 * t
            up[t] = 2 * (t + 2)
        bond[t] = 0


@kernel
def window_before(
    supply: Floats, bond: Bytes, down: Steps, top: int, floor: int, demand: float, literal: bool
) -> tuple[int, int]:
    """The window [first, last] inside [floor, top] with the latest first step that covers `demand`; (-1, -1): none.

    `literal`: it must end at `top`.
    """
    rest, last, t = demand, top if literal else -1, top
    while t >= floor:
        left = supply[t]
        if literal or left > 0.0:
            if last < 0:
                last = t
            if left >= rest:
                return t, last
            rest -= left
            t -= 1
            if t >= 0 and bond[t]:
                if literal:
                    break
                rest, last = demand, -1
            continue
        code = down[t]
        below = (code >> 1) - 1
        if below >= 0 and supply[below] == 0.0:
            code = down[below] | (code & 1)
            down[t] = code
            below = (code >> 1) - 1
        if code & 1:
            rest, last = demand, -1
        t = below
    return -1, -1


@kernel
def window_after(
    supply: Floats, bond: Bytes, up: Steps, bottom: int, demand: float, literal: bool
) -> tuple[int, int]:
    """The window [first, last] from `bottom` on with the earliest last step that covers `demand`; (-1, -1): none.

    `literal`: it must begin at `bottom`.
    """
    rest, first, t, steps = demand, bottom if literal else -1, bottom, len(supply)
    while t < steps:
        left = supply[t]
        if literal or left > 0.0:
            if first < 0:
                first = t
            if left >= rest:
                return first, t
            rest -= left
            if bond[t]:
                if literal:
                    break
                rest, first = demand, -1
            t += 1
            continue
        code = up[t]
        above = (code >> 1) - 1
        if above < steps and supply[above] == 0.0:
            code = up[above] | (code & 1)
            up[t] = code
            above = (code >> 1) - 1
        if code & 1:
            rest, first = demand, -1
        t = above
    return -1, -1


@kernel
def take_before(supply: Floats, bond: Bytes, down: Steps, first: int, last: int, demand: float) -> None:
    """Place an input's window: take `demand` from `last` downwards, tie its steps, link what is empty."""
    rest = demand
    for t in range(last, first, -1):
        rest -= supply[t]
        supply[t] = 0.0
        down[t] = 2 * (first + 1) + 1
        bond[t - 1] = 1
    supply[first] -= rest
    if supply[first] == 0.0:
        down[first] = 2 * first + (bond[first - 1] if first > 0 else 0)


@kernel
def take_after(
    supply: Floats, bond: Bytes, down: Steps, up: Steps, first: int, last: int, demand: float
) -> None:
    """Place an output's window: take `demand` from `first` upwards, tie its steps, link what is empty."""
    rest = demand
    for t in range(first, last):
        rest -= supply[t]
        supply[t] = 0.0
        bond[t] = 1
        up[t] = 2 * (last + 1) + 1
        down[t] = 2 * first + 1
    supply[last] -= rest
    if supply[last] == 0.0:
        up[last] = 2 * (last + 2) + bond[last]
        down[last] = 2 * first + (1 if last > first else bond[first - 1])
    if first < last:
        down[first] = 2 * first + bond[first - 1]
