"""Which mappings were measured already, so that no evaluation goes to one of them again."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray


def digest(mapping: NDArray[np.int16]) -> int:
    """A number that stands for a mapping int16 [N, H]."""
    data = np.ascontiguousarray(mapping).tobytes()
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


class Known:
    """A set of mappings, kept as digests: 8 bytes each."""

    def __init__(self) -> None:
        self._digests: set[int] = set()

    def add(self, mappings: Iterable[NDArray[np.int16]]) -> None:
        """Remember mappings int16 [N, H]."""
        self._digests.update(digest(mapping) for mapping in mappings)

    def admit(self, mapping: NDArray[np.int16]) -> bool:
        """Remember a mapping. Returns whether it is new."""
        before = len(self._digests)
        self._digests.add(digest(mapping))
        return len(self._digests) > before

    def __contains__(self, mapping: NDArray[np.int16]) -> bool:
        return digest(mapping) in self._digests

    def state_dict(self) -> dict[str, Any]:
        """All digests."""
        return {"digests": np.array(sorted(self._digests), np.int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._digests = set(np.asarray(state["digests"]).tolist())
