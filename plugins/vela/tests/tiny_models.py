"""Small quantised models of TensorFlow Lite, made by the library flatbuffers, which egrl does not use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import flatbuffers
import numpy as np

CONV_2D, CUSTOM, EXP = 3, 32, 47
INT8, INT32 = 9, 2


def table(builder: flatbuffers.Builder, fields: int, **values: tuple[str, float]) -> int:
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


def numbers(builder: flatbuffers.Builder, values: Sequence[float], kind: type = np.int32) -> int:
    return builder.CreateNumpyVector(np.array(values, kind))


def offset(place: int) -> tuple[str, int]:
    return ("UOffsetTRelative", place)


def code(builder: flatbuffers.Builder, number: int, custom: str = "") -> int:
    """An operator code, as version 3 of the schema has it."""
    names = {"f1": offset(builder.CreateString(custom))} if custom else {}
    return table(builder, 4, f0=("Byte", min(number, 127)), **names, f2=("Int32", 1), f3=("Int32", number))


def finish(
    builder: flatbuffers.Builder, codes: Sequence[int], graphs: Sequence[int], buffers: Sequence[int]
) -> bytes:
    fields = {
        "f1": offset(tables(builder, codes)),
        "f2": offset(tables(builder, graphs)),
        "f3": offset(builder.CreateString("made by a test")),
        "f4": offset(tables(builder, buffers)),
    }
    builder.Finish(table(builder, 8, f0=("Uint32", 3), **fields), file_identifier=b"TFL3")
    return bytes(builder.Output())


def program(*ops: tuple[int, str]) -> bytes:
    """A compiled network: ops (number, name of a custom one) without tensors."""
    builder = flatbuffers.Builder(0)
    codes = [code(builder, *op) for op in ops]
    steps = [table(builder, 4, f0=("Uint32", place)) for place in range(len(ops))]
    graph = table(builder, 5, f3=offset(tables(builder, steps)))
    return finish(builder, codes, [graph], [])


def convolutions(channels: Sequence[int], side: int, seed: int = 0) -> bytes:
    """Convolutions of 3 x 3 one after the other, int8, of which all but the first have random weights of int8."""
    builder = flatbuffers.Builder(0)
    draw = np.random.default_rng(seed)
    buffers = [table(builder, 3)]
    tensors: list[int] = []
    steps: list[int] = []

    def constant(values: np.ndarray) -> int:
        data = builder.CreateNumpyVector(np.frombuffer(values.tobytes(), np.uint8))
        buffers.append(table(builder, 3, f0=offset(data)))
        return len(buffers) - 1

    def tensor(name: str, shape: Sequence[int], kind: int, buffer: int, scale: float) -> int:
        scales, zeros = numbers(builder, [scale], np.float32), numbers(builder, [0], np.int64)
        fields: Mapping[str, tuple[str, int]] = {
            "f0": offset(numbers(builder, shape)),
            "f3": offset(builder.CreateString(name)),
            "f4": offset(table(builder, 7, f2=offset(scales), f3=offset(zeros))),
        }
        tensors.append(table(builder, 8, **fields, f1=("Byte", kind), f2=("Uint32", buffer)))
        return len(tensors) - 1

    at = tensor("input", [1, side, side, channels[0]], INT8, 0, 1.0)
    first = at
    for step, (wide, out) in enumerate(pairwise(channels)):
        weights = constant(draw.integers(-100, 100, (out, 3, 3, wide), np.int8))
        bias = constant(np.zeros(out, np.int32))
        reads = [
            at,
            tensor(f"weights{step}", [out, 3, 3, wide], INT8, weights, 0.01),
            tensor(f"bias{step}", [out], INT32, bias, 0.01),
        ]
        at = tensor(f"conv{step}", [1, side, side, out], INT8, 0, 1.0)
        # Conv2DOptions: padding SAME, strides of 1, ReLU; dilations are 1 by default. Union member 1.
        options = table(builder, 6, f1=("Int32", 1), f2=("Int32", 1), f3=("Byte", 1))
        given, made = numbers(builder, reads), numbers(builder, [at])
        steps.append(
            table(builder, 9, f1=offset(given), f2=offset(made), f3=("Uint8", 1), f4=offset(options))
        )
    parts = (
        tables(builder, tensors),
        numbers(builder, [first]),
        numbers(builder, [at]),
        tables(builder, steps),
    )
    graph = table(builder, 5, **{f"f{n}": offset(part) for n, part in enumerate(parts)})
    return finish(builder, [code(builder, CONV_2D)], [graph], buffers)
