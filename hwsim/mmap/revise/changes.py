"""Changes of wishes: one buffer, a run of neighbours, buffers of a kind, or the uses of a tensor get other wishes.

A kind is a role (outputs, first inputs or later inputs) and a range of one trait: size, distance from the use before,
or what a buffer saves for its room. All of the kind are changed, or some from one buffer on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.mmap.rules.state import COPY, NO_COPY
from hwsim.mmap.savings import savings_s
from hwsim.mmap.tables import Tables

ACTIONS = 3
ONE, RUN, KIND = 0.3, 0.3, 0.2
"""Shares of changes to one buffer, to a run, to a kind; the rest are of tensors."""
LONGEST = 1000.0
"""Buffers in a run at most."""

_PLACE, _SHARE, _WISH, _FIRST, _END, _OTHER = (np.uint64(number) for number in range(6))
_RUN, _TRAIT = np.uint64(6), np.uint64(7)
"""Numbers of the draws of a change. In a run without a common wish all from `_RUN` on are wishes, one a buffer."""


class Uses(NamedTuple):
    """Decisions, and those of each tensor.

    Attributes:
        decision: int64 [D], buffers that have one; tensor: int64 [D], whose, counted among tensors with decisions.
        begins: int64 [U + 1], of each tensor's run in `use`; use: int64 [D], buffers tensor by tensor.
        role: int64 [D], 0 an output, 1 a tensor's first input, 2 a later one.
        traits: int64 [3, D]: the buffer's room; its distance in steps, from the use before or, where there is none and
            of outputs, to the last one; its rank by what it saves alone for its room.
    """

    decision: NDArray[np.int64]
    tensor: NDArray[np.int64]
    begins: NDArray[np.int64]
    use: NDArray[np.int64]
    role: NDArray[np.int64]
    traits: NDArray[np.int64]


def uses_of(tables: Tables) -> Uses:
    """The decisions of a program."""
    decision = np.flatnonzero(tables.buffer["granules"] > 0)
    row = tables.buffer[decision]
    _, tensor = np.unique(row["tensor"], return_inverse=True)
    order = np.argsort(tensor, kind="stable")
    begins = np.searchsorted(tensor[order], np.arange(tensor.max(initial=-1) + 2))
    _, first = np.unique(np.where(row["is_output"], -1, row["tensor"]), return_index=True)
    role = np.full(len(decision), 2)
    role[first] = 1
    role[row["is_output"]] = 0
    same = tensor[order[1:]] == tensor[order[:-1]]
    distance = row["last"] - row["step"]
    distance[order[1:][same]] = (row["step"][order[1:]] - row["step"][order[:-1]])[same]
    distance = np.where(row["is_output"], row["last"] - row["step"], distance)
    saved = savings_s(tables)[decision] / row["granules"]
    _, rank = np.unique(saved.astype(np.float32), return_inverse=True)
    traits = np.stack([row["granules"], distance, rank]).astype(np.int64)
    tensor, begins, use, role = (part.astype(np.int64) for part in (tensor, begins, decision[order], role))
    return Uses(decision, tensor, begins, use, role, traits)


@kernel
def change(uses: Uses, wish: NDArray[np.int16], key: np.uint64) -> int:
    """Make one change in place; the first buffer that it may have changed."""
    place = int(uniform(key, _PLACE) * len(uses.decision))
    # One draw selects the sort of change; its shares are stacked from 0 to 1.
    share, action = uniform(key, _SHARE), int(uniform(key, _WISH) * ACTIONS)
    if share < ONE:
        wish[uses.decision[place]] = action
        return int(uses.decision[place])
    if share < ONE + RUN:
        return _change_run(uses, wish, key, place, action)
    if share < ONE + RUN + KIND:
        return _change_kind(uses, wish, key, place, action)
    return _change_tensor(uses, wish, key, place, action)


@kernel
def _draw_length(key: np.uint64) -> int:
    """How many buffers to change: half of the lengths are 1, one in n is n or more."""
    return int(min(LONGEST, 1.0 / (1.0 - uniform(key, _END))))


@kernel
def _change_run(uses: Uses, wish: NDArray[np.int16], key: np.uint64, place: int, action: int) -> int:
    """Change neighbours from decision `place` on: all to `action`, or each to a wish of its own."""
    # Draws of wishes come after all others, so that a run of any length has draws of its own.
    alike = uniform(key, _FIRST) < 0.5
    for k in range(place, min(place + _draw_length(key), len(uses.decision))):
        own = action if alike else int(uniform(key, _RUN + np.uint64(k - place)) * ACTIONS)
        wish[uses.decision[k]] = own
    return int(uses.decision[place])


@kernel
def _change_kind(uses: Uses, wish: NDArray[np.int16], key: np.uint64, place: int, action: int) -> int:
    """Change those of the role of decision `place` that have its trait, or one up to that of another decision."""
    number = len(uses.decision)
    trait = uses.traits[int(uniform(key, _TRAIT) * len(uses.traits))]
    role, low, high = uses.role[place], trait[place], trait[place]
    if uniform(key, _RUN) < 0.5:
        other = trait[int(uniform(key, _OTHER) * number)]
        low, high = min(low, other), max(high, other)
    # Some from this decision on, or all of the program. Either way this decision itself is one of them.
    k, left = 0, number
    if uniform(key, _FIRST) < 0.5:
        k, left = place, _draw_length(key)
    first = -1
    while k < number and left > 0:
        if uses.role[k] == role and low <= trait[k] <= high:
            wish[uses.decision[k]] = action
            left -= 1
            if first < 0:
                first = uses.decision[k]
        k += 1
    return int(first)


@kernel
def _change_tensor(uses: Uses, wish: NDArray[np.int16], key: np.uint64, place: int, action: int) -> int:
    """Change the uses of the tensor of decision `place`: all, or a run of them."""
    begins, ends = uses.begins[uses.tensor[place]], uses.begins[uses.tensor[place] + 1]
    if uniform(key, _RUN) < 0.5:
        begins += int(uniform(key, _FIRST) * (ends - begins))
        ends = begins + 1 + int(uniform(key, _END) * (ends - begins))
    for k in range(begins, ends):
        wish[uses.use[k]] = action
    # A NoCopy needs the tensor in fast memory already: the first use may bring it there.
    if action == NO_COPY and uniform(key, _OTHER) < 0.5:
        wish[uses.use[begins]] = COPY
    return int(uses.use[begins])
