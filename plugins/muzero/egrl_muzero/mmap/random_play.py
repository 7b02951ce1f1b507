"""Random play of the MMapGame, as in table 2 of its paper: every legal action is as likely as the others."""

from __future__ import annotations

import numpy as np

from hwsim.jit import kernel
from hwsim.mmap.game import MmapGame, PlayedGames
from hwsim.mmap.rules.moves import is_over, leave_dead_end, play, restart
from hwsim.mmap.rules.outcome import outcome_of
from hwsim.mmap.rules.state import GameState, Words, new_states, new_words, state_of
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats


def random_legal(game: MmapGame, draws: Floats) -> PlayedGames:
    """Games in which every legal action is as likely as the others; draws: float64 [B, N] from [0, 1), one a
    buffer.
    """
    words, state = new_words(game.tables), state_of(new_states(game.tables, 1), 0)
    played = np.empty(draws.shape, np.int16)
    for row, draw in enumerate(np.ascontiguousarray(draws, np.float64)):
        _play_random(game.tables, state, draw, words)
        played[row] = state.buffer["action"]
    return game.play(played)


@kernel
def _play_random(tables: Tables, state: GameState, draw: Floats, words: Words) -> None:
    """Play a game in which the draw [N] of each buffer selects one of its legal actions."""
    restart(tables, state)
    while not is_over(tables, state):
        legal = 0
        for action in range(3):
            if outcome_of(tables, state, action, words).legal:
                legal += 1
        if legal == 0:
            leave_dead_end(tables, state)
            continue
        # After a dead end a buffer is decided again by the same draw, maybe among fewer actions.
        skip = int(draw[state.game[0].cursor] * legal)
        for action in range(3):
            outcome = outcome_of(tables, state, action, words)
            if outcome.legal:
                if skip == 0:
                    play(tables, state, action, outcome)
                    break
                skip -= 1
