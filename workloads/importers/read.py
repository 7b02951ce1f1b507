"""Model files as checked workloads, by how their names end, with what there is to say about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from workloads.errors import InputError
from workloads.files import MAX_BYTES, MODELS, read_bytes, unpack
from workloads.importers.dimensions import Dimensions
from workloads.importers.fold import Folded, fold, with_shapes
from workloads.importers.ir import ModelGraph, all_nodes
from workloads.importers.lower import Cluster, Lowered, clusters, lower
from workloads.importers.uncounted import Uncounted, account, amount, counted, names, on_constants
from workloads.importers.unread import with_unread
from workloads.importers.vocabulary import LEAST_INPUTS, RECURRENT, is_known
from workloads.importers.work import has_matrices, unknown_work
from workloads.text import as_file_name, few, visible
from workloads.workload import Op, Workload, check

MAX_ELEMENTS = 2**64
"""The most elements of a tensor: what is computed from it fits a float; the workload's own limits judge sizes."""


@dataclass(frozen=True)
class Imported:
    """A workload and where it came from. `workload.remarks` is what the user should know.

    Attributes:
        unknown: tensors whose shape the file neither states nor implies.
        nodes: for each op the nodes of the file that it runs, its head first; not of what holds unread constants.
        writer: for each tensor of the file that an op writes, that op.
    """

    workload: Workload
    unknown: tuple[str, ...]
    nodes: Mapping[str, tuple[str, ...]]
    writer: Mapping[str, str]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was guessed or could not be counted, a line each."""
        return self.workload.remarks

    @property
    def summary(self) -> str:
        """What was counted, and what was not, in one line."""
        net = self.workload
        sizes = f"{amount(net.macs)} products, {amount(net.parameters)} parameters"
        return "; ".join((f"{counted(len(net), 'op')}, {sizes}", *net.remarks))

    def op_by_name(self) -> dict[str, str]:
        """The op by the names of its nodes and of the tensors that they write; a name of several ops is left out."""
        found: dict[str, str | None] = dict(self.writer)
        for op, nodes in self.nodes.items():
            for node in nodes:
                found[node] = op if found.get(node, op) == op else None
        return {name: op for name, op in found.items() if op is not None}


def convert(
    graph: ModelGraph,
    name: str,
    source: str,
    element_bytes: float | None,
    fuse: bool,
    allow_unknown: bool = False,
    weights_once: bool = False,
) -> Imported:
    """The graph as a workload called `name`; `element_bytes` replaces the widths of all but ids, masks and shapes.

    Raises:
        InputError: nothing is left that computes or moves data, a size is out of range, or more is of unknown work than
            a mapping could be found for (`uncounted.account`), unless `allow_unknown`.
    """
    _check_inputs(graph, source)
    unknown = graph.unknown()
    sized = with_shapes(graph)
    _check_sizes(sized, source)
    folded = fold(sized, element_bytes is not None)
    folded = replace(folded, graph=_with_width(folded.graph, element_bytes))
    if not folded.graph.nodes:
        raise InputError(
            f"{source}: expected an op that computes or moves data, found only views and constants"
        )
    ops = clusters(folded, fuse)
    lowered = lower(folded, ops, as_file_name(name, "model"), source)
    if weights_once:
        lowered = replace(lowered, workload=_read_once(lowered.workload))
    net, unread = with_unread(lowered.workload, folded.graph)
    sizes = [_traffic(op) for op in lowered.workload]
    found = [
        Uncounted(kind, size, has_matrices(head, folded, unknown))
        for (head, *_), size in zip(ops, sizes, strict=True)
        for kind in unknown_work(head, folded, unknown)
    ]
    once = Counter(node.op for node in folded.settled if not is_known(node.op))
    remarks = [
        *account(found, sum(sizes), source, allow_unknown),
        *on_constants(once),
        *unread,
        *graph.remarks,
    ]
    if unknown:
        each = "s are unknown, each taken as" if len(unknown) > 1 else " is unknown, taken as"
        remarks.append(f"{len(unknown)} size{each} that of its op's largest input ({names(unknown)})")
    remarks += _on_copies(lowered, folded, ops, sizes)
    widths = net.element_bytes
    if element_bytes is not None:
        widths = replace(widths, weight=element_bytes, activation=element_bytes)
    net = check(replace(net, element_bytes=widths, remarks=few(list(map(visible, remarks)))))
    also = {other: lowered.writer[at] for other, at in graph.called.items() if at in lowered.writer}
    return Imported(net, unknown, lowered.nodes, {**lowered.writer, **also})


def _read_once(workload: Workload) -> Workload:
    """The workload where every inference reads a weight once at most, and the products of all steps are one."""

    def once(op: Op) -> Op:
        gemm = op.gemm
        if gemm is not None and gemm.groups % op.steps == 0:
            gemm = replace(gemm, groups=gemm.groups // op.steps, rows=gemm.rows * op.steps)
        read = min(op.weight_bytes, op.weight_moved_bytes)
        return replace(op, steps=1, weight_read_bytes=read, gemm=gemm)

    return replace(workload, ops=tuple(once(op) if op.steps > 1 else op for op in workload))


def _on_copies(lowered: Lowered, folded: Folded, ops: Sequence[Cluster], sizes: Sequence[int]) -> list[str]:
    """The remarks on tensors that are copied for a few elements, and on weights that are held more than once; `sizes`
    are bytes moved by each op."""
    remarks = []
    parts = {
        op.name: size
        for op, (head, *_), size in zip(lowered.workload, ops, sizes, strict=True)
        if not folded.copied.isdisjoint(head.outputs)
    }
    if sum(parts.values()) * 100 > sum(sizes):
        remarks.append(
            f"{counted(len(parts), 'op')} put a few elements into a copy of a larger tensor ({names(list(parts))}): all"
            " of it counts as read and written"
        )
    total = sum(op.weight_bytes for op in lowered.workload)
    if lowered.copied_bytes * 100 > total:
        remarks.append(
            f"{lowered.copied_bytes} of {total} bytes of weights are read by several ops: each holds them"
        )
    return remarks


def _with_width(graph: ModelGraph, element_bytes: float | None) -> ModelGraph:
    """The graph with another width of all but ids, masks and shapes; of packed numbers, of each."""
    if element_bytes is None:
        return graph
    tensors = {
        name: replace(each, element_bytes=element_bytes * max(1.0, each.numbers / max(1, each.kept)))
        for name, each in graph.tensors.items()
        if each.is_float or each.numbers
    }
    return replace(graph, tensors={**graph.tensors, **tensors})


def _traffic(op: Op) -> int:
    """Bytes that an op reads and writes."""
    return (
        op.output_bytes
        + op.external_bytes
        + op.weight_read_bytes
        + sum(edge.read_bytes for edge in op.inputs)
    )


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


def read(
    file: str,
    dimensions: Mapping[str, int] | None = None,
    element_bytes: float | None = None,
    fuse: bool = True,
    allow_unknown: bool = False,
    weights_once: bool = False,
) -> Imported:
    """The model in a .onnx, .onnx.gz or .pt2 file.

    `dimensions` gives the sizes of those that the model leaves open, `element_bytes` replaces the widths in the file of
    all but ids, masks and shapes, `fuse` runs element-wise tails in the ops before them, and `allow_unknown` takes ops
    of unknown work as movers of data however many there are. `weights_once` counts weights that recurrent ops and loops
    read in every step as read once, as hardware does that holds them where it multiplies.

    Raises:
        InputError: not such a file, damaged, a dimension left open, sizes out of range, or work unknown; one line.
    """
    data = read_bytes(file, "a model (.onnx, .onnx.gz or .pt2)")
    wanted = Dimensions(dimensions or {})
    if file.lower().endswith(".pt2"):
        from workloads.importers import pt2_file

        graph = pt2_file.read(data, file, wanted)
    else:
        from workloads.importers import onnx_file

        graph = onnx_file.read(unpack(data, file, MAX_BYTES), file, wanted)
    found = convert(graph, stem(file), PurePath(file).name, element_bytes, fuse, allow_unknown, weights_once)
    _check_results(found.workload, wanted.given)
    return found


def _check_results(workload: Workload, dimensions: Mapping[str, int]) -> None:
    """InputError where a dimension of 0 leaves the model without results; a cache may well begin with 0 positions."""
    zero = next((name for name, size in dimensions.items() if size == 0), None)
    read_by = {edge.source for op in workload for edge in op.inputs}
    results = [op.output_bytes for op in workload if op.name not in read_by]
    if zero is not None and not any(results):
        raise InputError(f"--dim {zero}=0: expected a size with which the model has results, found none")


def stem(file: str) -> str:
    """The name of a model: its file's, without the ending."""
    name = PurePath(file).name
    ending = max((s for s in MODELS if name.lower().endswith(s)), key=len, default="")
    return name[: len(name) - len(ending)]
