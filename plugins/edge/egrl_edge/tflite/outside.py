"""Bytes of a model that lie behind its flatbuffer: contents of large buffers, and options of large custom ops.

Source: `schema.fbs` of TensorFlow Lite, `Buffer.offset` and `Operator.large_custom_options_offset`: both are counted
from the start of the file, and mean something only above 1; `interpreter_builder.cc`: so do sizes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from egrl_edge.tflite.flatbuffer import DATA_ALIGN, Damaged, Table

SUBGRAPHS, BUFFERS = 2, 4
"""Fields of a model."""
POSITION_IN_OPTIONS = b"bytecode_offset"
"""What options of an op that is compiled for an NPU call the position of its code in the file."""


@dataclass(frozen=True)
class Piece:
    """Bytes behind the flatbuffer.

    Attributes:
        owner: whose they are, for people.
        named_at: where the file has their position, as 8 bytes.
        start, end: their positions in the file, half-open.
    """

    owner: str
    named_at: int
    start: int
    end: int


def pieces(model: Table) -> tuple[Piece, ...]:
    """All that lies behind the flatbuffer of a model. Damaged where it does not lie there, or not by itself."""
    buffers = model.vector(BUFFERS).tables()
    graphs = model.vector(SUBGRAPHS).tables()
    ops = [op for graph in graphs for op in graph.vector(3).tables()]
    tables = [
        model,
        *buffers,
        *graphs,
        *ops,
        *(each for graph in graphs for each in graph.vector(0).tables()),
    ]
    found = [*_of_buffers(buffers), *_of_options(ops)]
    behind = max(table.at for table in tables) if found else 0
    inside = [_inside(number, buffer) for number, buffer in enumerate(buffers) if found]
    for piece in found:
        _check(piece, len(model.data), behind)
    _check_apart([*found, *(piece for piece in inside if piece.end)])
    return tuple(found)


def content(buffer: Table) -> bytes:
    """The bytes that a buffer holds, wherever they lie. Damaged if they lie nowhere."""
    data = buffer.data
    inside, outside = buffer.vector(0, 1), _piece("buffer", buffer, 1)
    if outside is None:
        return data[inside.start : inside.start + inside.length]
    _check(outside, len(data), buffer.at)
    return data[outside.start : outside.end]


def has_content(buffer: Table) -> bool:
    """True if a buffer holds bytes, wherever they lie."""
    return buffer.vector(0, 1).length > 0 or _piece("buffer", buffer, 1) is not None


def names_a_place(op: Table) -> bool:
    """True if options within the flatbuffer name a place in the file, which no copy could keep."""
    options = op.vector(5, 1)
    return POSITION_IN_OPTIONS in op.data[options.start : options.start + options.length]


def moved(data: bytes, old: Sequence[Piece], by: int) -> bytes:
    """A file whose first `by` bytes are new: the positions of the `old` pieces are made right."""
    whole = bytearray(data)
    for piece in old:
        struct.pack_into("<Q", whole, piece.named_at + by, piece.start + by)
    return bytes(whole)


def _of_buffers(buffers: Sequence[Table]) -> Iterator[Piece]:
    for number, buffer in enumerate(buffers):
        piece = _piece(f"buffer {number}", buffer, 1)
        if piece is None:
            continue
        if buffer.place(0):
            raise Damaged(f"buffer {number} has bytes in the model and at {piece.start} of the file")
        if piece.start % DATA_ALIGN:
            raise Damaged(f"buffer {number} at {piece.start} of the file, no multiple of {DATA_ALIGN}")
        yield piece


def _of_options(ops: Sequence[Table]) -> Iterator[Piece]:
    for number, op in enumerate(ops):
        piece = _piece(f"the options of op {number}", op, 9)
        if piece is not None:
            yield piece


def _piece(owner: str, table: Table, field: int) -> Piece | None:
    """What a table names by a position in one field and a size in the next; None if it names nothing."""
    start, size = table.number(field, "Q"), table.number(field + 1, "Q")
    return Piece(owner, table.place(field), start, start + size) if start > 1 and size > 1 else None


def _inside(number: int, buffer: Table) -> Piece:
    vector = buffer.vector(0, 1)
    return Piece(f"buffer {number}", buffer.at, vector.start, vector.start + vector.length)


def _check(piece: Piece, size: int, behind: int) -> None:
    """Damaged unless a piece lies behind the tables, and within the file of `size` bytes."""
    if piece.end > size:
        raise Damaged(f"{piece.owner} from {piece.start} to {piece.end} of {size} bytes")
    if piece.start <= behind:
        raise Damaged(f"{piece.owner} at {piece.start}, where the tables of the model are")


def _check_apart(found: Sequence[Piece]) -> None:
    """Damaged if pieces share bytes, unless these are all that both have, or a position is named with another's."""
    spans = {(piece.start, piece.end): piece.owner for piece in found}
    for (one, other), (start, end) in pairwise(sorted(spans)):
        if start < other:
            raise Damaged(
                f"{spans[start, end]} at {start} begins within {spans[one, other]}, which ends at {other}"
            )
    named = sorted({piece.named_at for piece in found})
    if any(after - before < 8 for before, after in pairwise(named)):
        raise Damaged("tables that overlap")
