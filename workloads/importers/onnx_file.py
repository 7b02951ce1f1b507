"""ONNX files. Only shapes are read: weights may lie in files that are not there.

Format: onnx.proto and Operators.md of https://github.com/onnx/onnx. Functions of the model are written out where they
are called, in the newest of the versions of ONNX's ops that they and the model have.

bytes -> ModelProto -> onnx_reader.py (tensors, shapes, small values), which asks onnx_control.py (branches, loops,
sequences) and onnx_contrib.py (ONNX Runtime's own ops) what some nodes are in nodes of ONNX
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from workloads.errors import InputError
from workloads.importers import onnx_contrib, onnx_control
from workloads.importers.dimensions import Dimensions
from workloads.importers.ir import ModelGraph
from workloads.importers.onnx_reader import MAX_NODES, Reader, graphs_of
from workloads.importers.vocabulary import SAME_AS, is_known

MAX_WRITTEN_BYTES = 1 << 28
"""Bytes that the functions of a model may take where they are called."""
MAX_CALLS = 100
"""Functions that may call each other in a row: writing them out takes a stack."""


def read(data: bytes, file: str, dimensions: Dimensions) -> ModelGraph:
    """The model in a file's bytes, with the shape of every tensor as far as it can be known.

    Raises:
        InputError: not an ONNX model, or dimensions are open that `dimensions` does not give.
    """
    onnx = _onnx()
    model = _with_definitions(onnx, _parse(onnx, data, file))
    if len(model.graph.node) > MAX_NODES:
        raise InputError(f"{file}: expected at most {MAX_NODES} nodes, found {len(model.graph.node)}")
    return Reader(onnx, model, file, dimensions, WRITERS).graph()


def parse(data: bytes, file: str) -> Any:
    """The onnx.ModelProto in `data`, functions written out; weights stay where they are. InputError as `read`."""
    return _parse(_onnx(), data, file)


def _onnx() -> Any:
    try:
        import onnx
        import onnx.inliner
        import onnx.reference
        import onnx.shape_inference
    except ImportError as error:
        raise InputError(
            f'reading ONNX needs the package onnx: pip install "egrl[onnx]" (found: {error})'
        ) from error
    return onnx


def _parse(onnx: Any, data: bytes, file: str) -> Any:
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:
        raise InputError(f"{file}: expected an ONNX model, found other bytes ({error})") from None
    if not all(isinstance(name, str) for name in names_of(model.graph)):
        raise InputError(f"{file}: expected names in UTF-8, found other bytes")
    if not model.graph.node:
        raise InputError(f"{file}: expected an ONNX model with nodes, found none")
    if not model.functions:
        return model
    _give_defaults(model, file)
    _check_calls(model, file)
    try:
        return onnx.inliner.inline_local_functions(model, convert_version=True)
    except Exception as error:
        raise InputError(f"{file}: expected functions that can be written out, found: {error}") from None


WRITERS = {**onnx_control.WRITERS, **onnx_contrib.WRITERS}


def _with_definitions(onnx: Any, model: Any) -> Any:
    """The model with those ops written out whose work is unknown here, and that ONNX itself defines by others."""
    ops = {node.op_type for node in _all_nodes(model.graph.node) if node.domain in ("", "ai.onnx")}
    unknown = [("", op) for op in sorted(ops) if not (is_known(op) or op in SAME_AS or op in WRITERS)]
    if not unknown:
        return model
    try:
        return onnx.inliner.inline_selected_functions(model, unknown, inline_schema_functions=True)
    except Exception:  # what is not written out is an op of unknown work
        return model


def _give_defaults(model: Any, file: str) -> None:
    """Write to calls the attributes that they leave to their function's default: ONNX's inliner drops these."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    room = MAX_WRITTEN_BYTES
    for nodes in (model.graph.node, *(f.node for f in model.functions)):
        for node in tuple(_all_nodes(nodes)):
            if _called(node) not in functions:
                continue
            given = {attribute.name for attribute in node.attribute}
            defaults = functions[_called(node)].attribute_proto
            missing = [default for default in defaults if default.name not in given]
            room -= sum(default.ByteSize() for default in missing)
            if room < 0:
                raise InputError(
                    f"{file}: expected at most {MAX_WRITTEN_BYTES} bytes of default attributes once functions are"
                    " written out, found more"
                )
            node.attribute.extend(missing)


def _called(node: Any) -> tuple[str, str, str]:
    """Which function a node (NodeProto) calls, if there is one."""
    return node.domain, node.op_type, node.overload


def _check_calls(model: Any, file: str) -> None:
    """InputError if the functions of a model call themselves, or are too much once they are written out."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    # nodes and bytes of a function, with what it calls
    written: dict[tuple[str, str, str], tuple[int, int]] = {}
    caller: list[tuple[str, str, str]] = []

    def size(nodes: Iterable[Any]) -> tuple[int, int]:
        count = total = 0
        for node in _all_nodes(nodes):
            name = _called(node)
            more = function_size(name) if name in functions else (1, node.ByteSize() if caller else 0)
            count, total = count + more[0], total + more[1]
        return count, total

    def function_size(name: tuple[str, str, str]) -> tuple[int, int]:
        if name in caller or len(caller) == MAX_CALLS:
            raise InputError(
                f"{file}: function {name[1]!r}: expected calls at most {MAX_CALLS} deep and none of itself, found more"
            )
        if name not in written:
            caller.append(name)
            written[name] = size(functions[name].node)
            caller.pop()
        return written[name]

    count, total = size(model.graph.node)
    if count > MAX_NODES or total > MAX_WRITTEN_BYTES:
        raise InputError(
            f"{file}: expected at most {MAX_NODES} nodes and {MAX_WRITTEN_BYTES} bytes of functions once these are"
            f" written out, found {count} and {total}"
        )


def _all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes (NodeProto), each followed by those of the graphs inside it."""
    for node in nodes:
        yield node
        for graph in graphs_of(node):
            yield from _all_nodes(graph.node)


def names_of(graph: Any) -> Iterator[Any]:
    """All names in a GraphProto and the graphs in it; bytes instead of a text where one is not UTF-8."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for inner in graphs_of(node):
            yield from names_of(inner)
    for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield info.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
