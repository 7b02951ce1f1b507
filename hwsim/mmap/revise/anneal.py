"""Simulated annealing of whole games: wishes are changed, the game is played again from there, and kept or not.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing" (Science, 1983), over wishes as
`hwsim.mmap.rules.moves.play_proposal` plays them: what replaces an illegal wish is played, and the wish stays.

`hwsim/mmap/revise/changes.py` has the changes, `hwsim/mmap/revise/replay.py` how a changed game is played.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import bits, uniform
from hwsim.mmap.revise.changes import Uses, change, uses_of
from hwsim.mmap.revise.replay import ENDED, GIVEN_UP, SAME, Game, go_to, marks_for, play_from, write_marks
from hwsim.mmap.rules.moves import restart
from hwsim.mmap.rules.room import Words, new_words
from hwsim.mmap.rules.state import GameState, new_states, state_of
from hwsim.mmap.tables import Tables
from hwsim.stepwise import Revised

AGAIN = 0.4
"""Share of games that are changed twice."""

_KEEP, _SECOND, _DRAWS = np.uint64(0), np.uint64(1), np.uint64(2)
"""Numbers of the draws of a game: whether it is kept, whether it is changed twice; then the keys of its changes."""


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
        new_states(tables, 2),
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
def _draw_changes(uses: Uses, wish: NDArray[np.int16], changed: NDArray[np.int16], key: np.uint64) -> int:
    """Change `changed` in place, which begins as a copy of `wish`; the first buffer that differs then, N = none."""
    keep = change(uses, changed, bits(key, _DRAWS))
    if uniform(key, _SECOND) < AGAIN:
        keep = min(keep, change(uses, changed, bits(key, _DRAWS + np.uint64(1))))
    # A change may give a buffer the wish that it has.
    while keep < len(wish) and changed[keep] == wish[keep]:
        keep += 1
    return keep


@kernel
def _walk(
    tables: Tables,
    states: GameState,
    marks: GameState,
    uses: Uses,
    wish: NDArray[np.int16],
    key: np.uint64,
    decisions: int,
    hot_s: float,
    cold_s: float,
    words: Words,
) -> tuple[NDArray[np.int16], NDArray[np.int16], float, NDArray[np.int16], float, int, int]:
    """Wishes, actions and return (seconds) of the last game kept; actions and return of the best; games; buffers."""
    buffers = len(wish)
    kept = Game(state_of(states, 0), np.zeros(buffers))
    trial = Game(state_of(states, 1), np.zeros(buffers))
    tried = 0
    # The first game has none to be compared with: no return is too small, and none is the same.
    restart(tables, kept.state)
    _, played = play_from(tables, kept, wish, trial, wish, 0, buffers + 1, -np.inf, words)
    write_marks(tables, trial.state, kept.state, marks, 0)
    value_s = kept.state.game[0].total_s
    best, best_s = kept.state.buffer["action"].astype(np.int16), value_s
    # From buffer `exact` on the kept game's moves follow from its wishes; see `play_from`.
    exact = 0 if kept.state.game[0].resets == 0 else buffers + 1
    changed = wish.copy()
    while played < decisions and len(uses.decision) > 0:
        own = bits(key, np.uint64(tried))
        tried += 1
        keep = _draw_changes(uses, wish, changed, own)
        if keep == buffers:
            played += 1  # so that it ends even where nothing can be changed
            continue
        keep = min(keep, kept.state.game[0].cursor)  # a lost game ends early
        # The rule of Metropolis, drawn first: the least return that replaces the kept one at this temperature.
        temperature = hot_s + (cold_s - hot_s) * played / decisions
        least_s = value_s + temperature * math.log(1.0 - uniform(own, _KEEP))
        go_to(tables, trial.state, kept.state, marks, keep)
        trial.so_far_s[:keep] = kept.so_far_s[:keep]
        how, moves = play_from(tables, trial, changed, kept, wish, keep, exact, least_s, words)
        played += max(1, moves)
        if how == GIVEN_UP or (how == ENDED and trial.state.game[0].total_s < least_s):
            changed[keep:] = wish[keep:]
            continue
        wish[keep:] = changed[keep:]
        if how == SAME:
            exact = min(exact, keep)
            continue
        kept, trial = trial, kept
        value_s = kept.state.game[0].total_s
        # A game that went back has other moves before `keep`, too: all marks are written anew, and what a dead end
        # forced does not follow from the wishes.
        went_back = kept.state.game[0].resets > 0
        write_marks(tables, trial.state, kept.state, marks, 0 if went_back else keep)
        exact = buffers + 1 if went_back else min(exact, keep)
        if value_s > best_s:
            best_s = value_s
            best[:] = kept.state.buffer["action"].astype(np.int16)
    return wish, kept.state.buffer["action"].astype(np.int16), value_s, best, best_s, tried, played
