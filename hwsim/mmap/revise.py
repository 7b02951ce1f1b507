"""Whole games revised: some moves of a game are changed, it is played again from there, and kept or not.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing" (Science, 1983), over wishes as
`hwsim.mmap.moves.play_proposal` plays them: what replaces an illegal wish is played, and the wish stays.

A change gives one buffer another wish, or a run of neighbours (all the same one or each its own), or those of a kind
(outputs, first inputs or later inputs of tensors of one size or of a range of sizes; all of them or some from one on),
or the uses of one tensor, all or a run of them. What was played before the first change is not planned again. A game
that plays `PATIENCE` buffers in a row just as the kept one did is expected to end as far above or below it as it is
then: one that will not be kept is given up there, one that may be is played to its end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import bits, uniform
from hwsim.mmap.board import COPY, NO_COPY, UNDECIDED, Board, board_of, new_boards
from hwsim.mmap.moves import begin, dead_end, find_legal, over, play
from hwsim.mmap.room import Words, new_words
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats
from hwsim.stepwise import Revised

ACTIONS = 3
ONE, RUN, KIND = 0.3, 0.3, 0.2
"""Shares of changes to one buffer, to a run, to a kind; the rest are of tensors."""
AGAIN = 0.4
"""Share of games that are changed twice."""
PATIENCE = 64
LONGEST = 1000.0

_KEEP, _SECOND, _DRAWS = np.uint64(0), np.uint64(1), np.uint64(2)
_PLACE, _KIND, _WISH, _FIRST, _END, _LED = (np.uint64(k) for k in range(6))
_RUN = np.uint64(6)


class Uses(NamedTuple):
    """Decisions, and those of each tensor.

    Attributes:
        decision: int64 [D], buffers that have one; tensor: int64 [D], whose, counted among tensors with decisions.
        begins: int64 [U + 1], of each tensor's run in `use`; use: int64 [D], buffers tensor by tensor.
        role, granules: int64 [D], an output, a tensor's first input or a later one; its room.
    """

    decision: NDArray[np.int64]
    tensor: NDArray[np.int64]
    begins: NDArray[np.int64]
    use: NDArray[np.int64]
    role: NDArray[np.int64]
    granules: NDArray[np.int64]


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
    numbers = (tensor, begins, decision[order], role, row["granules"])
    return Uses(decision, *(part.astype(np.int64) for part in numbers))


def walk(
    tables: Tables,
    wish: NDArray[np.int16],
    key: np.uint64,
    decisions: int,
    hot: float,
    cold: float,
) -> Revised:
    """Revise a game until so many buffers have been played anew.

    Args:
        wish: int16 [N], the game to begin with; what is below 0 is a wish to drop.
        key: of all draws.
        hot, cold: temperatures at the beginning and at the end, in shares of the most that fast memory could save.
    """
    found = _walk(
        tables,
        new_boards(tables, 2),
        uses_of(tables),
        np.maximum(wish, 0).astype(np.int16),
        key,
        decisions,
        hot * tables.most_s,
        cold * tables.most_s,
        new_words(tables),
    )
    after, present, value_s, best, best_s, tried, played = found
    returned, most = value_s / tables.most_s, best_s / tables.most_s
    return Revised(after[:, None], present[:, None], returned, best[:, None], most, tried, played)


@kernel
def change(uses: Uses, wish: NDArray[np.int16], key: np.uint64) -> int:
    """One change in place; the first buffer that it may have changed."""
    number = len(uses.decision)
    k = int(uniform(key, _PLACE) * number)
    kind, action = uniform(key, _KIND), int(uniform(key, _WISH) * ACTIONS)
    first = uses.decision[k]
    if kind < ONE:
        wish[first] = action
    elif kind < ONE + RUN:
        length = int(min(LONGEST, 1.0 / (1.0 - uniform(key, _END))))
        alike = uniform(key, _FIRST) < 0.5
        for j in range(k, min(k + length, number)):
            own = action if alike else int(uniform(key, _RUN + np.uint64(j - k)) * ACTIONS)
            wish[uses.decision[j]] = own
    elif kind < ONE + RUN + KIND:
        role, low, high = uses.role[k], uses.granules[k], uses.granules[k]
        if uniform(key, _RUN) < 0.5:
            other = uses.granules[int(uniform(key, _LED) * number)]
            low, high = min(low, other), max(high, other)
        left = number
        if uniform(key, _FIRST) < 0.5:
            left = int(min(LONGEST, 1.0 / (1.0 - uniform(key, _END))))
        else:
            k = 0
        first = -1
        while k < number and left > 0:
            if uses.role[k] == role and low <= uses.granules[k] <= high:
                wish[uses.decision[k]] = action
                left -= 1
                if first < 0:
                    first = uses.decision[k]
            k += 1
    else:
        begins, ends = uses.begins[uses.tensor[k]], uses.begins[uses.tensor[k] + 1]
        if uniform(key, _RUN) < 0.5:
            begins += int(uniform(key, _FIRST) * (ends - begins))
            ends = begins + 1 + int(uniform(key, _END) * (ends - begins))
        for j in range(begins, ends):
            wish[uses.use[j]] = action
        if action == NO_COPY and uniform(key, _LED) < 0.5:
            wish[uses.use[begins]] = COPY
        first = uses.use[begins]
    return int(first)


@kernel
def _alike(one: Board, other: Board, b: int) -> bool:
    """Whether buffer b was played the same way in two games."""
    x, y = one.buffer[b], other.buffer[b]
    where = x.action == y.action and x.offset == y.offset
    when = x.first == y.first and x.last == y.last
    return where and when and x.copy_first == y.copy_first and x.copy_last == y.copy_last


@kernel
def play_from(
    tables: Tables,
    board: Board,
    keep: int,
    wish: NDArray[np.int16],
    sofar: Floats,
    kept: Board,
    kept_s: float,
    kept_sofar: Floats,
    least_s: float,
    words: Words,
) -> tuple[float, bool, int]:
    """Play a game on by wishes after the moves on the buffers before `keep`, whose rows stay.

    Args:
        sofar: float64 [N], the return after each buffer, seconds; written from `keep` on.
        kept, kept_s, kept_sofar: the game that this one is to replace.
        least_s: the return from which on it will.

    Returns:
        The return, or what it is expected to be; whether the game was played to its end; buffers played.
    """
    for g in range(len(board.group)):
        board.group[g].state = UNDECIDED
    board.game[0].lost = 0
    begin(tables, board, keep)
    played, alike = 0, 0
    while not over(tables, board):
        b = board.game[0].cursor
        action, planned = find_legal(tables, board, wish[b], words)
        if not planned[0]:
            dead_end(tables, board)
            alike = 0
            continue
        play(tables, board, action, planned)
        played += 1
        sofar[b] = board.game[0].total_s
        alike = alike + 1 if _alike(board, kept, b) else 0
        if alike >= PATIENCE:
            expected = kept_s + board.game[0].total_s - kept_sofar[b]
            if expected < least_s:
                return expected, False, played
    return board.game[0].total_s, True, played


@kernel
def _walk(
    tables: Tables,
    boards: Board,
    uses: Uses,
    wish: NDArray[np.int16],
    key: np.uint64,
    decisions: int,
    hot_s: float,
    cold_s: float,
    words: Words,
) -> tuple[NDArray[np.int16], NDArray[np.int16], float, NDArray[np.int16], float, int, int]:
    buffers = len(wish)
    sofar, trial_sofar = np.zeros(buffers), np.zeros(buffers)
    kept, trial = board_of(boards, 0), board_of(boards, 1)
    value, _, played = play_from(tables, kept, 0, wish, sofar, trial, 0.0, sofar, -np.inf, words)
    best, best_value = kept.buffer["action"].astype(np.int16), value
    changed = wish.copy()
    tried = 0
    while played < decisions and len(uses.decision) > 0:
        own = bits(key, np.uint64(tried))
        tried += 1
        keep = change(uses, changed, bits(own, _DRAWS))
        if uniform(own, _SECOND) < AGAIN:
            keep = min(keep, change(uses, changed, bits(own, _DRAWS + np.uint64(1))))
        while keep < buffers and changed[keep] == wish[keep]:
            keep += 1
        if keep == buffers:
            played += 1  # so that it ends even where nothing can be changed
            continue
        temperature = hot_s + (cold_s - hot_s) * played / decisions
        keep = min(keep, kept.game[0].cursor)  # a lost game ends early
        least_s = value + temperature * math.log(1.0 - uniform(own, _KEEP))
        trial.buffer[:keep] = kept.buffer[:keep]
        found, ended, moves = play_from(
            tables, trial, keep, changed, trial_sofar, kept, value, sofar, least_s, words
        )
        played += moves
        if ended and found >= least_s:
            value = found
            wish[keep:] = changed[keep:]
            sofar[keep:] = trial_sofar[keep:]
            kept, trial = trial, kept
            if value > best_value:
                best_value = value
                best[:] = kept.buffer["action"].astype(np.int16)
        else:
            changed[keep:] = wish[keep:]
    return wish, kept.buffer["action"].astype(np.int16), value, best, best_value, tried, played
