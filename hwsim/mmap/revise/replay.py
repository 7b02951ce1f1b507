"""Playing a changed game from its first change on.

What was played before the first change is not worked out again: a game begins at a *mark*, a stored state of the kept
game, and takes the kept game's moves up to the change. From there it is played by its wishes, and no further than
needed:

- One that is `PATIENCE` buffers past a change is expected to end as far above or below the kept one as it is then, and
  given up where that is not enough.
- One that is past its last change and was played as the kept one throughout would end as it did. Its wishes are kept,
  and nothing more is played.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.rules.moves import apply_move, find_legal, is_over, leave_dead_end, play, restart
from hwsim.mmap.rules.room import Words
from hwsim.mmap.rules.state import GameState, copy_state, new_states, state_of
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats

PATIENCE = 64
"""Buffers after the latest change, others to come or not, from which on a game is judged by what it has returned."""
MARKS, APART = 32, 256
"""Marks of the kept game at most; buffers between two of them at least."""
ENDED, GIVEN_UP, SAME = range(3)
"""How a game is left: played to its end; expected to return too little; certain to end as the kept one."""


class Game(NamedTuple):
    """A game, and how its return grew.

    Attributes:
        state: its state.
        so_far_s: float64 [N], the return after each buffer, seconds.
    """

    state: GameState
    so_far_s: Floats


@kernel
def _is_alike(one: GameState, other: GameState, b: int) -> bool:
    """Whether buffer b was played the same way in two games."""
    x, y = one.buffer[b], other.buffer[b]
    where = x.action == y.action and x.offset == y.offset
    when = x.first == y.first and x.last == y.last
    return where and when and x.copy_first == y.copy_first and x.copy_last == y.copy_last


@kernel
def play_from(
    tables: Tables,
    trial: Game,
    wish: NDArray[np.int16],
    kept: Game,
    kept_wish: NDArray[np.int16],
    keep: int,
    exact: int,
    least_s: float,
    words: Words,
) -> tuple[int, int]:
    """Play a game on by wishes from the decision on buffer `keep` on.

    Args:
        trial: the game; `so_far_s` is written where this plays.
        wish, kept_wish: int16 [N], of this game and of the kept one, the same before `keep`.
        kept: the game that this one is to replace.
        exact: the buffer from which on the kept game's moves follow from its wishes and the moves before; more than N:
            they do not, since a dead end forced some.
        least_s: the return from which on this game will replace the kept one.

    Returns:
        `ENDED`, `GIVEN_UP` or `SAME`; buffers played.
    """
    state = trial.state
    last_change = len(wish) - 1
    while last_change > keep and wish[last_change] == kept_wish[last_change]:
        last_change -= 1
    # `same`: all moves so far are those of the kept game, and those after the last change would be, too.
    same, may_give_up = last_change + 1 >= exact, not kept.state.game[0].lost > 0
    played, latest_change = 0, keep
    while not is_over(tables, state):
        b = state.game[0].cursor
        action, outcome = find_legal(tables, state, wish[b], words)
        if not outcome.legal:
            # Back to an earlier buffer, maybe before `keep`, with a group forced that the kept game may have placed.
            leave_dead_end(tables, state)
            same = False
            continue
        play(tables, state, action, outcome)
        played += 1
        trial.so_far_s[b] = state.game[0].total_s
        same = same and _is_alike(state, kept.state, b)
        if same and b >= last_change:
            return SAME, played
        if wish[b] != kept_wish[b]:
            latest_change = b
        # A lost game returns 0 whatever it returned on the way, so that nothing can be compared with it.
        if b >= latest_change + PATIENCE and may_give_up:
            expected_s = kept.state.game[0].total_s + state.game[0].total_s - kept.so_far_s[b]
            if expected_s < least_s:
                return GIVEN_UP, played
    return ENDED, played


def marks_for(tables: Tables) -> GameState:
    """Room for the marks of a game."""
    return new_states(tables, min(MARKS, len(tables.buffer) // APART))


@kernel
def _spacing(marks: GameState, state: GameState) -> int:
    """Buffers from one mark to the next."""
    return -(-len(state.buffer) // (len(marks.game) + 1))


@kernel
def go_to(tables: Tables, state: GameState, kept: GameState, marks: GameState, keep: int) -> None:
    """Put `state` to where the kept game decides on buffer `keep`, from the last mark before it."""
    # Mark m is the state at buffer (m + 1) * spacing.
    passed = min(keep // _spacing(marks, state), len(marks.game))
    if passed == 0:
        restart(tables, state)
    else:
        copy_state(state_of(marks, passed - 1), state)
    _follow(tables, state, kept, keep)


@kernel
def _follow(tables: Tables, state: GameState, kept: GameState, keep: int) -> None:
    """Play a kept game's moves on, up to `keep`; they are legal, so that no outcome is worked out."""
    while state.game[0].cursor < keep:
        # `apply_move` reads the row of the buffer, so that it must be filled first.
        row, given = state.buffer[state.game[0].cursor], kept.buffer[state.game[0].cursor]
        row.action = given.action
        row.offset = given.offset
        row.first = given.first
        row.last = given.last
        row.copy_first = given.copy_first
        row.copy_last = given.copy_last
        apply_move(tables, state)


@kernel
def write_marks(tables: Tables, scratch: GameState, kept: GameState, marks: GameState, keep: int) -> None:
    """Write down the states of a kept game at the marks beyond `keep`; those before are there already."""
    go_to(tables, scratch, kept, marks, keep)
    spacing = _spacing(marks, scratch)
    for m in range(keep // spacing, len(marks.game)):
        # A lost game has no states past its end.
        if (m + 1) * spacing > kept.game[0].cursor:
            break
        _follow(tables, scratch, kept, (m + 1) * spacing)
        copy_state(scratch, state_of(marks, m))
