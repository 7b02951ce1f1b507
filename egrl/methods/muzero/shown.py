"""Slots whose games are shown: the agent sees, searches and learns from them, but plays what it is shown.

*Demonstrations* play the baseline's mapping; slots that *imitate* play the agent's own best games again, so that what a
revision found is learned from, too. Neither is proposed: a demonstration was not found by the agent, and the other has
been.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.methods.revise.elites import Elites
from hwsim.problem import Mapping16


class Shown:
    """Of B slots of P problems; the last slots demonstrate, those before imitate.

    Attributes:
        demonstrating, imitating: bool [B].
        led: bool [B], slots whose present game is shown.
    """

    def __init__(
        self,
        problem: NDArray[np.int64],
        base: NDArray[np.int64],
        demonstrated: Sequence[Mapping16],
        demonstrations: int,
        imitations: int,
    ) -> None:
        """`problem` int64 [B] of each slot, `base` the first place of each problem's game; numbers are a problem."""
        slots, problems = len(problem), len(base) - 1
        first = slots - (demonstrations * problems if demonstrated else 0)
        self._problem, self._base = problem, base
        self.demonstrating = np.arange(slots) >= first
        # Of the slots that show no demonstration half play themselves, and one of each problem's.
        start = max(first - imitations * problems, (first + 1) // 2, problems)
        self.imitating = ~self.demonstrating & (np.arange(slots) >= start)
        self.led = self.demonstrating.copy()
        self._mapping: list[Mapping16 | None] = [
            demonstrated[int(problem[b])] if self.led[b] else None for b in range(slots)
        ]

    def begin(self, slot: int, elites: Elites) -> None:
        """A new game begins in a slot."""
        if self.imitating[slot]:
            best = elites.games[int(self._problem[slot])]
            self._mapping[slot] = best[0].mapping if best else None
            self.led[slot] = bool(best)

    def actions(
        self, action: NDArray[np.int64], legal: NDArray[np.bool_], place: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The actions [B], those of led slots replaced by what is shown at their places [B] where that is legal."""
        action = action.copy()
        for b in np.flatnonzero(self.led).tolist():
            mapping = self._mapping[b]
            assert mapping is not None
            shown = int(mapping.reshape(-1)[place[b] - self._base[self._problem[b]]])
            if shown >= 0 and legal[b, shown]:
                action[b] = shown
        return action

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: the mappings of slots that imitate."""
        return {str(b): self._mapping[b] for b in np.flatnonzero(self.imitating & self.led).tolist()}

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        for slot, mapping in state.items():
            self._mapping[int(slot)], self.led[int(slot)] = np.array(mapping, np.int16), True
