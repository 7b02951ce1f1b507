"""Simple players of the game: any legal action, and the one that is worth most at a price of room and of copies.

Source: the random player is the one of table 2 of the MMapGame paper. The greedy one is ours: fast memory and
copies are scarce, so that a placement is worth what it saves less the room that it holds and the copy that it
takes, at prices (Lagrange multipliers) that are the same for the whole program. `best_greedy` tries prices on a
grid and keeps the best return: one number for room and one for copies, however long the program is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.game import MmapGame, Played
from hwsim.mmap.rules.moves import dead_end, over, play, restart
from hwsim.mmap.rules.placing import Plan, plan
from hwsim.mmap.rules.room import Words, new_words
from hwsim.mmap.rules.state import COPY, DROP, NO_COPY, Board, board_of, copy_board, new_boards
from hwsim.mmap.savings import begins_s, savings_s, seconds
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats, Mapping16

ROOM_PRICES = (0.0, 0.03, 0.06, 0.12, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
COPY_PRICES = (0.0, 0.1, 0.25, 0.5)
"""The grid of `best_greedy`, in the units of `GreedyConfig`."""


@dataclass(frozen=True)
class GreedyConfig:
    """Settings of the greedy player.

    Attributes:
        room_price: of a granule for a second; 1 = all of fast memory, held for as long as the program takes from HBM,
            costs the most that fast memory can save.
        copy_price: seconds that a copy must save for each second that it takes.
        look_ahead: moves that are played by the prices alone after each legal action before actions are compared;
            0 compares what the actions themselves are worth. Each look-ahead copies the game: for programs of up to
            some thousand buffers.
    """

    room_price: float = 0.35
    copy_price: float = 0.1
    look_ahead: int = 0


def random_legal(game: MmapGame, draws: Floats) -> Played:
    """Games in which every legal action is as likely as the others; draws: float64 [B, N] from [0, 1), one a
    buffer.
    """
    words, board = new_words(game.tables), board_of(new_boards(game.tables, 1), 0)
    played = np.empty(draws.shape, np.int16)
    for row, draw in enumerate(np.ascontiguousarray(draws, np.float64)):
        _play_random(game.tables, board, draw, words)
        played[row] = board.buffer["action"]
    return game.played(played)


def greedy(game: MmapGame, config: GreedyConfig | None = None) -> Mapping16:
    """int16 [N], what the greedy player plays; -1 where there is no decision or the game was lost before it."""
    given = config or GreedyConfig()
    worth = _worth(game.tables, given)
    boards, words = new_boards(game.tables, 2), new_words(game.tables)
    own, other = board_of(boards, 0), board_of(boards, 1)
    _play_greedily(game.tables, own, other, worth, given.look_ahead, words)
    return np.asarray(own.buffer["action"], np.int16)


def best_greedy(game: MmapGame, value: Callable[[Played], Floats] | None = None) -> Mapping16:
    """int16 [N], the game with the best return, or the greatest `value` [B], of those at all prices of the grid."""
    rows = np.stack([greedy(game, GreedyConfig(room, copy)) for room in ROOM_PRICES for copy in COPY_PRICES])
    played = game.played(rows)
    found = -played.cost_s if value is None else value(played)
    best: Mapping16 = rows[int(np.argmax(np.where(np.isnan(found), -np.inf, found)))]
    return best


class Worth(NamedTuple):
    """What the greedy player knows beside the tables.

    Attributes:
        saved: float64 [N], seconds that each buffer saves alone in fast memory.
        following: int32 [N], the next buffer of the same tensor, -1 = none.
        begin: float64 [T + 1], when each step begins with everything in HBM.
        room_s: seconds that a granule costs for a second; copy: price of copies.
    """

    saved: Floats
    following: NDArray[np.int32]
    begin: Floats
    room_s: float
    copy: float


def _worth(tables: Tables, config: GreedyConfig) -> Worth:
    room_s = config.room_price * tables.most_s / (tables.capacity * max(tables.none_s, 1e-300))
    return Worth(savings_s(tables), _following(tables), begins_s(tables), room_s, config.copy_price)


@kernel
def _following(tables: Tables) -> NDArray[np.int32]:
    following = np.full(len(tables.buffer), -1, np.int32)
    later = np.full(len(tables.ready), -1, np.int32)
    for b in range(len(following) - 1, -1, -1):
        tensor = tables.buffer[b].tensor
        following[b] = later[tensor]
        later[tensor] = b
    return following


@kernel
def _play_random(tables: Tables, board: Board, draw: Floats, words: Words) -> None:
    restart(tables, board)
    while not over(tables, board):
        legal = 0
        for action in range(3):
            if plan(tables, board, action, words)[0]:
                legal += 1
        if legal == 0:
            dead_end(tables, board)
            continue
        skip = int(draw[board.game[0].cursor] * legal)
        for action in range(3):
            planned = plan(tables, board, action, words)
            if planned[0]:
                if skip == 0:
                    play(tables, board, action, planned)
                    break
                skip -= 1


@kernel
def _value(tables: Tables, board: Board, worth: Worth, action: int, planned: Plan) -> float:
    """Seconds that a legal action is worth at the prices: of this buffer and of reads that its interval covers."""
    if action == DROP:
        return 0.0
    game = board.game[0]
    b = game.cursor
    buffer = tables.buffer[b]
    read, write = game.fast_read_bytes, game.fast_write_bytes
    value = seconds(tables, buffer.step, read, write)
    value -= seconds(tables, buffer.step, read + buffer.read_bytes, write + buffer.write_bytes)
    _, first, last, copy_first, _, _ = planned
    if first < 0:
        return value
    following = worth.following[b]
    while following >= 0 and tables.buffer[following].step <= last:
        value += worth.saved[following]
        following = worth.following[following]
    value -= worth.room_s * buffer.granules * (worth.begin[last + 1] - worth.begin[first])
    return value - worth.copy * buffer.demand_s if copy_first >= 0 else value


@kernel
def _best(tables: Tables, board: Board, worth: Worth, words: Words) -> tuple[int, Plan, float]:
    """The action that is worth most, -1 at a dead end; of equal ones NoCopy, which spares a write-back, then Drop."""
    planned = plan(tables, board, DROP, words)
    action, kept, value = -1, planned, -np.inf
    if planned[0]:
        action, value = DROP, 0.0
    for other in (COPY, NO_COPY):
        planned = plan(tables, board, other, words)
        if not planned[0]:
            continue
        worth_s = _value(tables, board, worth, other, planned)
        if worth_s > value or (worth_s == value and other == NO_COPY):
            action, kept, value = other, planned, worth_s
    return action, kept, value


@kernel
def _ahead(
    tables: Tables, board: Board, other: Board, worth: Worth, moves: int, words: Words
) -> tuple[int, Plan]:
    """The action after which it and `moves` moves by the prices are worth most, -1 at a dead end."""
    best, kept, most = -1, plan(tables, board, DROP, words), -np.inf
    for action in (NO_COPY, DROP, COPY):
        planned = plan(tables, board, action, words)
        if not planned[0]:
            continue
        value = _value(tables, board, worth, action, planned)
        copy_board(board, other)
        play(tables, other, action, planned)
        for _ in range(moves):
            if over(tables, other):
                break
            then, thereby, more = _best(tables, other, worth, words)
            if then < 0:
                value = -np.inf
                break
            value += more
            play(tables, other, then, thereby)
        if best < 0 or value > most:
            best, kept, most = action, planned, value
    return best, kept


@kernel
def _play_greedily(
    tables: Tables, board: Board, other: Board, worth: Worth, look_ahead: int, words: Words
) -> None:
    restart(tables, board)
    restart(tables, other)
    while not over(tables, board):
        if look_ahead > 0:
            action, planned = _ahead(tables, board, other, worth, look_ahead, words)
        else:
            action, planned, _ = _best(tables, board, worth, words)
        if action < 0:
            dead_end(tables, board)
        else:
            play(tables, board, action, planned)
