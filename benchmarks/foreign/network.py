"""What a foreign board knows of a network: its workload file, read by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Network:
    """N ops in execution order; the inputs of op i are `source[start[i]:start[i + 1]]`, float64 bytes each.

    Attributes:
        names: of the ops.
        kind: int64 [N], position among the sorted kinds; `kinds` are those.
        macs, vectors: float64 [N], multiply-accumulates and element operations.
        weight, gathered, output: float64 [N], bytes of the weight, read of it, written.
        start, source: int64 [N + 1] and [E].
        read: float64 [E].
        last: int64 [N], the last op that reads the output.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    kind: Ints
    macs: Floats
    vectors: Floats
    weight: Floats
    gathered: Floats
    output: Floats
    start: Ints
    source: Ints
    read: Floats
    last: Ints


def read_network(path: Path) -> Network:
    """The network of a workload file (`egrl import … -o workload.json`)."""
    ops = json.loads(path.read_text())["ops"]
    number = {op["name"]: i for i, op in enumerate(ops)}
    kinds = tuple(sorted({op["kind"] for op in ops}))
    start, source, read = [0], [], []
    last = list(range(len(ops)))
    for i, op in enumerate(ops):
        for edge in op.get("inputs", []):
            name, size = (edge, None) if isinstance(edge, str) else (edge["source"], edge.get("read_bytes"))
            producer = number[name]
            source.append(producer)
            read.append(float(ops[producer].get("output_bytes", 0) if size is None else size))
            last[producer] = max(last[producer], i)
        start.append(len(source))
    gemms = [op.get("gemm") for op in ops]
    macs = [float(g["groups"] * g["rows"] * g["cols"] * g["reduction"]) if g else 0.0 for g in gemms]

    def column(key: str) -> Floats:
        return np.array([float(op.get(key, 0)) for op in ops])

    weight = column("weight_bytes")
    gathered = np.array(
        [float(op.get("weight_read_bytes", op.get("weight_bytes", 0))) * op.get("steps", 1) for op in ops]
    )
    return Network(
        names=tuple(number),
        kinds=kinds,
        kind=np.array([kinds.index(op["kind"]) for op in ops], np.int64),
        macs=np.array(macs),
        vectors=column("vector_ops"),
        weight=weight,
        gathered=gathered,
        output=column("output_bytes"),
        start=np.array(start, np.int64),
        source=np.array(source, np.int64),
        read=np.array(read),
        last=np.array(last, np.int64),
    )
