"""Instances of the contest: a graph of ops on matrices, and the chip that runs them.

    {"widths": […], "heights": […],                columns and rows of each tensor
     "inputs": [[…], …], "outputs": [[…], …],      tensors of each op; of a MatMul left, then right
     "base_costs": […], "op_types": ["MatMul" | "Pointwise", …],
     "fast_memory_capacity": elements, "slow_memory_bandwidth": elements per unit of time,
     "native_granularity": [columns, rows]}

Source: PROBLEM.md of the MLSys 2026 contest on graph scheduling, section "Input".

Deviations:
- An op has exactly one output, as in all instances of the contest.
- Shapes that do not fit are an error; the contest does not say what they would mean.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any

from workloads.errors import InputError
from workloads.files import read_bytes
from workloads.json_text import describe, parse_object
from workloads.text import FILE_NAME, as_file_name, is_file_name

KIND = "contest instance"
MAX_FILE_BYTES = 1 << 26
MOST_NUMBER = 10**12
"""The largest number of a file: sums of products of them stay exact in Python, and near enough in float64."""
FIELDS = (
    "widths", "heights", "inputs", "outputs", "base_costs", "op_types",
    "fast_memory_capacity", "slow_memory_bandwidth", "native_granularity",
)  # fmt: skip
TYPES = ("MatMul", "Pointwise")


@dataclass(frozen=True)
class Instance:
    """T tensors, N ops, and the chip.

    Attributes:
        name: for people and files.
        widths, heights: columns and rows of each tensor, T each, from 1.
        inputs: tensors that each op reads; of a matrix product (left, right).
        outputs: the tensor that each op writes.
        base_costs: time that a native tile takes of each op; of a matrix product for a depth of one native width.
        matmul: for each op, True if it is a matrix product.
        capacity: elements that fast memory holds.
        bandwidth: elements per unit of time between slow and fast memory.
        native: columns and rows of the native tile.
        tiles_divide: if true, tiles and slices have to divide what they cut (R11); no file says so.
    """

    name: str
    widths: tuple[int, ...]
    heights: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]
    base_costs: tuple[int, ...]
    matmul: tuple[bool, ...]
    capacity: int
    bandwidth: int
    native: tuple[int, int]
    tiles_divide: bool = False

    def __len__(self) -> int:
        return len(self.outputs)

    @cached_property
    def producer(self) -> tuple[int, ...]:
        """For each tensor the op that writes it; -1: it is an input of the graph."""
        found = [-1] * len(self.widths)
        for op, tensor in enumerate(self.outputs):
            found[tensor] = op
        return tuple(found)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each tensor the ops that read it, ascending."""
        found: list[list[int]] = [[] for _ in self.widths]
        for op, tensors in enumerate(self.inputs):
            for tensor in dict.fromkeys(tensors):
                found[tensor].append(op)
        return tuple(map(tuple, found))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """All ops, each after those whose outputs it reads. Raises InputError if there is a circle."""
        waits = [sum(self.producer[t] >= 0 for t in set(tensors)) for tensors in self.inputs]
        ready = [op for op, count in enumerate(waits) if not count]
        for op in ready:
            for reader in self.consumers[self.outputs[op]]:
                waits[reader] -= 1
                if not waits[reader]:
                    ready.append(reader)
        if len(ready) < len(self):
            stuck = next(op for op, count in enumerate(waits) if count)
            raise InputError(
                f"{self.name}: inputs: expected a graph without circles, found op {stuck} in or after one"
            )
        return tuple(ready)

    def is_output(self, tensor: int) -> bool:
        """True if no op reads the tensor: it has to be in slow memory in the end."""
        return not self.consumers[tensor]

    def size(self, tensor: int) -> int:
        """Elements of a tensor."""
        return self.widths[tensor] * self.heights[tensor]

    def depth(self, op: int) -> int:
        """Length of the sums of a matrix product; 1 for a pointwise op."""
        return self.widths[self.inputs[op][0]] if self.matmul[op] else 1


def load_instance(file: str) -> Instance:
    """The instance in a .json file, named after it unless it has a `name` of its own, as copies in run folders do.

    Raises:
        InputError: unreadable, or something is missing or impossible; one line with file and field.
    """
    if not file.lower().endswith(".json"):
        raise InputError(f"--workload {file}: expected a file of a {KIND} (.json), found another name")
    data = read_bytes(file, f"a {KIND}", MAX_FILE_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: expected JSON in UTF-8, found other bytes at offset {error.start}"
        ) from None
    document = parse_object(text, file, KIND)
    name = document.get("name", as_file_name(PurePath(file).stem, "instance"))
    if not is_file_name(name):
        raise InputError(f"{file}: name: expected {FILE_NAME}, found {describe(name)}")
    return parse(document, name, file)


def parse(document: dict[str, Any], name: str, where: str) -> Instance:
    """The instance that a JSON object describes. Raises InputError, beginning with `where`, if it is none."""
    for field in FIELDS:
        if field not in document:
            raise InputError(f"{where}: expected the field {field}, found none")
    unknown = next((field for field in document if field not in (*FIELDS, "name")), None)
    if unknown is not None:
        raise InputError(f"{where}: expected the fields of a {KIND}, found {unknown!r:.60}")
    widths = _numbers(document["widths"], f"{where}: widths")
    heights = _numbers(document["heights"], f"{where}: heights", len(widths))
    types = _list(document["op_types"], f"{where}: op_types")
    for op, kind in enumerate(types):
        if kind not in TYPES:
            raise InputError(
                f"{where}: op_types[{op}]: expected {' or '.join(TYPES)}, found {describe(kind)}"
            )
    inputs = _tensors(document["inputs"], f"{where}: inputs", len(types), len(widths))
    outputs = _tensors(document["outputs"], f"{where}: outputs", len(types), len(widths))
    native = _numbers(document["native_granularity"], f"{where}: native_granularity", 2)
    found = Instance(
        name,
        widths,
        heights,
        inputs,
        _one_producer(outputs, where),
        _numbers(document["base_costs"], f"{where}: base_costs", len(types), least=0),
        tuple(kind == "MatMul" for kind in types),
        _number(document["fast_memory_capacity"], f"{where}: fast_memory_capacity"),
        _number(document["slow_memory_bandwidth"], f"{where}: slow_memory_bandwidth"),
        (native[0], native[1]),
    )
    for op in range(len(found)):
        _check_shapes(found, op, where)
    _ = found.order
    return found


def document_of(instance: Instance) -> str:
    """The text of a file that `load_instance` reads as an equal instance."""
    return json.dumps(
        {
            "widths": instance.widths,
            "heights": instance.heights,
            "inputs": instance.inputs,
            "outputs": [[tensor] for tensor in instance.outputs],
            "base_costs": instance.base_costs,
            "op_types": ["MatMul" if matmul else "Pointwise" for matmul in instance.matmul],
            "fast_memory_capacity": instance.capacity,
            "slow_memory_bandwidth": instance.bandwidth,
            "native_granularity": instance.native,
        }
    )


def _list(value: Any, where: str, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or not value or (length is not None and len(value) != length):
        wanted = "one entry or more" if length is None else f"{length} entries"
        found = f"{len(value)} entries" if isinstance(value, list) else describe(value)
        raise InputError(f"{where}: expected a list of {wanted}, found {found}")
    return value


def _number(value: Any, where: str, least: int = 1) -> int:
    if type(value) is not int or not least <= value <= MOST_NUMBER:
        raise InputError(f"{where}: expected a whole number from {least}, found {describe(value)}")
    return value


def _numbers(value: Any, where: str, length: int | None = None, least: int = 1) -> tuple[int, ...]:
    return tuple(_number(each, f"{where}[{i}]", least) for i, each in enumerate(_list(value, where, length)))


def _tensors(value: Any, where: str, ops: int, tensors: int) -> tuple[tuple[int, ...], ...]:
    found = []
    for op, listed in enumerate(_list(value, where, ops)):
        for i, tensor in enumerate(_list(listed, f"{where}[{op}]")):
            if type(tensor) is not int or not 0 <= tensor < tensors:
                raise InputError(
                    f"{where}[{op}][{i}]: expected a tensor in 0..{tensors - 1}, found {describe(tensor)}"
                )
        found.append(tuple(listed))
    return tuple(found)


def _one_producer(outputs: Sequence[Sequence[int]], where: str) -> tuple[int, ...]:
    seen: dict[int, int] = {}
    for op, listed in enumerate(outputs):
        if len(listed) != 1:
            raise InputError(f"{where}: outputs[{op}]: expected one tensor, found {len(listed)}")
        if listed[0] in seen:
            raise InputError(
                f"{where}: outputs[{op}]: expected a tensor that no other op writes, found tensor {listed[0]} of op"
                f" {seen[listed[0]]}"
            )
        seen[listed[0]] = op
    return tuple(listed[0] for listed in outputs)


def _check_shapes(instance: Instance, op: int, where: str) -> None:
    out = instance.outputs[op]
    shapes = [(instance.heights[t], instance.widths[t]) for t in (*instance.inputs[op], out)]
    told = " and ".join(f"{rows}x{columns}" for rows, columns in shapes[:-1])
    rows, columns = shapes[-1]
    if not instance.matmul[op]:
        if any(shape != shapes[-1] for shape in shapes):
            raise InputError(f"{where}: op {op}: expected inputs of {rows}x{columns}, found {told}")
    elif len(shapes) != 3:
        raise InputError(f"{where}: inputs[{op}]: expected two tensors of a MatMul, found {len(shapes) - 1}")
    elif shapes[0][0] != rows or shapes[1][1] != columns or shapes[0][1] != shapes[1][0]:
        raise InputError(
            f"{where}: op {op}: expected a left input of {rows} rows and a right one of {columns} columns and as many"
            f" rows as the left has columns, found {told}"
        )
