"""What a subgraph needs at each moment, for any tile: the tables that the cost kernel reads.

A subgraph is told by its output op and by which other tensors are kept; it holds all ops between. Each range of rows or
columns of a slice is moved by the tile (TILE), by the slice of the sums (DEPTH), or by nothing (WHOLE).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsys2026.instance import Instance

WHOLE, TILE, DEPTH = 0, 1, 2
FED, LAST, SUMMED = 0, 1, 2
"""When an op runs: where a matrix product needs it; at the last moment; a slice of its sums at each moment (R3, R4)."""


class Plan(NamedTuple):
    """A subgraph as the kernel reads it.

    Attributes:
        ops: its ops, ascending.
        external: the tensors that it reads from outside, ascending.
        loads: int64 [E, 7]: tensor, rows, columns, what moves the rows, what moves the columns, the depth of the sums
            that need the slice (0: none), and 1 if the last moment needs it.
        runs: int64 [C, 10]: op, 1 for a matrix product, rows, columns, what moves the rows, what moves the columns,
            depth of the sums that need it, its own depth, when it runs, its base cost.
        width, height: of the output.
        sink_matmul: True if the output is that of a matrix product.
        roots: how many matrix products sum up a tile.
        depths: int64 [D], different depths, ascending.
    """

    ops: tuple[int, ...]
    external: tuple[int, ...]
    loads: NDArray[np.int64]
    runs: NDArray[np.int64]
    width: int
    height: int
    sink_matmul: bool
    roots: int
    depths: NDArray[np.int64]


def build_plan(instance: Instance, sink: int, inside: frozenset[int]) -> Plan:
    """The plan of the subgraph with the ops `inside`, of which `sink` has the output."""
    maker = _Maker(instance, inside)
    maker.finish(instance.outputs[sink])
    out = instance.outputs[sink]
    loads = [[*key, depth, last] for key, (depth, last) in sorted(maker.loads.items())]
    runs = [
        [*_run_head(instance, key), depth, *_run_tail(instance, key)] for key, depth in maker.runs.items()
    ]
    depths = sorted({instance.depth(op) for op, _, _, when in maker.runs if when == SUMMED})
    return Plan(
        tuple(sorted(inside)),
        tuple(sorted({key[0] for key in maker.loads})),
        np.array(loads, np.int64).reshape(-1, 7),
        np.array(runs, np.int64).reshape(-1, 10),
        instance.widths[out],
        instance.heights[out],
        instance.matmul[sink],
        sum(when == SUMMED for _, _, _, when in maker.runs),
        np.array(depths, np.int64),
    )


def _run_head(instance: Instance, key: tuple[int, int, int, int]) -> list[int]:
    op, rows, columns, _ = key
    out = instance.outputs[op]
    return [op, int(instance.matmul[op]), instance.heights[out], instance.widths[out], rows, columns]


def _run_tail(instance: Instance, key: tuple[int, int, int, int]) -> list[int]:
    return [instance.depth(key[0]), key[3], instance.base_costs[key[0]]]


class _Maker:
    """Walks from the output to the tensors outside, once for each way in which a tensor is needed."""

    def __init__(self, instance: Instance, inside: frozenset[int]) -> None:
        self.instance, self.inside = instance, inside
        self.loads: dict[tuple[int, int, int, int, int], tuple[int, int]] = {}
        self.runs: dict[tuple[int, int, int, int], int] = {}

    def load(self, tensor: int, rows: int, columns: int, depth: int, last: int) -> None:
        """A slice is needed by sums of a depth, or by the last moment."""
        key = (tensor, self.instance.heights[tensor], self.instance.widths[tensor], rows, columns)
        known = self.loads.get(key, (0, 0))
        self.loads[key] = (max(known[0], depth), max(known[1], last))

    def finish(self, tensor: int) -> None:
        """A tile of a tensor is needed at the last moment."""
        op = self.instance.producer[tensor]
        if op not in self.inside:
            self.load(tensor, TILE, TILE, 0, 1)
            return
        matmul = self.instance.matmul[op]
        key = (op, TILE, TILE, SUMMED if matmul else LAST)
        if key in self.runs:
            return
        depth = self.instance.depth(op) if matmul else 0
        self.runs[key] = depth
        if not matmul:
            for each in self.instance.inputs[op]:
                self.finish(each)
            return
        left, right = self.instance.inputs[op]
        self.feed(left, TILE, DEPTH, depth)
        self.feed(right, DEPTH, TILE, depth)

    def feed(self, tensor: int, rows: int, columns: int, depth: int) -> None:
        """A slice is needed by a matrix product at each moment of sums of that depth."""
        op = self.instance.producer[tensor]
        if op not in self.inside:
            self.load(tensor, rows, columns, depth, 0)
            return
        key = (op, rows, columns, FED)
        if self.runs.get(key, 0) >= depth:
            return
        self.runs[key] = depth
        if not self.instance.matmul[op]:
            for each in self.instance.inputs[op]:
                self.feed(each, rows, columns, depth)
            return
        left, right = self.instance.inputs[op]
        self.feed(left, rows, WHOLE, depth)
        self.feed(right, WHOLE, columns, depth)
