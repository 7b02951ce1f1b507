"""Plans for TensorFlow Lite Micro. Models are built and read by the library flatbuffers, which egrl does not use."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from commands import refuse
from hypothesis import given
from hypothesis import strategies as st

from egrl.cli.main import main
from egrl_edge.tflite import model_file, plan
from workloads.errors import InputError

INT8, FLOAT32, STRING = 9, 0, 5
WEIGHTS = bytes(range(40))


def table(builder: flatbuffers.Builder, fields: int, **values: tuple[str, int]) -> int:
    """A table whose field `fN` is a number or the place of something."""
    builder.StartObject(fields)
    for name, (kind, value) in values.items():
        getattr(builder, f"Prepend{kind}Slot")(int(name[1:]), value, 0)
    return builder.EndObject()


def tables(builder: flatbuffers.Builder, places: Sequence[int]) -> int:
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return builder.EndVector()


def numbers(builder: flatbuffers.Builder, values: Sequence[int]) -> int:
    return builder.CreateNumpyVector(np.array(values, np.int32))


def subgraph(
    builder: flatbuffers.Builder,
    tensors: Sequence[tuple[str, Sequence[int], int, int, bool]],
    ops: Sequence[tuple[Sequence[int], Sequence[int]]],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> int:
    """Of tensors (name, shape, type, buffer, is it a variable) and ops (reads, writes)."""
    rows = []
    for name, shape, kind, buffer, variable in tensors:
        sizes, text = numbers(builder, shape), builder.CreateString(name)
        values = {"f0": ("UOffsetTRelative", sizes), "f1": ("Byte", kind), "f2": ("Uint32", buffer)}
        rows.append(table(builder, 10, **values, f3=("UOffsetTRelative", text), f5=("Bool", variable)))
    steps = []
    for reads, writes in ops:
        given, made = numbers(builder, reads), numbers(builder, writes)
        steps.append(table(builder, 9, f1=("UOffsetTRelative", given), f2=("UOffsetTRelative", made)))
    parts = [
        tables(builder, rows),
        numbers(builder, inputs),
        numbers(builder, outputs),
        tables(builder, steps),
    ]
    return table(builder, 5, **{f"f{n}": ("UOffsetTRelative", part) for n, part in enumerate(parts)})


def a_model(
    *graphs: tuple[Sequence[tuple[str, Sequence[int], int, int, bool]], object, object, object],
) -> bytes:
    """A model with two buffers, an empty one and one of weights, a description and an entry of metadata."""
    builder = flatbuffers.Builder(0)
    builder.StartVector(1, len(WEIGHTS), 16)
    for byte in reversed(WEIGHTS):
        builder.PrependByte(byte)
    weights = builder.EndVector()
    buffers = tables(
        builder,
        [table(builder, 3), table(builder, 3, f0=("UOffsetTRelative", weights))],
    )
    name = builder.CreateString("min_runtime_version")
    metadata = tables(builder, [table(builder, 2, f0=("UOffsetTRelative", name), f1=("Uint32", 1))])
    description = builder.CreateString("made by hand")
    parts = tables(builder, [subgraph(builder, *graph) for graph in graphs])  # type: ignore[arg-type]
    values = {
        f"f{n}": ("UOffsetTRelative", at)
        for n, at in ((2, parts), (3, description), (4, buffers), (6, metadata))
    }
    builder.Finish(table(builder, 8, f0=("Uint32", 3), **values), file_identifier=b"TFL3")
    return bytes(builder.Output())


def chain(*sizes: int) -> bytes:
    """Tensor i is read by op i, which writes tensor i + 1; beside them weights."""
    tensors = [(f"t{i}", [1, size], INT8, 0, False) for i, size in enumerate(sizes)]
    last = len(sizes)
    ops = [([i, last, -1], [i + 1]) for i in range(last - 1)]
    return a_model(([*tensors, ("w", [40], INT8, 1, False)], ops, [0], [last - 1]))


def read_back(data: bytes) -> tuple[dict[str, bytes], bytes, str, list[list[str]]]:
    """By the library's tables: the bytes that each name of the metadata has, weights, description, names of tensors."""
    whole = bytearray(data)
    model = flatbuffers.table.Table(whole, flatbuffers.encode.Get(flatbuffers.packer.uoffset, whole, 0))

    def entries(one: flatbuffers.table.Table, field: int) -> list[flatbuffers.table.Table]:
        at = one.Offset(4 + 2 * field)
        start, count = one.Vector(at), one.VectorLen(at)
        return [flatbuffers.table.Table(whole, one.Indirect(start + 4 * i)) for i in range(count)]

    def text(one: flatbuffers.table.Table, field: int) -> str:
        return bytes(one.String(one.Offset(4 + 2 * field) + one.Pos)).decode()

    def content(one: flatbuffers.table.Table) -> bytes:
        at = one.Offset(4)
        return data[one.Vector(at) : one.Vector(at) + one.VectorLen(at)] if at else b""

    buffers = entries(model, 4)
    for buffer in buffers:
        assert not buffer.Offset(4) or buffer.Vector(buffer.Offset(4)) % 16 == 0
    named = {}
    for entry in entries(model, 6):
        number = entry.Get(flatbuffers.number_types.Uint32Flags, entry.Offset(6) + entry.Pos)
        named[text(entry, 0)] = content(buffers[number])
    names = [[text(tensor, 3) for tensor in entries(graph, 0)] for graph in entries(model, 2)]
    assert model.Get(flatbuffers.number_types.Uint32Flags, model.Offset(4) + model.Pos) == 3
    return named, content(buffers[1]), text(model, 3), names


def test_another_reader_finds_the_plan_and_all_that_the_model_had(tmp_path, capsys):
    file, out = tmp_path / "m.tflite", tmp_path / "planned.tflite"
    file.write_bytes(chain(100, 60, 30, 100))
    assert main(["tflite", str(file), "-o", str(out)]) == 0
    # t0 and t1 take 112 + 64 bytes at op 0, which no plan can share; the others find room where they lay.
    assert "4 tensors in 176 bytes; no plan is lower" in capsys.readouterr().out
    named, weights, description, names = read_back(out.read_bytes())
    before = read_back(file.read_bytes())
    assert (
        (weights, description, names)
        == before[1:]
        == (WEIGHTS, "made by hand", [["t0", "t1", "t2", "t3", "w"]])
    )
    assert named.keys() == {"min_runtime_version", "OfflineMemoryAllocation"}
    assert named["min_runtime_version"] == WEIGHTS
    version, graphs, count, *offsets = struct.unpack("<8i", named["OfflineMemoryAllocation"])
    assert (version, graphs, count, offsets[4]) == (1, 1, 5, -1)
    spans = [range(at, at + size) for at, size in zip(offsets, (100, 60, 30, 100), strict=False)]
    assert all(not set(one) & set(other) for one, other in pairwise(spans))
    assert all(at % 16 == 0 for at in offsets[:4])
    assert out.read_bytes().endswith(file.read_bytes())


@given(st.lists(st.integers(1, 500), min_size=2, max_size=9))
def test_in_a_chain_no_plan_is_below_the_largest_pair_and_ours_is_there(sizes):
    found = plan.plan(model_file.parse(chain(*sizes), "m"), 16, 5.0, 0)
    rounded = [-(-size // 16) * 16 for size in sizes]
    assert found.height_bytes == max(map(sum, pairwise(rounded)))
    assert found.proved
    assert read_back(found.written())[1] == WEIGHTS


def test_what_lives_and_what_is_left_to_the_runtime():
    """Inputs live from the start, outputs to the end, weights and variables not in the plan."""
    tensors = [
        ("unused input", [4], INT8, 0, False),
        ("input", [2, 3], FLOAT32, 0, False),
        ("early output", [5], INT8, 0, False),
        ("text", [5], STRING, 0, False),
        ("state", [7], INT8, 0, True),
        ("weights", [40], INT8, 1, False),
        ("untouched", [9], INT8, 0, False),
        ("output", [8], INT8, 0, False),
        ("empty", [0], INT8, 0, False),
        ("half bytes", [3], 17, 0, False),
    ]
    ops = [([1, 5, 4], [2, 3, 8]), ([1, -1], [9]), ([9], [7])]
    other = ([("inner", [3], INT8, 0, False)], [], [0], [0])
    model = model_file.parse(a_model((tensors, ops, [0, 1], [2, 7]), other), "m")
    assert [(t.number, t.name, t.size_bytes, t.first, t.last) for t in model.arena] == [
        (0, "unused input", 4, 0, 0),
        (1, "input", 24, 0, 2),
        (2, "early output", 5, 1, 3),
        (7, "output", 8, 3, 3),
        (9, "half bytes", 3, 2, 3),
    ]
    assert (model.tensors, model.subgraphs, model.ops, model.left) == (11, 2, 3, 3)
    found = plan.plan(model, 32, 5.0, 0)
    assert (found.height_bytes, found.lowest_bytes) == (96, 96)
    offsets = model_file.plan_of(found.written())
    assert offsets is not None
    assert [number for number, at in enumerate(offsets) if at >= 0] == [0, 1, 2, 7, 9]


def test_json_has_a_row_per_tensor(tmp_path, capsys):
    file = tmp_path / "m.TFLITE"
    file.write_bytes(chain(10, 20, 30))
    assert main(["tflite", str(file), "--json", "--align", "32"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["align_bytes"], document["height_bytes"]) == ("arena-plan", 32, 64)
    assert [row["size_bytes"] for row in document["tensors"]] == [10, 20, 30]


def test_what_is_no_model_to_plan_is_refused_in_one_line(tmp_path, capsys):
    file, out = tmp_path / "m.tflite", str(tmp_path / "o.tflite")
    file.write_bytes(chain(10, 20))
    given = ["tflite", str(file)]
    refuse(capsys, [*given, "-o", str(file)], "another file than the model")
    refuse(capsys, [*given, "-o", str(tmp_path / "o.json")], ".tflite")
    refuse(capsys, [*given, "--seed", "-1"], "--seconds, --seed: expected numbers not below 0")
    refuse(capsys, [*given, "--align", "24"], "multiple of 16")
    refuse(capsys, ["tflite", str(tmp_path / "none.tflite")], "none.tflite")
    assert main([*given, "-o", out]) == 0
    refuse(capsys, ["tflite", out], "found the metadata OfflineMemoryAllocation")
    for content, why in (
        (b"PK\3\4" + bytes(50), "found other bytes"),
        (a_model(([("t", [-1, 4], INT8, 0, False)], [], [0], [0])), "sizes from 0"),
        (a_model(([("t", [4], INT8, 7, False)], [], [0], [0])), "buffer 7 of 2"),
        (a_model(([("t", [4], INT8, 0, False)], [([0], [3])], [0], [3])), "tensor 3 of 1"),
        (a_model(([("t", [4], INT8, 0, False)], [([0], [-1])], [0], [0])), "writes tensor -1"),
        (a_model(), "expected a subgraph"),
        (a_model(([("t", [2**31 - 1] * 9, INT8, 0, False)], [], [0], [0])), "less than 2 GiB"),
        (a_model(([(n, [2**30], INT8, 0, False) for n in "ab"], [], [0, 1], [0, 1])), "less than 2 GiB"),
    ):
        file.write_bytes(content)
        refuse(capsys, given, why)


@given(st.data())
def test_a_damaged_model_is_refused_or_planned_and_never_a_traceback(data):
    whole = bytearray(chain(10, 20, 30))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    del whole[data.draw(st.integers(len(whole) // 2, len(whole))) :]
    said = ""
    try:
        written = plan.plan(model_file.parse(bytes(whole), "m"), 16, 0.1, 0).written()
    except InputError as error:
        said = str(error)
    else:
        assert model_file.plan_of(written) is not None
    assert said.isprintable()


def test_offsets_are_one_per_tensor():
    model = model_file.parse(chain(10, 20), "m")
    with pytest.raises(ValueError, match="expected 3, received 1"):
        model_file.with_plan(model, [0])
    assert model_file.plan_of(chain(10, 20)) is None


def test_without_an_output_nothing_is_written(tmp_path):
    file = Path(tmp_path / "m.tflite")
    file.write_bytes(chain(10, 20))
    assert main(["tflite", str(file)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["m.tflite"]


def test_what_only_the_copy_needs_is_refused_in_one_line_if_it_is_damaged(tmp_path, capsys):
    """The description lies outside of the file; the plan needs none of it, the copy names it."""
    whole = bytearray(chain(10, 20))
    model = flatbuffers.table.Table(whole, flatbuffers.encode.Get(flatbuffers.packer.uoffset, whole, 0))
    vtable = model.Pos - struct.unpack_from("<i", whole, model.Pos)[0]
    struct.pack_into("<H", whole, vtable + 4 + 2 * 3, 20_000)
    file, out = tmp_path / "m.tflite", tmp_path / "o.tflite"
    file.write_bytes(whole)
    assert main(["tflite", str(file)]) == 0
    refuse(capsys, ["tflite", str(file), "-o", str(out)], "a damaged one: a number at")
    assert not out.exists()
