"""Which tensors are held: they lie in fast memory, nothing was placed over them, and they have uses to come.

A NoCopy at its next use makes such a tensor stay; what is placed over it takes that away. The game does not need to
know, who plays it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.rules.room import Words, is_clear, mark
from hwsim.mmap.rules.state import Board
from hwsim.mmap.tables import Tables


@kernel
def _next_use(next_use: NDArray[np.int32], b: int, cursor: int) -> int:
    """The first decision on the tensor of buffer b from the cursor on; N: there is none."""
    while b < cursor:
        b = next_use[b]
    return b


@kernel
def find_held(
    tables: Tables, board: Board, next_use: NDArray[np.int32], steps: int, words: Words
) -> NDArray[np.int32]:
    """The next uses int32 [K] of the tensors whose last interval ended within so many steps, latest first; `next_use`
    int32 [N] is the next decision on each buffer's tensor. Members of an alias group cover each other like all else.
    """
    found = np.empty(len(tables.ready) if steps > 0 else 0, np.int32)
    if steps == 0:
        return found
    count, cursor, end = 0, board.game[0].cursor, len(tables.buffer)
    now = tables.buffer[cursor].step
    words[:] = np.uint64(0)
    for k in range(board.game[0].active):
        other = board.buffer[k].active
        if board.buffer[other].last <= now:
            continue
        following = _next_use(next_use, other, cursor)
        if following < end:
            found[count] = following
            count += 1
        mark(words, board.buffer[other].offset, tables.buffer[other].granules)
    for t in range(now, max(now - steps, -1), -1):
        other = board.step[t].ends_at
        while other >= 0:
            tensor = board.tensor[tables.buffer[other].tensor]
            if tensor.last == t and is_clear(words, tensor.offset, tables.buffer[other].granules):
                following = _next_use(next_use, other, cursor)
                if following < end and count < len(found):
                    found[count] = following
                    count += 1
            other = board.buffer[other].also_ends
        other = board.step[t].ends_at
        while other >= 0:
            mark(words, board.buffer[other].offset, tables.buffer[other].granules)
            other = board.buffer[other].also_ends
    return found[:count]
