"""A .tflite file: the tensors that TensorFlow Lite Micro puts into its arena, and the plan among its metadata.

Source: `schema.fbs` of TensorFlow Lite (positions of fields, numbers of types); "Memory Management in TensorFlow Lite
Micro" of its documents, "Offline planned tensor allocations" (the metadata); when tensors live is as its
`AllocationInfoBuilder` has it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from egrl_edge.tflite.flatbuffer import DATA_ALIGN, Damaged, Prefix, Table, root
from egrl_edge.tflite.outside import (
    BUFFERS,
    SUBGRAPHS,
    Piece,
    content,
    has_content,
    moved,
    names_a_place,
    pieces,
)
from workloads.errors import InputError
from workloads.files import MAX_BYTES, read_bytes

IDENTIFIER = b"TFL3"
PLAN = "OfflineMemoryAllocation"
VERSION = 1
RUNTIME = -1
"""The offset of a tensor that the runtime plans, or that needs none."""
METADATA, FIELDS = 6, 8
"""A field of a model, and how many it has that are read here."""
MOST_DIMENSIONS = 64
BYTES = {
    0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 8: 8, 9: 1, 10: 8, 11: 16, 12: 8, 15: 4, 16: 2, 17: 1, 18: 2,
}  # fmt: skip
"""Bytes of an element by the number of its type; half of a byte (17: int4) counts as a whole one. Others (texts,
resources) are left to the runtime."""


@dataclass(frozen=True)
class ArenaTensor:
    """A tensor of the first subgraph that needs a place in the arena.

    Attributes:
        number: its position among the tensors of all subgraphs.
        name: the file's, for people.
        size_bytes: more than 0.
        first, last: steps at which it lives, closed; step 0 is before the first op, step i + 1 is op i.
    """

    number: int
    name: str
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class TfliteModel:
    """The parts of a model that a plan needs.

    Attributes:
        data: the file.
        tensors: how many there are, in all subgraphs.
        subgraphs: how many there are.
        ops: how many the first subgraph has.
        arena: the tensors to plan.
        left: how many others may need a place, and are left to the runtime: those of other subgraphs, of types without
            a size, and those that no op touches.
        outside: what lies behind the flatbuffer.
    """

    data: bytes
    tensors: int
    subgraphs: int
    ops: int
    arena: tuple[ArenaTensor, ...]
    left: int
    outside: tuple[Piece, ...] = ()


def read(path: str) -> TfliteModel:
    """The model in a file. InputError in one line where it is none, is damaged, or has a plan already."""
    return parse(read_bytes(path, "a TensorFlow Lite model (.tflite)"), path)


def parse(data: bytes, where: str) -> TfliteModel:
    """As `read`, of bytes."""
    if data[4:8] != IDENTIFIER:
        raise InputError(f"{where}: expected a TensorFlow Lite model (.tflite), found other bytes")
    try:
        if plan_of(data) is not None:
            raise InputError(f"{where}: expected a model without a plan, found the metadata {PLAN}")
        return _model(data, where)
    except (Damaged, struct.error) as error:
        raise InputError(
            f"{where}: expected a TensorFlow Lite model, found a damaged one: {error}"
        ) from error


def _model(data: bytes, where: str) -> TfliteModel:
    model = root(data)
    if model.fields > FIELDS:
        raise InputError(f"{where}: expected at most {FIELDS} fields of a model, found {model.fields}")
    buffers = model.vector(BUFFERS).tables()
    outside = pieces(model)
    constant = [has_content(buffer) for buffer in buffers]
    subgraphs = model.vector(SUBGRAPHS).tables()
    if not subgraphs:
        raise InputError(f"{where}: expected a subgraph, found none")
    if any(names_a_place(op) for graph in subgraphs for op in graph.vector(3).tables()):
        raise InputError(f"{where}: expected ops of TensorFlow Lite Micro, found one compiled for an NPU")
    counts = [graph.vector(0).length for graph in subgraphs]
    lives = _lives(subgraphs[0], counts[0])
    arena, left = [], sum(counts[1:])
    for number, tensor in enumerate(subgraphs[0].vector(0).tables()):
        buffer = tensor.number(2)
        if buffer >= len(constant):
            raise Damaged(f"buffer {buffer} of {len(constant)}")
        if constant[buffer] or tensor.number(5, "B"):  # weights, and variables, which keep their place
            continue
        size = _size_bytes(tensor, where)
        if number not in lives or size is None:
            left += 1
        elif size:
            arena.append(ArenaTensor(number, tensor.text(3), size, *lives[number]))
    ops = subgraphs[0].vector(3).length
    return TfliteModel(data, sum(counts), len(counts), ops, tuple(arena), left, outside)


def _size_bytes(tensor: Table, where: str) -> int | None:
    """None: its type has no size."""
    shape = tensor.vector(0)
    if shape.length > MOST_DIMENSIONS:
        raise Damaged(f"{shape.length} dimensions")
    sizes, element = shape.numbers(), BYTES.get(tensor.number(1, "b"))
    if min(sizes, default=0) < 0:
        raise InputError(f"{where}: tensor {tensor.text(3)!r}: expected sizes from 0, found {sizes}")
    size = math.prod(sizes) * (element or 1)
    if size >= MAX_BYTES:
        raise InputError(
            f"{where}: tensor {tensor.text(3)!r}: expected less than 2 GiB, found {size:,} bytes"
        )
    return None if element is None else size


def _lives(graph: Table, tensors: int) -> dict[int, tuple[int, int]]:
    """First and last step of each tensor that an op writes, or that is an input of the graph."""
    operators = graph.vector(3).tables()
    lives: dict[int, tuple[int, int]] = {
        number: (0, 0) for number in graph.vector(1).numbers() if number >= 0
    }
    for step, operator in enumerate(operators, 1):
        reads, writes = operator.vector(1).numbers(), operator.vector(2).numbers()
        if min(writes, default=0) < 0:
            raise Damaged(f"op {step - 1} writes tensor {min(writes)}")
        for number in writes:
            lives.setdefault(number, (step, step))
        for number in (*reads, *writes):
            if number in lives:
                lives[number] = (lives[number][0], step)
    for number in graph.vector(2).numbers():
        if number in lives:
            lives[number] = (lives[number][0], len(operators))
    if any(number >= tensors for number in lives):
        raise Damaged(f"tensor {max(lives)} of {tensors}")
    return lives


def plan_of(data: bytes) -> list[int] | None:
    """The offset of each tensor of all subgraphs that the metadata of a model has, -1: the runtime's; None if no plan.

    Damaged if the file, or its plan, is.
    """
    model = root(data)
    for entry in model.vector(METADATA).tables():
        if entry.text(0) == PLAN:
            buffers = model.vector(BUFFERS).tables()
            if entry.number(1) >= len(buffers):
                raise Damaged(f"buffer {entry.number(1)} of {len(buffers)}")
            found = content(buffers[entry.number(1)])
            words = list(struct.unpack_from(f"<{len(found) // 4}i", found))
            if len(words) < 3 or words[2] != len(words) - 3:
                raise Damaged(f"a plan of {len(words)} numbers")
            return words[3:]
    return None


def with_plan(model: TfliteModel, offsets: Sequence[int]) -> bytes:
    """A copy of the file whose metadata has the offset of every tensor, int32, `RUNTIME` where there is none.

    All that the file had stays as it is, byte by byte, behind a new root table with one more buffer and one more entry
    of metadata; but positions in the file are shifted by what is new. ValueError if there is not one offset per tensor;
    InputError if the file grows too large, or is damaged where only the copy needs it.
    """
    if len(offsets) != model.tensors:
        raise ValueError(f"offsets: expected {model.tensors}, received {len(offsets)}")
    try:
        whole = _copy(model, offsets)
        if len(whole) >= MAX_BYTES:
            raise InputError(
                f"expected a model of less than {MAX_BYTES} bytes with its plan, found {len(whole)}"
            )
        whole = moved(whole, model.outside, len(whole) - len(model.data))
    except (Damaged, struct.error) as error:
        raise InputError(f"expected a TensorFlow Lite model, found a damaged one: {error}") from error
    _check_written(model, whole)
    return whole


def _copy(model: TfliteModel, offsets: Sequence[int]) -> bytes:
    """The file behind a new root table; positions in the file are still those of the old one."""
    old = root(model.data)
    kept = {n: old.target(n) for n in range(1, old.fields) if old.place(n)}
    buffers, metadata = old.vector(BUFFERS), old.vector(METADATA)
    prefix = Prefix(bytes(4) + IDENTIFIER)
    fields = dict.fromkeys((*kept, BUFFERS, METADATA), 0) | {0: old.number(0)}
    table = prefix.table(FIELDS, fields)
    for field in kept.keys() - {BUFFERS, METADATA}:
        prefix.name_old(table[field], kept[field])
    grown = {}
    for field, elements in ((BUFFERS, buffers), (METADATA, metadata)):
        at = prefix.vector(elements.length + 1)
        prefix.name_old(at + 4, *(each.at for each in elements.tables()))
        prefix.name(table[field], at)
        grown[field] = at + 4 + 4 * elements.length
    entry = prefix.table(2, {0: 0, 1: buffers.length})
    prefix.name(grown[METADATA], entry[-1])
    prefix.name(entry[0], prefix.blob(PLAN.encode(), 4, b"\0"))
    buffer = prefix.table(1, {0: 0})
    prefix.name(grown[BUFFERS], buffer[-1])
    words = (VERSION, model.subgraphs, len(offsets), *offsets)
    prefix.name(buffer[0], prefix.blob(struct.pack(f"<{len(words)}i", *words), DATA_ALIGN))
    return prefix.before(model.data, table[-1])


def _check_written(model: TfliteModel, whole: bytes) -> None:
    """InputError unless the copy has the tensors of the model, and what lay behind its flatbuffer."""
    by = len(whole) - len(model.data)
    shifted = tuple(Piece(p.owner, p.named_at + by, p.start + by, p.end + by) for p in model.outside)
    try:
        found = _model(whole, "the copy")
    except (Damaged, InputError, struct.error):
        found = None
    if found is None or (found.arena, found.left, found.outside) != (model.arena, model.left, shifted):
        raise InputError("expected a TensorFlow Lite model, found a damaged one: tables that overlap")
