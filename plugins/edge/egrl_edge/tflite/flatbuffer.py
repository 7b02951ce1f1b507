"""Tables of a flatbuffer, read in place, every access checked; and a new root table before those that are there.

Source: FlatBuffers, "Internals" (flatbuffers.dev): a table begins with the distance to its vtable, which has the
position of each field; other tables, vectors and texts are at a distance from where they are named, always forwards.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

ALIGN = 64
"""Bytes put before a file are a multiple of this, so that all that follows keeps its alignment."""
DATA_ALIGN = 16
"""Alignment of bytes that a buffer of the model holds (`force_align` in TensorFlow Lite's schema)."""


class Damaged(ValueError):
    """The bytes are no such flatbuffer."""


def number(data: bytes, form: str, at: int) -> int:
    """A little-endian number at a position; `form` is the `struct` module's. Damaged if it lies outside."""
    if at < 0 or at + struct.calcsize(form) > len(data):
        raise Damaged(f"a number at {at} of {len(data)} bytes")
    return int(struct.unpack_from("<" + form, data, at)[0])


@dataclass(frozen=True)
class Vector:
    """`length` elements from `start` on."""

    data: bytes
    start: int
    length: int

    def tables(self) -> list[Table]:
        """The tables that its elements name."""
        places = (self.start + 4 * i for i in range(self.length))
        return [Table(self.data, at + number(self.data, "I", at)) for at in places]

    def numbers(self) -> list[int]:
        """Its elements as int32."""
        return list(struct.unpack_from(f"<{self.length}i", self.data, self.start))


@dataclass(frozen=True)
class Table:
    """A table at a position. Fields are counted from 0, in the order of the schema."""

    data: bytes
    at: int

    @property
    def fields(self) -> int:
        """How many fields its vtable has."""
        return max(0, (number(self.data, "H", self._vtable) - 4) // 2)

    @property
    def _vtable(self) -> int:
        return self.at - number(self.data, "i", self.at)

    def place(self, field: int) -> int:
        """Where a field lies; 0 if the table does not have it."""
        if field >= self.fields:
            return 0
        distance = number(self.data, "H", self._vtable + 4 + 2 * field)
        return self.at + distance if distance else 0

    def number(self, field: int, form: str = "I") -> int:
        """A number, by the `struct` module's form; 0 if there is none."""
        at = self.place(field)
        return number(self.data, form, at) if at else 0

    def target(self, field: int) -> int:
        """Where the vector, text or table that a field names begins; 0 if there is none."""
        at = self.place(field)
        return at + number(self.data, "I", at) if at else 0

    def vector(self, field: int, size: int = 4) -> Vector:
        """The vector of a field, its elements of `size` bytes; empty if there is none."""
        at = self.target(field)
        if not at:
            return Vector(self.data, 0, 0)
        length = number(self.data, "I", at)
        if at + 4 + size * length > len(self.data):
            raise Damaged(f"{length} elements at {at} of {len(self.data)} bytes")
        return Vector(self.data, at + 4, length)

    def text(self, field: int) -> str:
        """The text of a field; "" if there is none."""
        found = self.vector(field, 1)
        return self.data[found.start : found.start + found.length].decode("utf-8", "replace")


def root(data: bytes) -> Table:
    """The table that a file begins with."""
    return Table(data, number(data, "I", 0))


class Prefix:
    """Bytes that are put before a flatbuffer: its tables are named from here, and stay as they are."""

    def __init__(self, header: bytes) -> None:
        """`header` begins the file; its first four bytes are set by `before`."""
        self._bytes = bytearray(header)
        self._old: list[tuple[int, int]] = []

    def pad(self, to: int, ahead: int = 0) -> int:
        """Zeros until the position plus `ahead` is a multiple of `to`; the position then."""
        self._bytes += bytes(-(len(self._bytes) + ahead) % to)
        return len(self._bytes)

    def table(self, fields: int, given: dict[int, int]) -> dict[int, int]:
        """A table with 4 bytes for each of the `given` fields, which have these values; where each field lies."""
        vtable = self.pad(4)
        ranks = {field: 4 + 4 * rank for rank, field in enumerate(sorted(given))}
        slots = [ranks.get(field, 0) for field in range(fields)]
        self._bytes += struct.pack(f"<{2 + fields}H", 4 + 2 * fields, 4 + 4 * len(given), *slots)
        at = self.pad(4)
        self._bytes += struct.pack("<i", at - vtable)
        self._bytes += struct.pack(f"<{len(given)}I", *(given[field] for field in sorted(given)))
        return {-1: at} | {field: at + distance for field, distance in ranks.items()}

    def vector(self, length: int) -> int:
        """A vector of that many unset elements; where it begins."""
        at = self.pad(4)
        self._bytes += struct.pack("<I", length) + bytes(4 * length)
        return at

    def blob(self, content: bytes, align: int, end: bytes = b"") -> int:
        """A vector of bytes, the first of them aligned, with `end` after it; where it begins."""
        at = self.pad(align, 4)
        self._bytes += struct.pack("<I", len(content)) + content + end
        return at

    def name(self, at: int, target: int) -> None:
        """Let the four bytes at a position name what begins at `target`, both in the prefix."""
        struct.pack_into("<I", self._bytes, at, target - at)

    def name_old(self, at: int, *targets: int) -> None:
        """Let four bytes each, from a position on, name what begins at `targets` of the file that follows."""
        self._old += [(at + 4 * rank, target) for rank, target in enumerate(targets)]

    def before(self, data: bytes, table: int) -> bytes:
        """The whole file, whose root is a table of the prefix."""
        self.name(0, table)
        size = self.pad(ALIGN)
        for at, target in self._old:
            struct.pack_into("<I", self._bytes, at, size + target - at)
        return bytes(self._bytes) + data
