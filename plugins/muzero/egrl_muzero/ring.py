"""A ring buffer of the last moves of all slots: observations, actions, rewards and search results.

Row t mod T of each array is what all B slots did at time t, so that the moves of a game lie one below the other.
Images of zeros and ones are kept as bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Floats

Seen = Mapping[str, NDArray[Any]]

SCALARS: dict[str, Any] = {
    "action": np.int16,
    "reward": np.float64,
    "place": np.int64,
    "after": np.int64,
    "done": np.bool_,
    "value": np.float32,
    "stray": np.bool_,
}
"""Scalars of a move, in addition to the observation, the legal actions and the searched policy."""


class Window(NamedTuple):
    """Times first .. end - 1 (half-open)."""

    first: int
    end: int

    @property
    def empty(self) -> bool:
        """Whether no time is in it."""
        return self.first >= self.end


class Ring:
    """The last T moves of B slots.

    Attributes:
        rows: T.
        end: the time of the next move; moves max(0, end - T) .. end - 1 are there.
        scalars: arrays [T, B] by the names of `SCALARS`; value is the search's or, where returns end in it, the
            networks', less the potential.
        policy: float32 [T, B, A], what the search made of each move.
        legal: bool [T, B, A].
    """

    def __init__(self, seen: Seen, rows: int, slots: int, actions: int) -> None:
        """Room for moves of which `seen` [B, …] is an example; what it lacks is not kept."""
        self.rows, self.end, self.slots = rows, 0, slots
        self._images = {n: a.shape[1:] for n, a in seen.items() if a.dtype == np.uint8 and a.ndim == 3}
        packed = self._pack(seen)
        self._seen = {n: np.zeros((rows, *a.shape), a.dtype) for n, a in packed.items()}
        self.scalars = {n: np.zeros((rows, self.slots), d) for n, d in SCALARS.items()}
        self.policy = np.zeros((rows, self.slots, actions), np.float32)
        self.legal = np.zeros((rows, self.slots, actions), np.bool_)

    @property
    def first(self) -> int:
        """The time of the oldest move that is there."""
        return max(0, self.end - self.rows)

    def window(self, moves: int) -> Window:
        """The rows that are there now and will still be there after some more moves."""
        return Window(min(self.end, max(0, self.end + moves - self.rows)), self.end)

    def _pack(self, seen: Seen) -> dict[str, NDArray[Any]]:
        return {
            n: np.packbits(a.reshape(len(a), -1), axis=1) if n in self._images else a for n, a in seen.items()
        }

    def write_seen(self, time: int, seen: Seen, slots: slice = slice(None)) -> None:
        """The observations before the move at a time, [B', …] of some slots."""
        for name, array in self._pack({n: seen[n] for n in self._seen}).items():
            self._seen[name][time % self.rows, slots] = array

    def write(
        self, scalars: Mapping[str, NDArray[Any]], policy: Floats, legal: NDArray[np.bool_], seen: Seen
    ) -> None:
        """The next move of all slots."""
        row = self.end % self.rows
        self.write_seen(self.end, seen)
        for name, array in scalars.items():
            self.scalars[name][row] = array
        self.policy[row], self.legal[row] = policy, legal
        self.end += 1

    def seen(self, time: NDArray[np.int64], slot: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The observations before moves at times [M] in slots [M]."""
        row = time % self.rows
        out = {}
        for name, array in self._seen.items():
            found = array[row, slot]
            if name in self._images:
                shape = self._images[name]
                found = np.unpackbits(found, axis=1, count=int(np.prod(shape))).reshape(-1, *shape)
            out[name] = found
        return out

    def recall(
        self, time: NDArray[np.int64], slot: NDArray[np.int64]
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_], NDArray[np.int64]]:
        """Observations before moves at times [M] in slots [M], legal actions bool [M, A], and places int64 [M]."""
        row = time % self.rows
        return self.seen(time, slot), self.legal[row, slot], self.scalars["place"][row, slot]

    # ---- checkpoints

    def state(self) -> dict[str, Any]:
        """All but what was seen, which follows from the moves."""
        kept = slice(0, min(self.end, self.rows))
        return {
            "end": self.end,
            "policy": self.policy[kept],
            "legal": self.legal[kept],
            **{name: array[kept] for name, array in self.scalars.items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`; what was seen is written by `write_seen`."""
        self.end = int(state["end"])
        kept = slice(0, min(self.end, self.rows))
        self.policy[kept], self.legal[kept] = state["policy"], state["legal"]
        for name, array in self.scalars.items():
            array[kept] = state[name]
