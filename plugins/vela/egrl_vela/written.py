"""What Vela wrote in a folder: the program, its summary, its cycles per layer; and which ops of it run on the CPU.

Source: the schema of TensorFlow Lite (`schema.fbs`), for `Model`, `OperatorCode`, `SubGraph` and `Operator`;
FlatBuffers, "Internals" (flatbuffers.dev). Columns are named as in Vela 5.2 (`stats_writer.py`).
"""

from __future__ import annotations

import csv
import hashlib
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NPU = "custom ethos-u"
"""The op in which Vela wraps what runs on the NPU."""
MEMORIES = ("dram", "off_chip_flash", "on_chip_flash")
"""Memories beside SRAM, by the prefix of their columns."""
KIB = 1024


class Unreadable(ValueError):
    """Vela wrote files that are not those of a compile, or none."""


@dataclass(frozen=True)
class Layer:
    """Cycles of one op of the compiled network, by Vela's estimate."""

    name: str
    op: str
    cycles: float


@dataclass(frozen=True)
class Written:
    """A program that Vela wrote, and what Vela says of it.

    Attributes:
        cycles: of one inference, by Vela's estimate.
        sram_bytes: SRAM that the program uses.
        cache_bytes: SRAM that it was allowed to use (`arena_cache_size`).
        traffic_bytes: bytes moved to and from each of `MEMORIES`.
        outside: the ops that run on the CPU, sorted: the number of a builtin, or "custom NAME".
        digest: SHA-256 of the program.
        layers: in Vela's order; none where Vela wrote no such file.
    """

    cycles: float
    sram_bytes: int
    cache_bytes: int
    traffic_bytes: dict[str, int]
    outside: list[str]
    digest: str
    layers: list[Layer]

    def document(self) -> dict[str, Any]:
        """As an object for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Written:
        """From such an object. KeyError or TypeError where it is another."""
        layers = [Layer(**layer) for layer in document["layers"]]
        return cls(**{**document, "layers": layers})


def program(folder: Path) -> Path:
    """The compiled network in Vela's output folder. Unreadable where there is not exactly one."""
    return _one(folder, "*_vela.tflite")


def read(folder: Path) -> Written:
    """What a compile left in its folder. Unreadable where a file is missing, or lacks what is looked for."""
    data = program(folder).read_bytes()
    rows = _table(_one(folder, "*_summary_*.csv"))
    if len(rows) != 2:
        raise Unreadable(f"expected a summary of one network, found {max(0, len(rows) - 1)}")
    summary, layers = dict(zip(*rows, strict=False)), _layers(folder)
    outside = sorted(op for op in operators(data) if op != NPU)
    try:
        traffic = {memory: round(float(summary[f"{memory}_total_bytes"])) for memory in MEMORIES}
        return Written(
            float(summary["cycles_total"]),
            round(float(summary["sram_memory_used"]) * KIB),
            round(float(summary["arena_cache_size"]) * KIB),
            traffic,
            outside,
            hashlib.sha256(data).hexdigest(),
            layers,
        )
    except KeyError as error:
        raise Unreadable(f"the summary has no column {error}") from error
    except ValueError as error:
        raise Unreadable(f"the summary cannot be read: {error}") from error


def operators(data: bytes) -> list[str]:
    """The ops of all subgraphs of a TensorFlow Lite model, in its order. Unreadable if the bytes are none."""
    try:
        model = _follow(data, 0)
        codes = [_code(data, table) for table in _tables(data, model, 1)]
        graphs = _tables(data, model, 2)
        return [codes[_number(data, op, 0, "I")] for graph in graphs for op in _tables(data, graph, 3)]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Unreadable(f"the program is no TensorFlow Lite model: {error}") from error


def _code(data: bytes, table: int) -> str:
    if name := _field(data, table, 1):
        at = _follow(data, name)
        (length,) = struct.unpack_from("<I", data, at)
        return f"custom {data[at + 4 : at + 4 + length].decode()}"
    return str(max(_number(data, table, 0, "b"), _number(data, table, 3, "i")))  # the first one ends at 127


def _follow(data: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table lies; 0 where it has its default."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, vtable)
    if 4 + 2 * number >= size:
        return 0
    (distance,) = struct.unpack_from("<H", data, vtable + 4 + 2 * number)
    return table + distance if distance else 0


def _number(data: bytes, table: int, number: int, form: str) -> int:
    at = _field(data, table, number)
    return int(struct.unpack_from("<" + form, data, at)[0]) if at else 0


def _tables(data: bytes, table: int, number: int) -> list[int]:
    at = _field(data, table, number)
    if not at:
        return []
    start = _follow(data, at)
    (length,) = struct.unpack_from("<I", data, start)
    if start + 4 * length > len(data):
        raise IndexError(f"{length} tables at {start} of {len(data)} bytes")
    return [_follow(data, start + 4 + 4 * n) for n in range(length)]


def _layers(folder: Path) -> list[Layer]:
    """Cycles per op. The cores call other columns otherwise; one calls two the same, and has a head per subgraph."""
    files = list(folder.glob("*_per-layer.csv"))
    if not files:
        return []
    header, *rows = _table(files[0]) or [[]]
    if missing := {"Name", "NNG Operator", "Op Cycles"} - set(header):
        raise Unreadable(f"the cycles per layer have no column {', '.join(sorted(missing))}")
    name, op, cycles = (header.index(column) for column in ("Name", "NNG Operator", "Op Cycles"))
    try:
        return [Layer(row[name], row[op], float(row[cycles])) for row in rows if row != header]
    except (ValueError, IndexError) as error:
        raise Unreadable(f"the cycles per layer cannot be read: {error}") from error


def _one(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise Unreadable(f"Vela wrote {len(found) or 'no'} {pattern}")
    return found[0]


def _table(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        return [row for row in csv.reader(file) if row]
