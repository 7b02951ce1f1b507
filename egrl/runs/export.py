"""A mapping in other forms: a table, or the metadata of the ONNX file that it maps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from egrl.core.mapping_file import OFFSET, OTHERS, PREFIX, SIZE, Addresses
from egrl.runs.model_explorer import to_model_explorer
from egrl.runs.past_run import PastRun
from egrl.runs.peak import Peak
from hwsim.allocation.buffers import Buffer, Packing
from hwsim.allocation.judge import judge
from hwsim.allocation.pack import pack
from hwsim.capabilities import HasFiles, HasLifetimes, Lifetime
from hwsim.problem import Mapping16, Problem
from workloads import plugins
from workloads.errors import InputError
from workloads.serialize import first_difference, from_json
from workloads.text import csv_table
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
    """The rows as CSV with a header."""
    columns = ["op", "head", "choice", SIZE, *([] if memories is None else [OFFSET])]
    return csv_table(columns, rows(problem, mapping, memories))


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
    once = all(op.steps == 1 for op in own)  # as `egrl import --weights-once` has it
    imported = read(file, dimensions, None, fuse, True, once)
    widths = own.element_bytes
    if widths != imported.workload.element_bytes and widths.weight == widths.activation:
        imported = read(file, dimensions, widths.weight, fuse, True, once)  # as `egrl import --bytes` has it
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
        _describe(node, op, places.get(op, {}))
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


def _describe(node: Any, op: str, place: Mapping[str, str]) -> None:
    """Say the same in a node's description, which viewers such as Netron show."""
    words = [f"{head} in {memory}" for head, memory in place.items() if "." not in head]
    line = f"egrl: runs in {op}" + (f"; {', '.join(words)}" if words else "")
    kept = [each for each in node.doc_string.splitlines() if not each.startswith("egrl: ")]
    node.doc_string = "\n".join([*kept, line])


Export = Callable[[PastRun], str | Mapping[str, str]]
"""The text of a JSON file, or texts of files by their names in a folder. InputError if the run is of another
problem."""

OWN: dict[str, Export] = {"model-explorer": to_model_explorer}
KIND = plugins.Kind(
    "export",
    "--to",
    tuple(OWN),
    "a function of a run folder (PastRun) that returns the text of a JSON file, or texts by names of files",
)
"""What plug-ins of the group `egrl.exports` are."""


def find_export(name: str) -> Export:
    """The export called `name`: the package's, a plug-in's, or MODULE:NAME. InputError in one line if its code cannot
    be imported."""
    if name in OWN:
        plugins.installed(KIND)  # says which plug-ins cannot have their names
        return OWN[name]
    found = plugins.find(KIND, name)
    if not callable(found.thing):
        raise found.refuse(plugins.described(found))
    export: Export = found.thing
    return export


FILE = "allocation"
"""Stem of what `egrl allocate` leaves in a run folder."""
COLUMNS = (
    "op",
    "head",
    "memory",
    "size_bytes",
    "first_op",
    "last_op",
    "first_step",
    "last_step",
    "offset_bytes",
)
"""Columns of a tensor; its lifetime is closed: it is still held while its last op runs."""


@dataclass(frozen=True)
class PackedMemory:
    """One memory and the tensors in it.

    Attributes:
        name, capacity_bytes: the memory's.
        tensors: what lies in it, in the order of nodes and heads.
        packing: their offsets, in the same order.
        seconds: what it took.
    """

    name: str
    capacity_bytes: int
    tensors: tuple[Lifetime, ...]
    packing: Packing
    seconds: float

    @property
    def over_bytes(self) -> int:
        """By how many bytes the highest tensor sticks out; 0 where all fit."""
        return max(0, self.packing.height_bytes - self.capacity_bytes)

    @property
    def sticking_out(self) -> list[str]:
        """The tensors that end above the capacity."""
        return [
            f"{tensor.head} of {tensor.node}"
            for tensor, offset in zip(self.tensors, self.packing.offsets, strict=True)
            if offset + tensor.size_bytes > self.capacity_bytes
        ]


def allocate(
    problem: Problem,
    mapping: Mapping16,
    align_bytes: int,
    time_limit_s: float,
    seed: int,
    fixed: Addresses | None = None,
    where: str = "",
) -> list[PackedMemory]:
    """Each memory of a problem under one mapping [N, H] as it stands, packed within `time_limit_s`, slowest first.

    `fixed` are addresses that tensors must have, from the file `where`.

    Raises:
        InputError: the problem cannot say where its tensors live and when, or addresses in `fixed` are not possible.
    """
    if not isinstance(problem, HasLifetimes):
        raise InputError(
            f"allocate: expected a problem with lifetimes of tensors, found {problem.about.name!r}"
        )
    lifetimes = problem.lifetimes(mapping)
    given = fixed or {}
    _check_memories(given, lifetimes, [name for name, _ in problem.memories()], where)
    packed = []
    for number, (name, capacity) in enumerate(problem.memories()):
        tensors = tuple(tensor for tensor in lifetimes if tensor.memory == number)
        buffers = [
            Buffer(
                f"{tensor.head} of {tensor.node}",
                tensor.size_bytes,
                tensor.first,
                tensor.last + 1,
                given.get((tensor.node, tensor.head), (None, ""))[0],
            )
            for tensor in tensors
        ]
        _check_fixed(buffers, name, capacity, align_bytes, where)
        begun = time.monotonic()
        packing = pack(buffers, capacity, align_bytes, time_limit_s, seed)
        seconds = time.monotonic() - begun
        room = max(capacity, packing.height_bytes)
        broken = judge(_lives(buffers), packing.offsets, room, align_bytes)
        moved = any(b.fixed not in (None, offset) for b, offset in zip(buffers, packing.offsets, strict=True))
        if moved or broken or (packing.verdict == "packed") != (packing.height_bytes <= capacity):
            raise RuntimeError(f"{name}: the judge refuses the packing: {'; '.join(map(str, broken[:3]))}")
        packed.append(PackedMemory(name, capacity, tensors, packing, seconds))
    return packed


def _lives(buffers: Sequence[Buffer]) -> list[tuple[str, int, int, int]]:
    return [(b.name, b.size_bytes, b.first, b.end) for b in buffers]


def _check_memories(
    fixed: Addresses, lifetimes: Sequence[Lifetime], memories: Sequence[str], where: str
) -> None:
    """InputError where an address is that of a tensor which does not exist, or lies in another memory."""
    lies_in = {(tensor.node, tensor.head): memories[tensor.memory] for tensor in lifetimes}
    for (node, head), (_, memory) in fixed.items():
        found = lies_in.get((node, head), "")
        if not found:
            raise InputError(
                f"{where}: {head} of {node}: expected a tensor that the mapping places, found none"
            )
        if memory not in ("", found):
            raise InputError(
                f"{where}: {head} of {node}: expected an address in {found}, where the mapping has it, found one in"
                f" {memory}"
            )


def _check_fixed(
    buffers: Sequence[Buffer], memory: str, capacity_bytes: int, align_bytes: int, where: str
) -> None:
    """InputError where given addresses share bytes, end above the memory or are not aligned."""
    given = [buffer for buffer in buffers if buffer.fixed is not None]
    broken = judge(_lives(given), [buffer.fixed or 0 for buffer in given], capacity_bytes, align_bytes)
    if broken:
        first, more = broken[0], f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise InputError(
            f"{where}: expected addresses in {memory} that can be kept at --align {align_bytes}, found {first}{more}"
        )


def document(
    problem: Problem,
    mapping: str,
    memories: Sequence[PackedMemory],
    align_bytes: int,
    peaks: Sequence[Peak] = (),
) -> dict[str, Any]:
    """What `allocation.json` has; `mapping` names where the mapping came from."""
    return {
        "kind": "allocation",
        "version": 1,
        **problem.about.names,
        "mapping": mapping,
        "align_bytes": align_bytes,
        "packed": all(memory.packing.verdict == "packed" for memory in memories),
        "memories": [
            {
                "memory": memory.name,
                "capacity_bytes": memory.capacity_bytes,
                "tensors": len(memory.tensors),
                "fullest_bytes": memory.packing.fullest_bytes,
                "height_bytes": memory.packing.height_bytes,
                "packed": memory.packing.verdict == "packed",
                "verdict": memory.packing.verdict,
                "over_bytes": memory.over_bytes,
                "sticking_out": memory.sticking_out,
            }
            for memory in memories
        ],
        "peaks": [{**peak.document, "text": peak.text} for peak in peaks],
        "tensors": allocation_rows(problem, memories),
    }


def allocation_rows(problem: Problem, memories: Sequence[PackedMemory]) -> list[dict[str, Any]]:
    """A row of COLUMNS a tensor, by op and head, under the names of the workload's own file."""
    order = {name: number for number, name in enumerate(problem.space.nodes)}
    placed = [
        (order[tensor.node], problem.space.heads.index(tensor.head), tensor, memory.name, offset)
        for memory in memories
        for tensor, offset in zip(memory.tensors, memory.packing.offsets, strict=True)
    ]
    return [
        {
            "op": tensor.node,
            "head": tensor.head,
            "memory": memory,
            "size_bytes": tensor.size_bytes,
            "first_op": problem.space.nodes[tensor.first],
            "last_op": problem.space.nodes[tensor.last],
            "first_step": tensor.first,
            "last_step": tensor.last,
            "offset_bytes": offset,
        }
        for _, _, tensor, memory, offset in sorted(placed, key=lambda place: place[:2])
    ]


def csv_of(report: dict[str, Any]) -> str:
    """The tensors of a document as CSV, the names of the columns first."""
    return csv_table(COLUMNS, report["tensors"])
