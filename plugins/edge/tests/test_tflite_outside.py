"""Bytes behind the flatbuffer of a .tflite file: read, kept where the plan shifts them, refused if damaged."""

from __future__ import annotations

import gzip
import importlib.util
import json
import struct
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from commands import refuse
from hypothesis import given
from hypothesis import strategies as st
from test_tflite import FLOAT32, INT8, numbers, table, tables

from egrl.cli.main import main
from egrl_edge.tflite import model_file, plan
from workloads.errors import InputError

QUANTIZED = Path(__file__).parent / "quantized"
LITERT = importlib.util.find_spec("ai_edge_litert") is not None
PLAN = "OfflineMemoryAllocation"


def a_model(
    *outside: tuple[int, int],
    options: tuple[int, int] = (0, 0),
    both: bool = False,
    custom: bytes = b"",
    metadata: str = "notes",
) -> bytes:
    """y = op(x, a weight per pair): buffer 0 is empty, the others lie at (position, size) in the file, one more is
    metadata. The op is a custom one with `options` at (position, size), and `custom` ones in the flatbuffer."""
    builder = flatbuffers.Builder(0)
    vectors = [builder.CreateByteVector(bytes(16)) if both else 0 for _ in outside]
    rows = [table(builder, 3)]
    for (start, size), vector in zip(outside, vectors, strict=True):
        inside = {"f0": ("UOffsetTRelative", vector)} if vector else {}
        rows.append(table(builder, 3, **inside, f1=("Uint64", start), f2=("Uint64", size)))
    buffers = tables(builder, rows)
    name = builder.CreateString(metadata)
    entry = table(builder, 2, f0=("UOffsetTRelative", name), f1=("Uint32", len(outside)))
    entries = tables(builder, [entry])
    tensors = []
    for number in range(len(outside) + 1):
        text = builder.CreateString(f"t{number}")
        shape = numbers(builder, [1, 8])
        values = {"f0": ("UOffsetTRelative", shape), "f1": ("Byte", INT8 if number else FLOAT32)}
        buffer = number if number < len(outside) else 0
        tensors.append(table(builder, 10, **values, f2=("Uint32", buffer), f3=("UOffsetTRelative", text)))
    held = builder.CreateByteVector(custom) if custom else 0
    extra = {"f5": ("UOffsetTRelative", held)} if held else {}
    reads, writes = numbers(builder, range(len(outside))), numbers(builder, [len(outside)])
    where = {"f9": ("Uint64", options[0]), "f10": ("Uint64", options[1])}
    op = table(builder, 14, f1=("UOffsetTRelative", reads), f2=("UOffsetTRelative", writes), **extra, **where)
    parts = [tables(builder, tensors), numbers(builder, [0]), numbers(builder, [len(outside)])]
    parts.append(tables(builder, [op]))
    graph = table(builder, 5, **{f"f{n}": ("UOffsetTRelative", part) for n, part in enumerate(parts)})
    graphs = tables(builder, [graph])
    fields = {2: graphs, 4: buffers, 6: entries}
    values = {f"f{n}": ("UOffsetTRelative", at) for n, at in fields.items()}
    builder.Finish(table(builder, 8, f0=("Uint32", 3), **values), file_identifier=b"TFL3")
    return bytes(builder.Output())


def with_pieces(*pieces: bytes, last: bytes = b"", **given: object) -> bytes:
    """A model whose buffers are these pieces, the last of them that of its metadata, and whose op has options."""
    size = -(-len(a_model(*[(2, 2)] * len(pieces), options=(2, 2), **given)) // 16) * 16  # type: ignore[arg-type]
    starts, at = [], size
    for piece in (*pieces, last):
        starts.append((at, len(piece)))
        at += -(-len(piece) // 16) * 16
    data = a_model(*starts[:-1], options=starts[-1] if last else (0, 0), **given)  # type: ignore[arg-type]
    whole = bytearray(at)
    whole[: len(data)] = data
    for (start, _), piece in zip(starts, (*pieces, last), strict=True):
        whole[start : start + len(piece)] = piece
    return bytes(whole)


def found_in(data: bytes) -> tuple[list[bytes], list[bytes], list[int]]:
    """By the library's tables: what each buffer holds, the large options of each op, and where the buffers lie."""
    whole = bytearray(data)
    read = flatbuffers.number_types
    model = flatbuffers.table.Table(whole, flatbuffers.encode.Get(flatbuffers.packer.uoffset, whole, 0))

    def entries(one: flatbuffers.table.Table, field: int) -> list[flatbuffers.table.Table]:
        at = one.Offset(4 + 2 * field)
        start, count = one.Vector(at), one.VectorLen(at)
        return [flatbuffers.table.Table(whole, one.Indirect(start + 4 * i)) for i in range(count)]

    def span(one: flatbuffers.table.Table, field: int) -> tuple[int, int]:
        start, size = (
            one.Get(read.Uint64Flags, at + one.Pos) if (at := one.Offset(4 + 2 * n)) else 0
            for n in (field, field + 1)
        )
        return start, start + size

    def content(one: flatbuffers.table.Table) -> bytes:
        if at := one.Offset(4):
            return data[one.Vector(at) : one.Vector(at) + one.VectorLen(at)]
        return data[slice(*span(one, 1))]

    buffers = entries(model, 4)
    ops = [op for graph in entries(model, 2) for op in entries(graph, 3)]
    options = [data[slice(*span(op, 9))] for op in ops]
    return [content(one) for one in buffers], options, [span(one, 1)[0] for one in buffers]


def test_a_copy_finds_what_lies_behind_the_flatbuffer_where_it_was_shifted_to(tmp_path, capsys):
    weights, more, notes, options = bytes(range(200)), b"w" * 33, b"notes of the maker", b"options" * 9
    file, out = tmp_path / "m.tflite", tmp_path / "planned.tflite"
    file.write_bytes(with_pieces(weights, more, notes, last=options))
    assert main(["tflite", str(file), "-o", str(out)]) == 0
    assert (
        "2 tensors in 48 bytes; no plan is lower" in capsys.readouterr().out
    )  # t0 32 bytes, t3 8 of them 16
    buffers, large, starts = found_in(out.read_bytes())
    assert (buffers[:4], large) == ([b"", weights, more, notes], [options])
    assert all(start % 16 == 0 for start in starts)
    assert struct.unpack("<7i", buffers[4])[:3] == (1, 1, 4)


def test_buffers_that_share_their_bytes_are_one(tmp_path):
    at = len(a_model(*[(2, 2)] * 3)) + 15 & ~15
    data = a_model((at, 48), (at, 48), (at + 48, 20))
    model = model_file.parse(data + bytes(at - len(data)) + bytes(range(68)), "m")
    buffers, _, starts = found_in(plan.plan(model, 16, 5.0, 0).written())
    assert buffers[1] == buffers[2] == bytes(range(48))
    assert starts[1] == starts[2]


def test_a_position_up_to_one_names_nothing():
    """Whoever writes the file puts 1 there until the position is known; the buffer is empty then."""
    model = model_file.parse(a_model((1, 1), (1, 100), (0, 100)), "m")
    assert (model.outside, [tensor.number for tensor in model.arena], model.left) == ((), [0, 3], 2)


def test_what_lies_behind_the_flatbuffer_and_is_damaged_is_refused_in_one_line(tmp_path, capsys):
    file = tmp_path / "m.tflite"
    base = len(a_model(*[(2, 2)] * 2, options=(2, 2))) + 15 & ~15
    for spans, options, why in (
        ([(base, 512)], (0, 0), f"buffer 1 from {base} to {base + 512} of {base + 256}"),
        ([(2**40, 16)], (0, 0), "buffer 1 from"),
        ([(2**64 - 16, 32)], (0, 0), "buffer 1 from"),
        ([(base, 2**64 - 1)], (0, 0), "buffer 1 from"),
        ([(base + 8, 16)], (0, 0), f"buffer 1 at {base + 8} of the file, no multiple of 16"),
        ([(16, 16)], (0, 0), "buffer 1 at 16, where the tables of the model are"),
        ([(base, 64), (base + 32, 64)], (0, 0), f"buffer 2 at {base + 32} begins within buffer 1"),
        ([(base, 64), (base, 32)], (0, 0), "begins within buffer"),
        ([(base, 64), (base, 64)], (base + 60, 10), "the options of op 0 at"),
        ([(base, 64)], (base + 250, 10), "the options of op 0 from"),
        ([(base, 64)], (20, 10), "the options of op 0 at 20, where the tables"),
    ):
        data = a_model(*spans, *[(0, 0)] * (2 - len(spans)), options=options)
        file.write_bytes(data + bytes(base + 256 - len(data)))
        refuse(capsys, ["tflite", str(file)], why)
    file.write_bytes(a_model((base, 16), (base, 16), both=True) + bytes(512))
    refuse(capsys, ["tflite", str(file)], "bytes in the model and at")
    file.write_bytes(a_model((0, 0), custom=b"..bytecode_offset.."))
    refuse(capsys, ["tflite", str(file)], "compiled for an NPU")


def test_a_plan_behind_the_flatbuffer_is_a_plan(tmp_path, capsys):
    file = tmp_path / "m.tflite"
    words = struct.pack("<6i", 1, 1, 3, 0, -1, 32)
    file.write_bytes(with_pieces(bytes(64), words, metadata=PLAN))
    assert model_file.plan_of(file.read_bytes()) == [0, -1, 32]
    refuse(capsys, ["tflite", str(file)], f"found the metadata {PLAN}")


@given(st.data())
def test_a_damaged_model_with_bytes_behind_it_is_refused_or_its_copy_has_them(data):
    whole = bytearray(with_pieces(bytes(range(64)), b"notes", last=b"options"))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(InputError):
        model = model_file.parse(bytes(whole), "m")
        copy = plan.plan(model, 16, 0.1, 0).written()
        by = len(copy) - len(whole)
        for piece in model.outside:
            assert copy[piece.start + by : piece.end + by] == whole[piece.start : piece.end]


def test_a_model_of_todays_quantizer_keeps_its_weights(tmp_path, capsys):
    """Two int8 weights of 640 by 640 behind the flatbuffer; the library's tables find the same bytes in the copy."""
    file, out = tmp_path / "m.tflite", tmp_path / "planned.tflite"
    before = gzip.decompress((QUANTIZED / "model.tflite.gz").read_bytes())
    file.write_bytes(before)
    assert main(["tflite", str(file), "-o", str(out)]) == 0
    assert "3 tensors in 5,120 bytes; no plan is lower" in capsys.readouterr().out
    (given, _, places), (kept, _, starts) = found_in(before), found_in(out.read_bytes())
    assert kept[:-1] == given
    assert sorted(map(len, given))[-2:] == [640 * 640] * 2
    moved = [start - place for place, start in zip(places, starts, strict=False) if place > 1]
    assert len(moved) == 2
    assert all(one == other > 0 for one, other in pairwise(moved))


@pytest.mark.skipif(not LITERT, reason="needs pip install ai-edge-litert")
def test_litert_computes_the_same_with_the_plan(tmp_path):
    from ai_edge_litert.interpreter import Interpreter  # type: ignore[import-not-found, unused-ignore]

    file, out = tmp_path / "m.tflite", tmp_path / "planned.tflite"
    file.write_bytes(gzip.decompress((QUANTIZED / "model.tflite.gz").read_bytes()))
    assert main(["tflite", str(file), "-o", str(out)]) == 0
    results = []
    for path in (file, out):
        interpreter = Interpreter(model_path=str(path))
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ones((1, 640), np.float32))
        interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    assert np.array_equal(*results)
    assert np.allclose(results[0][0, :8], json.loads((QUANTIZED / "outputs.json").read_text()), rtol=1e-5)
