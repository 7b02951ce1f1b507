"""Which tensors are held: they lie in fast memory, nothing was placed over them, and they have uses to come.

A NoCopy at its next use makes such a tensor stay; what is placed over it takes that chance away. The game itself does
not need this, its players do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.rules.room import Words, is_clear, mark
from hwsim.mmap.rules.state import GameState
from hwsim.mmap.tables import Tables


@kernel
def _use_to_come(next_use: NDArray[np.int32], b: int, cursor: int) -> int:
    """The first decision on the tensor of buffer b from the cursor on; N: there is none."""
    # N is never below the cursor, so the chain of uses always ends.
    while b < cursor:
        b = next_use[b]
    return b


@kernel
def find_held(
    tables: Tables, state: GameState, next_use: NDArray[np.int32], steps: int, words: Words
) -> NDArray[np.int32]:
    """Next uses int32 [K] of the held tensors whose last interval ended within so many steps, latest first.

    `next_use` int32 [N] is the next decision on each buffer's tensor. A tensor counts as covered by members of its own
    alias group, too.
    """
    found = np.empty(len(tables.ready) if steps > 0 else 0, np.int32)
    if steps == 0:
        return found
    # Time runs backwards, and `words` has the granules of all intervals that end later than the one looked at: a
    # tensor is still there if none of its granules is taken.
    count, cursor, end = 0, state.game[0].cursor, len(tables.buffer)
    now = tables.buffer[cursor].step
    words[:] = np.uint64(0)
    # What ends past the present step lies there now.
    for k in range(state.game[0].active):
        other = state.buffer[k].active
        if state.buffer[other].last <= now:
            continue
        coming = _use_to_come(next_use, other, cursor)
        if coming < end:
            found[count] = coming
            count += 1
        mark(words, state.buffer[other].offset, tables.buffer[other].granules)
    for t in range(now, max(now - steps, -1), -1):
        other = state.step[t].ends_at
        while other >= 0:
            tensor = state.tensor[tables.buffer[other].tensor]
            # Only a tensor's latest interval says where it lies.
            if tensor.last == t and is_clear(words, tensor.offset, tables.buffer[other].granules):
                coming = _use_to_come(next_use, other, cursor)
                if coming < end and count < len(found):
                    found[count] = coming
                    count += 1
            other = state.buffer[other].also_ends
        # Marked after all of them were looked at: intervals that end at one step do not cover each other.
        other = state.step[t].ends_at
        while other >= 0:
            mark(words, state.buffer[other].offset, tables.buffer[other].granules)
            other = state.buffer[other].also_ends
    return found[:count]
