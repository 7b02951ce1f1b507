"""The replay buffer: which rows of the archive a learner samples.

Source: EGRL, Algorithm 2 lines 2, 7 and 23, Table 2 (100,000 transitions). The archive holds mappings and rewards once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CAPACITY = 100_000


class Replay:
    """Cyclic replay buffer: the last `capacity` archive positions that were added."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        """Raises ValueError where capacity < 1."""
        if capacity < 1:
            raise ValueError(f"capacity: expected at least 1, received {capacity}")
        self._indices = np.zeros(capacity, dtype=np.int64)
        self._added = 0

    @property
    def capacity(self) -> int:
        """Most positions held."""
        return len(self._indices)

    def __len__(self) -> int:
        return min(self._added, self.capacity)

    def add(self, indices: ArrayLike) -> None:
        """Remember archive positions int64 [K], oldest first; the oldest ones held make room.

        Raises ValueError where `indices` is not a list of non-negative integers.
        """
        new = np.asarray(indices)
        if new.size == 0:
            return
        if new.ndim != 1 or not np.issubdtype(new.dtype, np.integer) or int(new.min()) < 0:
            raise ValueError(f"indices: expected non-negative integers [K], received {new.dtype} {new.shape}")
        slots = (self._added + np.arange(len(new))) % self.capacity
        self._indices[slots[-self.capacity :]] = new[-self.capacity :]
        self._added += len(new)

    def sample(self, rng: np.random.Generator, batch: int) -> NDArray[np.int64]:
        """`batch` positions int64 [batch], uniform with replacement. Raises ValueError on an empty buffer."""
        if not len(self):
            raise ValueError("sample: expected a buffer with at least one position, received an empty one")
        return self._indices[rng.integers(0, len(self), size=batch)]

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on: what is held, the capacity, how many were ever added."""
        return {"indices": self._indices[: len(self)].copy(), "added": self._added, "capacity": self.capacity}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises ValueError where the state does not fit together."""
        held = np.asarray(state["indices"], dtype=np.int64)
        capacity, added = int(state["capacity"]), int(state["added"])
        if capacity < 1 or len(held) != min(added, capacity):
            raise ValueError(
                f"state: expected min(added, capacity) = {min(added, capacity)} indices, received {len(held)}"
            )
        self._indices = np.zeros(capacity, dtype=np.int64)
        self._indices[: len(held)] = held
        self._added = added
