"""The layout of an array in HLO text, and the bytes that it takes: `{1,0:T(8,128)(2,1)S(1)}`.

Source: XLA's page "Tiled layout" and `xla/layout.cc`, which prints it. Dimensions are listed from the minor to the
major one. A tile of n numbers covers the n minor dimensions, each of which is filled up to a multiple of its number;
an array of fewer dimensions has ones before them, and a `*` joins a dimension to the next minor one. The next tile
does the same within the tile before it: (2,1) pairs the rows of (8,128), as 16-bit numbers are packed in 32 bits.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

JOINED = -1
"""In a tile: this dimension is part of the next minor one."""
HBM, VMEM = 0, 1
SPACES = {0: "hbm", 1: "vmem", 2: "semaphores", 5: "host", 6: "smem"}
"""Memory spaces by number. XLA names 0 (the default), 1 (fast memory) and 5 (the host); TPU programs have only the
contexts of copies in 2, and only scalars in 6."""

_AXIS = re.compile(r"\d{1,4}")
_TILES = re.compile(r"T((?:\((?:\d{1,9}|\*)(?:,(?:\d{1,9}|\*))*\))+)")
_TILE = re.compile(r"\(([\d*,]+)\)")
_ITEM = {key: re.compile(rf"(?<![A-Z]){key}\((\d{{1,9}})\)") for key in "ELMS"}
"""E: bits of an element; L: the elements fill up to a multiple; M: bytes before a dynamic array; S: memory space."""


@dataclass(frozen=True)
class Layout:
    """How an array lies in a memory; the default is row by row in HBM, without holes.

    Attributes:
        order: dimensions from the minor to the major one; (): as listed, the last one minor.
        tiles: from the outermost.
        space: number of the memory, see `SPACES`.
        element_bits: 0: as the type says.
        multiple: elements are filled up to a multiple of it at the end.
        before_bytes: what lies before the elements: the sizes of dynamic dimensions.
    """

    order: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    space: int = HBM
    element_bits: int = 0
    multiple: int = 1
    before_bytes: int = 0

    @property
    def where(self) -> str:
        """The name of the memory."""
        return SPACES.get(self.space, f"memory space {self.space}")

    def elements(self, dims: tuple[int, ...]) -> int:
        """The elements that an array of these dimensions takes, holes included."""
        known = sorted(self.order) == list(range(len(dims)))
        lies = [dims[axis] for axis in reversed(self.order)] if known else list(dims)
        for tile in self.tiles:
            lies = _tiled(lies, tile)
        return -(-math.prod(lies) // self.multiple) * self.multiple


PLAIN = Layout()


def read(text: str) -> Layout:
    """The layout in braces, or PLAIN for "". What it does not know it passes over."""
    order, _, rest = text[1:-1].partition(":")
    tiles = _TILES.search(rest)
    item = {key: int(found[1]) for key, pattern in _ITEM.items() if (found := pattern.search(rest))}
    return Layout(
        tuple(int(axis) for axis in _AXIS.findall(order)),
        tuple(map(_numbers, _TILE.findall(tiles[1]))) if tiles else (),
        item.get("S", HBM),
        item.get("E", 0),
        max(item.get("L", 1), 1),
        item.get("M", 0),
    )


def _numbers(tile: str) -> tuple[int, ...]:
    return tuple(JOINED if part == "*" else max(int(part), 1) for part in tile.split(","))


def _tiled(lies: list[int], tile: tuple[int, ...]) -> list[int]:
    """The dimensions, major first, of what lies so under a tile: how many tiles along each, then the tile's own."""
    lies = [1] * (len(tile) - len(lies)) + lies
    outer, covered = lies[: len(lies) - len(tile)], lies[len(lies) - len(tile) :]
    sizes: list[int] = []
    joined = 1
    for length, number in zip(covered, tile, strict=True):
        joined *= length
        if number != JOINED:
            sizes.append(joined)
            joined = 1
    kept = [number for number in tile if number != JOINED]
    return [*outer, *(-(-size // number) for size, number in zip(sizes, kept, strict=False)), *kept]
