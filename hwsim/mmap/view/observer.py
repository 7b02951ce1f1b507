"""The observation of games, batched: the state representation of the MMapGame paper, section 4.3.1.

`hwsim/mmap/view/parts.py` has the settings, columns, shapes and ranges; `tests/hwsim/mmap/observe_twin.py` is the
same in plain Python.

Deviations: those of `hwsim/mmap/view/parts.py`. Where the paper is silent: a window of n steps around the present one
begins n // 2 steps before it. A cell of the map or of the profile is occupied if any granule of it is, at any of its
steps, so that a free cell is free throughout. The next buffers are the next decisions; buffers without a size are none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.rules.held import find_held
from hwsim.mmap.rules.moves import is_over
from hwsim.mmap.rules.room import Words, new_words
from hwsim.mmap.rules.state import GameState, state_of
from hwsim.mmap.tables import Tables
from hwsim.mmap.view.arrays import Arrays, Fixed, build_fixed
from hwsim.mmap.view.decisions import fill_actions, fill_buffers, fill_game
from hwsim.mmap.view.memory import fill_held, fill_memory, fill_offsets, fill_supply
from hwsim.mmap.view.parts import Part, parts
from hwsim.stepwise import View

_NONE_IS_MINUS_ONE = ("buffer_ids", "supply", "offsets")


class Observer:
    """Looks at games of one program on one chip.

    Attributes:
        parts: name -> shape, dtype and range of each array of an observation, without the axis of the batch.
    """

    def __init__(self, tables: Tables, view: View) -> None:
        self.view, self._tables, self._fixed = view, tables, build_fixed(tables, view)
        self.parts: dict[str, Part] = parts(
            view, len(tables.buffer), len(tables.ready), len(tables.group), tables.capacity
        )

    def observe(self, states: GameState) -> dict[str, NDArray[Any]]:
        """The arrays of `parts`, [B, …]. Of a game that is over nothing is seen: 0, or -1 where that means none."""
        batch = len(states.game)
        seen = {
            name: part.empty(batch, -1 if name in _NONE_IS_MINUS_ONE else 0)
            for name, part in self.parts.items()
        }
        none = {"held": np.empty((batch, 0), np.float32), "losses": np.empty((batch, 3, 0), np.float32)}
        arrays: Any = list((seen if self.view.held else seen | none).values())
        _observe_all(self._tables, self._fixed, states, Arrays(*arrays), new_words(self._tables))
        return seen


@kernel
def _observe_all(tables: Tables, fixed: Fixed, states: GameState, arrays: Arrays, words: Words) -> None:
    """Fill the rows of the games that are not over; the others stay as they are."""
    for row in range(len(states.game)):
        state = state_of(states, row)
        if is_over(tables, state):
            continue
        fill_buffers(tables, fixed, state, arrays, row)
        fill_memory(tables, fixed, state, arrays, row)
        fill_supply(tables, state, arrays, row)
        # `words` is scratch for both: what is held must be known before the actions' outcomes are worked out.
        held = find_held(tables, state, fixed.next_use, fixed.held, words)
        fill_held(tables, state, held, arrays, row)
        fill_actions(tables, fixed, state, held, arrays, row, words)
        fill_game(fixed, state, arrays, row)
        fill_offsets(tables, fixed, state, arrays, row)
