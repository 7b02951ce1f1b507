"""Pieces of ONNX's format: types of elements, constants, and what bodies of loops and branches read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.importers.ir import Node


def names_of(graph: Any) -> Iterator[Any]:
    """All names in a GraphProto, its nodes' bodies aside; bytes instead of a text where one is not UTF-8."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
    for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield info.name


def captured_names(proto: Any) -> list[str]:
    """Names that the graphs inside a node (a NodeProto) read from outside."""
    found: dict[str, None] = {}
    for attribute in proto.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inside = {info.name for info in graph.input} | {t.name for t in graph.initializer}
            for node in graph.node:
                found |= dict.fromkeys(
                    n for n in (*node.input, *captured_names(node)) if n and n not in inside
                )
                inside |= set(node.output)
            found |= dict.fromkeys(info.name for info in graph.output if info.name not in inside)
    return list(found)


def held_inside(proto: Any) -> list[Any]:
    """The initializers (TensorProto) of the graphs inside a node (a NodeProto)."""
    return [
        tensor
        for attribute in proto.attribute
        for graph in (attribute.g, *attribute.graphs)
        for tensor in (*graph.initializer, *(t for node in graph.node for t in held_inside(node)))
    ]


def constant_value(node: Node) -> NDArray[Any] | None:
    """What a Constant holds; None where it is no plain tensor."""
    for name, dtype in (("value_int", np.int64), ("value_ints", np.int64), ("value_float", np.float32)):
        if name in node.attributes:
            return np.asarray(node.attributes[name], dtype)
    if "value_floats" in node.attributes:
        return np.asarray(node.attributes["value_floats"], np.float32)
    value = node.attributes.get("value")
    return value if isinstance(value, np.ndarray) and value.dtype != object else None


@lru_cache(maxsize=1)
def numpy_types() -> dict[int, Any]:
    """NumPy's type for the number of each type in the file."""
    import onnx

    numbers = onnx.helper.get_all_tensor_dtypes()
    return {number: onnx.helper.tensor_dtype_to_np_dtype(number) for number in numbers}


@lru_cache(maxsize=64)
def width_of(kind: int) -> tuple[float, bool]:
    """Bytes an element of a type in the file, and whether it holds numbers to compute with."""
    import onnx

    try:
        name = onnx.TensorProto.DataType.Name(kind)
    except ValueError:
        return 4.0, True
    bits = {"FLOAT": 32, "DOUBLE": 64, "BOOL": 8, "STRING": 64, "COMPLEX64": 64, "COMPLEX128": 128}.get(name)
    if bits is None:
        digits = "".join(c for c in name.split("E")[0] if c.isdigit())
        bits = int(digits) if digits else 32
    return bits / 8, name not in ("BOOL", "STRING", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64")
