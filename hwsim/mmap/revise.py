"""Whole games revised: some moves of a game are changed, it is played again from there, and kept or not.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing" (Science, 1983), over wishes as
`hwsim.mmap.rules.moves.play_proposal` plays them: what replaces an illegal wish is played, and the wish stays.

A change gives one buffer another wish, or a run of neighbours (all the same one or each its own), or those of a kind
(outputs, first inputs or later inputs, alike in their size, their distance from the use before or what they save for
their room, or in a range of one of these; all of them or some from one on),
or the uses of one tensor, all or a run of them. What was played before the first change is not planned again: a game
begins at a mark, a state of the kept game. One that is `PATIENCE` buffers past a change is expected to end as far above
or below the kept one as it is then, and given up where that is not enough. One that is past its last change and was
played as the kept one throughout would end as it did: its wishes are kept, and nothing is played.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import bits, uniform
from hwsim.mmap.rules.moves import dead_end, find_legal, over, play, restart, settle
from hwsim.mmap.rules.room import Words, new_words
from hwsim.mmap.rules.state import COPY, NO_COPY, Board, board_of, copy_board, new_boards
from hwsim.mmap.savings import savings_s
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats
from hwsim.stepwise import Revised

ACTIONS = 3
ONE, RUN, KIND = 0.3, 0.3, 0.2
"""Shares of changes to one buffer, to a run, to a kind; the rest are of tensors."""
AGAIN = 0.4
"""Share of games that are changed twice."""
PATIENCE = 64
"""Buffers after the latest change, others to come or not, from which on a game is judged by what it has returned."""
MARKS, APART = 32, 256
"""States of the kept game that there are to begin with at most; buffers between two of them at least."""
ENDED, GIVEN_UP, SAME = range(3)
LONGEST = 1000.0

_KEEP, _SECOND, _DRAWS = np.uint64(0), np.uint64(1), np.uint64(2)
_PLACE, _KIND, _WISH, _FIRST, _END, _LED = (np.uint64(k) for k in range(6))
_RUN, _TRAIT = np.uint64(6), np.uint64(7)


class Uses(NamedTuple):
    """Decisions, and those of each tensor.

    Attributes:
        decision: int64 [D], buffers that have one; tensor: int64 [D], whose, counted among tensors with decisions.
        begins: int64 [U + 1], of each tensor's run in `use`; use: int64 [D], buffers tensor by tensor.
        role: int64 [D], an output, a tensor's first input or a later one.
        traits: int64 [3, D], the buffer's room; its distance in steps, from the use before or, where there is none and
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
        marks_for(tables),
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
        trait = uses.traits[int(uniform(key, _TRAIT) * len(uses.traits))]
        role, low, high = uses.role[k], trait[k], trait[k]
        if uniform(key, _RUN) < 0.5:
            other = trait[int(uniform(key, _LED) * number)]
            low, high = min(low, other), max(high, other)
        left = number
        if uniform(key, _FIRST) < 0.5:
            left = int(min(LONGEST, 1.0 / (1.0 - uniform(key, _END))))
        else:
            k = 0
        first = -1
        while k < number and left > 0:
            if uses.role[k] == role and low <= trait[k] <= high:
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
    kept_wish: NDArray[np.int16],
    kept_s: float,
    kept_sofar: Floats,
    exact: int,
    least_s: float,
    words: Words,
) -> tuple[float, int, int]:
    """Play a game on by wishes from the decision on buffer `keep` on.

    Args:
        sofar: float64 [N], the return after each buffer, seconds; written where this game plays.
        kept, kept_wish, kept_s, kept_sofar: the game that this one is to replace.
        exact: the buffer from which on its moves follow from its wishes and the moves before, more than N for none:
            what a dead end forces does not.
        least_s: the return from which on it will.

    Returns:
        The return, or what it is expected to be; `ENDED`, `GIVEN_UP`, or `SAME` where the game would end as the kept
        one did, buffer by buffer; buffers played.
    """
    last = len(wish) - 1
    while last > keep and wish[last] == kept_wish[last]:
        last -= 1
    played, changed, same, lost = 0, keep, last + 1 >= exact, kept.game[0].lost > 0
    while not over(tables, board):
        b = board.game[0].cursor
        action, planned = find_legal(tables, board, wish[b], words)
        if not planned[0]:
            dead_end(tables, board)
            same = False
            continue
        play(tables, board, action, planned)
        played += 1
        sofar[b] = board.game[0].total_s
        same = same and _alike(board, kept, b)
        if same and b >= last:
            return kept_s, SAME, played
        if wish[b] != kept_wish[b]:
            changed = b
        if b >= changed + PATIENCE and not lost:
            expected = kept_s + board.game[0].total_s - kept_sofar[b]
            if expected < least_s:
                return expected, GIVEN_UP, played
    return board.game[0].total_s, ENDED, played


def marks_for(tables: Tables) -> Board:
    """Room for the marks of a game."""
    return new_boards(tables, min(MARKS, len(tables.buffer) // APART))


@kernel
def _spacing(marks: Board, board: Board) -> int:
    """Buffers from one mark to the next."""
    return -(-len(board.buffer) // (len(marks.game) + 1))


@kernel
def go_to(tables: Tables, board: Board, kept: Board, marks: Board, keep: int) -> None:
    """Play the moves of a kept game on the buffers before `keep`, the last mark on the way being where it begins."""
    passed = min(keep // _spacing(marks, board), len(marks.game))
    if passed == 0:
        restart(tables, board)
    else:
        copy_board(board_of(marks, passed - 1), board)
    _follow(tables, board, kept, keep)


@kernel
def _follow(tables: Tables, board: Board, kept: Board, keep: int) -> None:
    """Play a kept game's moves on, up to `keep`."""
    while board.game[0].cursor < keep:
        row, given = board.buffer[board.game[0].cursor], kept.buffer[board.game[0].cursor]
        row.action = given.action
        row.offset = given.offset
        row.first = given.first
        row.last = given.last
        row.copy_first = given.copy_first
        row.copy_last = given.copy_last
        settle(tables, board)


@kernel
def mark(tables: Tables, board: Board, kept: Board, marks: Board, keep: int) -> None:
    """Write down the states of a kept game at the marks beyond `keep`; those before are there. `board` is scratch."""
    go_to(tables, board, kept, marks, keep)
    spacing = _spacing(marks, board)
    for m in range(keep // spacing, len(marks.game)):
        if (m + 1) * spacing > kept.game[0].cursor:
            break
        _follow(tables, board, kept, (m + 1) * spacing)
        copy_board(board, board_of(marks, m))


@kernel
def _walk(
    tables: Tables,
    boards: Board,
    marks: Board,
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
    restart(tables, kept)
    value, _, played = play_from(
        tables, kept, 0, wish, sofar, trial, wish, 0.0, sofar, buffers + 1, -np.inf, words
    )
    mark(tables, trial, kept, marks, 0)
    exact = 0 if kept.game[0].resets == 0 else buffers + 1
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
        go_to(tables, trial, kept, marks, keep)
        trial_sofar[:keep] = sofar[:keep]
        found, how, moves = play_from(
            tables, trial, keep, changed, trial_sofar, kept, wish, value, sofar, exact, least_s, words
        )
        played += max(1, moves)
        if how == SAME:
            wish[keep:] = changed[keep:]
            exact = min(exact, keep)
        elif how == ENDED and found >= least_s:
            value = found
            wish[keep:] = changed[keep:]
            kept, trial = trial, kept
            sofar, trial_sofar = trial_sofar, sofar
            back = kept.game[0].resets > 0
            mark(tables, trial, kept, marks, 0 if back else keep)
            exact = buffers + 1 if back else min(exact, keep)
            if value > best_value:
                best_value = value
                best[:] = kept.buffer["action"].astype(np.int16)
        else:
            changed[keep:] = wish[keep:]
    return wish, kept.buffer["action"].astype(np.int16), value, best, best_value, tried, played
