"""A mapping in other forms: a table, or the metadata of the ONNX file that it maps."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from egrl.core import plugins
from egrl.core.mapping_file import OFFSET, OTHERS, PREFIX, SIZE
from egrl.runs.allocation import PackedMemory
from egrl.runs.past_run import PastRun
from hwsim.capabilities import HasFiles
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.serialize import first_difference, from_json
from workloads.text import csv_cell
from workloads.workload import Workload

if TYPE_CHECKING:
    from workloads.importers.read import Imported


def rows(
    problem: Problem, mapping: Mapping16, memories: Sequence[PackedMemory] | None = None
) -> list[dict[str, str | int]]:
    """One row per tensor: op, head, choice (the name of its memory), size_bytes; dead decisions are left out.

    With `memories` (`allocation.allocate`) also offset_bytes, "" for the tensors of a memory that could not be packed.
    """
    offsets = {
        (tensor.node, tensor.head): offset
        for memory in memories or ()
        if memory.packing.verdict == "packed"
        for tensor, offset in zip(memory.tensors, memory.packing.offsets, strict=True)
    }
    found: list[dict[str, str | int]] = []
    for n, node in enumerate(problem.space.nodes):
        for h, head in enumerate(problem.space.heads):
            choice = int(mapping[n, h])
            if choice >= 0:
                size = int(problem.space.size_bytes[n, h])
                row: dict[str, str | int] = {
                    "op": node,
                    "head": head,
                    "choice": problem.space.labels[h][choice],
                    SIZE: size,
                }
                found.append(row if memories is None else row | {OFFSET: offsets.get((node, head), "")})
    return found


def to_csv(problem: Problem, mapping: Mapping16, memories: Sequence[PackedMemory] | None = None) -> str:
    """The rows as CSV with a header; no name is a formula for a spreadsheet (`csv_cell`)."""
    stream = io.StringIO()
    columns = ["op", "head", "choice", SIZE, *([] if memories is None else [OFFSET])]
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: csv_cell(value) for key, value in row.items()} for row in rows(problem, mapping, memories)
    )
    return stream.getvalue()


def _workload_of(problem: Problem) -> Workload:
    """The network of a problem. InputError where it has none."""
    text = problem.files().get("workload.json") if isinstance(problem, HasFiles) else None
    if not isinstance(text, str):
        raise InputError(
            f"--model: expected a run of a problem whose workload is a network, found {problem.about.name}"
        )
    return from_json(text, problem.about.workload)


def _imported(problem: Problem, file: str, dimensions: Mapping[str, int], fuse: bool) -> Imported:
    """The model in a file that the network of a problem was made of. InputError where it is another one."""
    from workloads.importers.read import read

    own = _workload_of(problem)
    imported = read(file, dimensions, None, fuse, allow_unknown=True)
    widths = own.element_bytes
    if widths != imported.workload.element_bytes and widths.weight == widths.activation:
        imported = read(
            file, dimensions, widths.weight, fuse, allow_unknown=True
        )  # as `egrl import --bytes` has it
    if other := first_difference(own, imported.workload):
        raise InputError(f"--model {file}: expected the model that the run's workload was made of: {other}")
    return imported


def files_of_weights(data: bytes) -> list[str]:
    """Files in which an ONNX model in bytes has weights, relative to its folder."""
    import onnx

    model = onnx.load_model_from_string(data)
    tensors = (t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL)
    entries = (entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location")
    return list(dict.fromkeys(entries))


def to_onnx(
    problem: Problem,
    mapping: Mapping16,
    file: str,
    dimensions: Mapping[str, int],
    fuse: bool,
    memories: Sequence[PackedMemory] | None = None,
) -> tuple[bytes, list[str]]:
    """A copy of an ONNX file whose nodes say, in their metadata, which op they run in and where its tensors live.

    Keys of a node: `egrl.op`, and `egrl.HEAD` for each head of that op; with `memories` (`allocation.allocate`) also
    `egrl.HEAD.offset_bytes` and `egrl.HEAD.size_bytes`, where that memory could be packed. Keys of the model:
    `egrl.workload`, `egrl.chip`, `egrl.problem`, and `egrl.others` if some ops are in no node of the graph itself.
    Weights in other files stay there.

    Args:
        problem, mapping: what was mapped, int16 [N, H].
        file: the model that the workload was imported from (.onnx or .onnx.gz), by `dimensions` and `fuse`.

    Returns the copy, and the names of the nodes that are in no op (views and constants: they move nothing).
    Raises InputError where the file is no such model or has other ops.
    """
    from workloads.files import MAX_BYTES, read_bytes, unpack
    from workloads.importers import onnx_file
    from workloads.importers.onnx_reader import name_of

    imported = _imported(problem, file, dimensions, fuse)
    model = onnx_file.parse(unpack(read_bytes(file, "a model (.onnx, .onnx.gz)"), file, MAX_BYTES), file)
    places: dict[str, dict[str, str]] = {}
    for row in rows(problem, mapping, memories):
        entry = places.setdefault(str(row["op"]), {})
        entry[str(row["head"])] = str(row["choice"])
        if row.get(OFFSET, "") != "":
            entry |= {f"{row['head']}.{key}": str(row[key]) for key in (OFFSET, SIZE)}
    outside, named = [], set()
    for node in model.graph.node:  # by outputs: names of nodes need not be unique
        op = next((imported.writer[name] for name in node.output if name in imported.writer), None)
        if op is None:
            outside.append(name_of(node))
            continue
        named.add(op)
        for key, value in {"op": op, **places.get(op, {})}.items():
            node.metadata_props.add(key=PREFIX + key, value=value)
    others = {op: entry for op, entry in places.items() if op not in named}
    for key, value in (
        *([(OTHERS, json.dumps(others))] if others else []),
        ("workload", problem.about.workload),
        ("chip", problem.about.chip),
        ("problem", problem.about.name),
    ):
        model.metadata_props.add(key=PREFIX + key, value=value)
    return model.SerializeToString(), outside


Export = Callable[[PastRun], str]
"""The text of a JSON file. InputError if the run is of another problem."""

KIND = plugins.Kind(
    "export", "--to", (), "a function of a run folder (PastRun) that returns the text of a JSON file"
)
"""What plug-ins of the group `egrl.exports` are; the package has none of its own."""


def find_export(name: str) -> Export:
    """The export called `name`: a plug-in's, or MODULE:NAME. InputError in one line if its code cannot be imported."""
    found = plugins.find(KIND, name)
    if not callable(found.thing):
        raise found.refuse(plugins.described(found))
    export: Export = found.thing
    return export
