"""Shapes as HLO text writes them: `bf16[8,128]{1,0:T(8,128)}`, `(f32[2], s32[])`, `token[]`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from workloads.importers.hlo.scan import Fault, Line

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]\[(){}]*)\]")
_BITS = re.compile(r"(?:bf|tf|[csuf])(\d{1,4})(?:e\d+m\d+[a-z0-9]*)?")
_ELEMENT_BITS = re.compile(r"[:)]E\((\d{1,4})\)")
_NO_DATA = ("token", "opaque")
MAX_BITS = 1024
"""Widest element that is believed."""


@dataclass(frozen=True)
class Array:
    """An array: the width of its elements (0 for tokens) and its dimensions; bounds where these are dynamic."""

    bits: int
    dims: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def size_bytes(self) -> int:
        return -(-self.elements * self.bits // 8)


Shape = Array | tuple["Shape", ...]


def leaves(shape: Shape) -> list[Array]:
    """The arrays of a shape, in order."""
    return [shape] if isinstance(shape, Array) else [leaf for part in shape for leaf in leaves(part)]


def parse(line: Line) -> Shape:
    """The shape at the line's position, which moves behind it and its layout."""
    if line.take("("):
        parts: list[Shape] = []
        while not line.take(")"):
            parts.append(parse(line))
            if not line.take(","):
                line.expect(")")
                break
        return tuple(parts)
    found = line.match(_ARRAY)
    if found is None:
        raise Fault(f"expected a shape, found {line.here()}")
    layout = line.group() if line.peek() == "{" else ""
    return Array(_bits(found[1], layout), _dims(found[2]))


def _bits(name: str, layout: str) -> int:
    if name in _NO_DATA:
        return 0
    stated = _ELEMENT_BITS.search(layout)
    if stated is not None and 0 < int(stated[1]) <= MAX_BITS:
        return int(stated[1])
    if name == "pred":
        return 8
    found = _BITS.fullmatch(name)
    if found is None or not 0 < int(found[1]) <= MAX_BITS:
        raise Fault(f"expected an element type, found {name!r}")
    return int(found[1])


def _dims(text: str) -> tuple[int, ...]:
    if not text.strip():
        return ()
    dims = []
    for part in text.split(","):
        size = part.strip().removeprefix("<=")
        if not size.isascii() or not size.isdigit() or len(size) > 18:
            raise Fault(f"expected dimensions of known sizes, found [{text[:40]}]")
        dims.append(int(size))
    return tuple(dims)
