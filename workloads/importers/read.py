"""Model files as checked workloads, by how their names end, with what there is to say about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from workloads.compressed import unpack
from workloads.errors import InputError
from workloads.files import MAX_BYTES, read_bytes
from workloads.importers.dimensions import Dimensions
from workloads.importers.fold import fold, with_shapes
from workloads.importers.fuse import clusters
from workloads.importers.ir import ModelGraph, all_nodes
from workloads.importers.lower import lower
from workloads.importers.vocabulary import LEAST_INPUTS, RECURRENT, is_known
from workloads.names import as_file_name
from workloads.validate import check
from workloads.workload import Workload

MAX_ELEMENTS = 2**64
"""Of a tensor: what is computed from it still fits a float, and sizes are judged by the workload's own limits."""
NAMED = 3
"""Tensors or ops that a remark names before it counts the others."""


@dataclass(frozen=True)
class Imported:
    """A workload and where it came from.

    Attributes:
        remarks: what the user should know, a line each: ops that are not known, shapes that are assumed …
        unknown: tensors whose shape the file neither states nor implies.
        nodes: for each op the nodes of the file that it runs, its head first.
        writer: for each tensor of the file that an op writes, that op.
    """

    workload: Workload
    remarks: tuple[str, ...]
    unknown: tuple[str, ...]
    nodes: Mapping[str, tuple[str, ...]]
    writer: Mapping[str, str]

    def op_by_name(self) -> dict[str, str]:
        """The op by the names of its nodes and of the tensors that they write; a name of several ops is left out."""
        found: dict[str, str | None] = dict(self.writer)
        for op, nodes in self.nodes.items():
            for node in nodes:
                found[node] = op if found.get(node, op) == op else None
        return {name: op for name, op in found.items() if op is not None}


def convert(graph: ModelGraph, name: str, source: str, element_bytes: float | None, fuse: bool) -> Imported:
    """The graph as a workload called `name`; `element_bytes` replaces the widths of all but ids, masks and shapes.

    Raises:
        InputError: nothing is left that computes or moves data, or a size is out of range.
    """
    _check_inputs(graph, source)
    unknown = graph.unknown()
    sized = with_shapes(graph)
    _check_sizes(sized, source)
    if element_bytes is not None:
        tensors = {
            key: replace(t, element_bytes=element_bytes) if t.is_float else t
            for key, t in sized.tensors.items()
        }
        sized = replace(sized, tensors=tensors)
    folded = fold(sized)
    if not folded.graph.nodes:
        raise InputError(
            f"{source}: expected an op that computes or moves data, found only views and constants"
        )
    lowered = lower(folded, clusters(folded, fuse), as_file_name(name, "model"), source)
    remarks = [*graph.remarks, *_strangers(folded.graph)]
    if unknown:
        remarks.append(
            f"{_list_names(unknown)}: shapes unknown, taken to be as large as the largest input of their op"
        )
    total = sum(op.weight_bytes for op in lowered.workload)
    if lowered.copied_bytes * 100 > total:
        remarks.append(
            f"{lowered.copied_bytes} of {total} bytes of weights are read by several ops: each holds them"
        )
    if element_bytes is not None:
        widths = replace(lowered.workload.element_bytes, weight=element_bytes, activation=element_bytes)
        lowered = replace(lowered, workload=replace(lowered.workload, element_bytes=widths))
    return Imported(check(lowered.workload), tuple(remarks), unknown, lowered.nodes, lowered.writer)


def _check_inputs(graph: ModelGraph, source: str) -> None:
    for node in all_nodes(graph.nodes):
        least = LEAST_INPUTS.get(node.op, 1) if is_known(node.op) else 0
        given = [name for name in node.inputs[:least] if name]
        if len(given) < least:
            raise InputError(
                f"{source}: node {node.name!r} ({node.op}): expected at least {least} inputs, found {len(given)}"
            )
        if node.op not in RECURRENT and is_known(node.op) and not (node.outputs and node.outputs[0]):
            raise InputError(f"{source}: node {node.name!r} ({node.op}): expected an output, found none")


def _check_sizes(graph: ModelGraph, source: str) -> None:
    large = next((name for name, tensor in graph.tensors.items() if tensor.elements > MAX_ELEMENTS), None)
    if large is not None:
        raise InputError(f"{source}: tensor {large!r}: expected at most {MAX_ELEMENTS} elements, found more")


def _strangers(graph: ModelGraph) -> list[str]:
    """One line for each type of op whose work is not known."""
    found = Counter(node.op for node in graph.nodes if not is_known(node.op))
    return [
        f"op {op} ({count}x): not known, priced as a mover of its data" for op, count in sorted(found.items())
    ]


def _list_names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


SUFFIXES = (".onnx", ".onnx.gz", ".pt2")


def is_model(file: str) -> bool:
    """Whether a file's name ends like a model's."""
    return file.lower().endswith(SUFFIXES)


def read(
    file: str,
    dimensions: Mapping[str, int] | None = None,
    element_bytes: float | None = None,
    fuse: bool = True,
) -> Imported:
    """The model in a .onnx, .onnx.gz or .pt2 file.

    `dimensions` gives the sizes of those that the model leaves open, `element_bytes` replaces the widths in the file of
    all but ids, masks and shapes, and `fuse` runs element-wise tails in the ops before them.

    Raises:
        InputError: not such a file, damaged, a dimension left open, or sizes out of range; one line.
    """
    data = read_bytes(file, "a model (.onnx, .onnx.gz or .pt2)")
    wanted = Dimensions(dimensions or {})
    if file.lower().endswith(".pt2"):
        from workloads.importers import pt2_file

        graph = pt2_file.read(data, file, wanted)
    else:
        from workloads.importers import onnx_file

        graph = onnx_file.read(unpack(data, file, MAX_BYTES), file, wanted)
    return convert(graph, stem(file), PurePath(file).name, element_bytes, fuse)


def stem(file: str) -> str:
    """The name of a model: its file's, without the ending."""
    name = PurePath(file).name
    ending = max((s for s in SUFFIXES if name.lower().endswith(s)), key=len, default="")
    return name[: len(name) - len(ending)]
