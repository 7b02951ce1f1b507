"""Pins: which tensors stay in a memory, which lie together, and bytes of a memory that stay free.

A pin is a text, `WHAT=WHERE`. WHAT is `node.head`, with `*`, `?` and `[…]` as in file names, or a node: all its
tensors. WHERE is a memory; or WHAT again, one tensor: wherever that lies. `MEMORY.free=BYTES` keeps bytes (`64KiB`)
free.

    conv1*.weight=sram        the weights of conv1… stay in sram
    skip.activation=conv3.activation
    sram.free=64KiB

A pinned decision has one value whatever a method proposes (`Space.canonical`), and what makes a mapping valid places
pinned tensors first (`hwsim.nnpi.tables.rectify`). So nothing else needs to know of pins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError
from workloads.text import hint

FREE = "free"
UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


@dataclass(frozen=True, eq=False)
class Pins:
    """Pins of the decisions of a problem.

    Attributes:
        fixed: int16 [N, H], the choice that a decision has; -1: it is free.
        leader: int64 [N, H], the position in a flat mapping of the decision that says where this one's tensor lies:
            its own, unless it lies with another.
        free_bytes: of memories, by their names.
    """

    fixed: NDArray[np.int16]
    leader: NDArray[np.int64]
    free_bytes: Mapping[str, int]

    def kept(self, mapping: NDArray[np.int16]) -> NDArray[np.int16]:
        """Mappings int16 [..., N, H] with what is pinned where it belongs."""
        flat = mapping.reshape(*mapping.shape[:-2], -1)
        together = flat[..., self.leader.ravel()].reshape(mapping.shape)
        return np.where(self.fixed >= 0, self.fixed, together)

    @property
    def own(self) -> NDArray[np.bool_]:
        """bool [N, H]: decisions that are free, and no other says them."""
        position = np.arange(self.leader.size).reshape(self.leader.shape)
        return (self.fixed < 0) & (self.leader == position)

    @property
    def together(self) -> list[list[int]]:
        """The tensors that lie together, a list of positions in a flat mapping each, rising."""
        found: dict[int, list[int]] = {}
        for at, leader in enumerate(self.leader.ravel().tolist()):
            found.setdefault(leader, []).append(at)
        return [members for members in found.values() if len(members) > 1]


def pins_of(
    texts: Sequence[str],
    nodes: Sequence[str],
    heads: Sequence[str],
    memories: Sequence[str],
    live: NDArray[np.bool_],
    optional: Sequence[str] = (),
) -> Pins | None:
    """The pins that texts say; None where there are none. `live` bool [N, H]: the tensors that exist.

    `optional` texts, of a chip file that serves several networks, may name tensors that this one does not have.

    Raises:
        InputError: a text is none, names nothing, or contradicts another.
    """
    reader = _Reader(nodes, heads, memories, live)
    for text in optional:
        reader.read(text, False)
    for text in texts:
        reader.read(text, True)
    return reader.pins()


class _Reader:
    """Reads pins one after another."""

    def __init__(
        self, nodes: Sequence[str], heads: Sequence[str], memories: Sequence[str], live: NDArray[np.bool_]
    ) -> None:
        self.nodes, self.heads, self.memories, self.live = nodes, heads, memories, live
        self.memory: dict[int, tuple[int, str]] = {}
        """A tensor's memory, and the text that said so."""
        self.parent = list(range(live.size))
        """Per tensor another that it lies with, or itself."""
        self.free: dict[str, int] = {}

    def read(self, text: str, needed: bool) -> None:
        what, equals, where = (part.strip() for part in text.rpartition("="))
        if not (what and equals and where):
            raise InputError(f"pin {text!r}: expected TENSOR=MEMORY, TENSOR=TENSOR or MEMORY.free=BYTES")
        memory, dot, word = what.rpartition(".")
        if dot and word == FREE and memory in self.memories:
            self.free[memory] = self.free.get(memory, 0) + _bytes(where, text)
            return
        tensors = self._tensors(what)
        if not tensors and needed:
            raise InputError(f"pin {text!r}: expected a tensor of the network, {self._missing(what)}")
        if where in self.memories:
            for tensor in tensors:
                self._fix(tensor, self.memories.index(where), text)
            return
        others = self._tensors(where)
        if len(others) > 1 or (not others and needed):
            found = f"found {len(others)} tensors" if others else self._missing(where, self.memories)
            raise InputError(f"pin {text!r}: expected a memory or one tensor after '=', {found}")
        for tensor in tensors if others else ():
            low, high = sorted((self._root(tensor), self._root(others[0])))
            self.parent[high] = low

    def pins(self) -> Pins | None:
        """All that was read."""
        leader = [self._root(tensor) for tensor in range(self.live.size)]
        fixed = np.full(self.live.size, -1, np.int16)
        of_group: dict[int, tuple[int, str]] = {}
        for tensor, (memory, text) in self.memory.items():
            before = of_group.setdefault(leader[tensor], (memory, text))
            if before[0] != memory:
                raise InputError(f"pin {text!r}: it contradicts {before[1]!r}")
        for tensor, its in enumerate(leader):
            if its in of_group and self.live.flat[tensor]:
                fixed[tensor] = of_group[its][0]
        if not (fixed >= 0).any() and not self.free and leader == list(range(self.live.size)):
            return None
        shape = self.live.shape
        return Pins(fixed.reshape(shape), np.array(leader, np.int64).reshape(shape), self.free)

    def _fix(self, tensor: int, memory: int, text: str) -> None:
        before = self.memory.setdefault(tensor, (memory, text))
        if before[0] != memory:
            raise InputError(f"pin {text!r}: it contradicts {before[1]!r}")

    def _root(self, tensor: int) -> int:
        while self.parent[tensor] != tensor:
            tensor = self.parent[tensor]
        return tensor

    def _tensors(self, pattern: str) -> list[int]:
        """Positions of the tensors that exist of what a pattern names."""
        names, heads, count = *self._split(pattern), len(self.heads)
        return [
            at * count + head
            for at, name in enumerate(self.nodes)
            if name == names or fnmatchcase(name, names)
            for head in heads
            if self.live[at, head]
        ]

    def _missing(self, pattern: str, also: Sequence[str] = ()) -> str:
        """What stands there instead, in words."""
        name, _ = self._split(pattern)
        if any(name == each or fnmatchcase(each, name) for each in self.nodes):
            return f"found {pattern}, which has no bytes"
        return f"found {pattern!r}{hint(name, [*also, *self.nodes])}"

    def _split(self, pattern: str) -> tuple[str, Sequence[int]]:
        """A pattern of nodes, and the heads that are meant."""
        node, dot, word = pattern.rpartition(".")
        named = bool(dot) and word in self.heads
        return (node, [self.heads.index(word)]) if named else (pattern, range(len(self.heads)))


def _bytes(size: str, text: str) -> int:
    match = _SIZE.fullmatch(size)
    if match is None or match[2].upper() not in UNITS:
        raise InputError(f"pin {text!r}: expected bytes, 65536 or 64KiB say, found {size!r}")
    return int(float(match[1]) * UNITS[match[2].upper()])
