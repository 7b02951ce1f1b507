"""A simple player of the game: it takes the action that is worth most at a price of room and of copies.

It is ours, not the paper's: fast memory and copies are scarce, so that a placement is worth what it saves less the room
that it holds and the copy that it takes, at prices (Lagrange multipliers) that are the same for the whole program.
`best_greedy` tries prices on a grid and keeps the best return: one number for room and one for copies, however long the
program is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.game import MmapGame
from hwsim.mmap.rules.moves import is_over, leave_dead_end, play, restart
from hwsim.mmap.rules.outcome import Outcome, outcome_of
from hwsim.mmap.rules.state import (
    COPY,
    DROP,
    NO_COPY,
    GameState,
    Words,
    new_states,
    new_words,
    state_of,
)
from hwsim.mmap.tables import Tables, begins_s, instruction_s, savings_s
from hwsim.problem import Floats, Mapping16

ROOM_PRICES = (0.0, 0.03, 0.06, 0.12, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
COPY_PRICES = (0.0, 0.1, 0.25, 0.5)
"""The grid of `best_greedy`, in the units of `greedy`."""


def greedy(game: MmapGame, room_price: float = 0.35, copy_price: float = 0.1) -> Mapping16:
    """int16 [N], what the greedy player plays; -1 if there is no decision or the game was lost before it.

    Args:
        game: what is played.
        room_price: of a granule for a second; 1 = all of fast memory, held for as long as the program takes from HBM,
            costs the most that fast memory can save.
        copy_price: seconds that a copy must save for each second that it takes.
    """
    worth = _worth(game.tables, room_price, copy_price)
    state = state_of(new_states(game.tables, 1), 0)
    _play_greedily(game.tables, state, worth, new_words(game.tables))
    return np.asarray(state.buffer["action"], np.int16)


def best_greedy(game: MmapGame) -> Mapping16:
    """int16 [N], the game with the best return of those at all prices of the grid."""
    rows = np.stack([greedy(game, room, copy) for room in ROOM_PRICES for copy in COPY_PRICES])
    cost_s = game.play(rows).cost_s
    best: Mapping16 = rows[int(np.argmin(np.where(np.isnan(cost_s), np.inf, cost_s)))]
    return best


class Worth(NamedTuple):
    """What the greedy player knows beside the tables.

    Attributes:
        saved: float64 [N], seconds that each buffer saves alone in fast memory.
        later_use: int32 [N], the next buffer of the same tensor, -1 = none.
        begin: float64 [T + 1], when each step begins with everything in HBM.
        room_price_s: seconds that a granule costs for a second.
        copy_price: seconds that a second of copying costs.
    """

    saved: Floats
    later_use: NDArray[np.int32]
    begin: Floats
    room_price_s: float
    copy_price: float


def _worth(tables: Tables, room_price: float, copy_price: float) -> Worth:
    room_price_s = room_price * tables.most_s / (tables.capacity * max(tables.none_s, 1e-300))
    return Worth(savings_s(tables), _later_uses(tables), begins_s(tables), room_price_s, copy_price)


@kernel
def _later_uses(tables: Tables) -> NDArray[np.int32]:
    """int32 [N], the next buffer of the same tensor, -1 = none."""
    later_use = np.full(len(tables.buffer), -1, np.int32)
    # Backwards, so that `seen` has each tensor's earliest buffer after the present one.
    seen = np.full(len(tables.ready), -1, np.int32)
    for b in range(len(later_use) - 1, -1, -1):
        tensor = tables.buffer[b].tensor
        later_use[b] = seen[tensor]
        seen[tensor] = b
    return later_use


@kernel
def _value_s(tables: Tables, state: GameState, worth: Worth, action: int, outcome: Outcome) -> float:
    """Seconds that a legal action is worth at the prices: of this buffer and of reads that its interval covers."""
    if action == DROP:
        return 0.0
    game = state.game[0]
    b = game.cursor
    buffer = tables.buffer[b]
    # What the instruction saves depends on its buffers that are placed already.
    read, write = game.fast_read_bytes, game.fast_write_bytes
    value = instruction_s(tables, buffer.step, read, write)
    value -= instruction_s(tables, buffer.step, read + buffer.read_bytes, write + buffer.write_bytes)
    # A NoCopy inside an earlier interval takes neither room nor a copy, and later reads count for that interval.
    if outcome.first < 0:
        return value
    later = worth.later_use[b]
    while later >= 0 and tables.buffer[later].step <= outcome.last:
        value += worth.saved[later]
        later = worth.later_use[later]
    held_s = worth.begin[outcome.last + 1] - worth.begin[outcome.first]
    value -= worth.room_price_s * buffer.granules * held_s
    return value - worth.copy_price * buffer.demand_s if outcome.copy_first >= 0 else value


@kernel
def _best(tables: Tables, state: GameState, worth: Worth, words: Words) -> tuple[int, Outcome, float]:
    """The action that is worth most, -1 at a dead end; among equal ones NoCopy (it saves a write-back), then Drop."""
    outcome = outcome_of(tables, state, DROP, words)
    best, best_outcome, best_s = -1, outcome, -np.inf
    if outcome.legal:
        best, best_s = DROP, 0.0
    # The order and the comparisons decide ties: Copy must be better than Drop, NoCopy as good as any.
    for action in (COPY, NO_COPY):
        outcome = outcome_of(tables, state, action, words)
        if not outcome.legal:
            continue
        value_s = _value_s(tables, state, worth, action, outcome)
        if value_s > best_s or (value_s == best_s and action == NO_COPY):
            best, best_outcome, best_s = action, outcome, value_s
    return best, best_outcome, best_s


@kernel
def _play_greedily(tables: Tables, state: GameState, worth: Worth, words: Words) -> None:
    """Play a game by the prices."""
    restart(tables, state)
    while not is_over(tables, state):
        action, outcome, _ = _best(tables, state, worth, words)
        if action < 0:
            leave_dead_end(tables, state)
        else:
            play(tables, state, action, outcome)
