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


class Made(NamedTuple):
    """A subgraph as the kernels read it.

    Attributes:
        loads: int64 [E, 7]: tensor, rows, columns, what moves the rows, what moves the columns, the depth of the sums
            that need the slice (0: none), and 1 if the last moment needs it.
        runs: int64 [C, 10]: op, 1 for a matrix product, rows, columns, what moves the rows, what moves the columns,
            depth of the sums that need it, its own depth, when it runs, its base cost.
        depths: int64 [D], different depths of the sums over a tile, ascending.
        shape: int64 [4], width and height of the output, 1 if its op is a matrix product, how many products sum up.
        chip: int64 [5], capacity, bandwidth, native columns and rows, 1 if tiles have to divide.
        sizes: int64 [T], elements of each tensor.
    """

    loads: NDArray[np.int64]
    runs: NDArray[np.int64]
    depths: NDArray[np.int64]
    shape: NDArray[np.int64]
    chip: NDArray[np.int64]
    sizes: NDArray[np.int64]


class Plan(NamedTuple):
    """A subgraph: its ops, and the tensors that it reads from outside, both ascending; and all else."""

    ops: tuple[int, ...]
    external: tuple[int, ...]
    made: Made

    @property
    def width(self) -> int:
        """Columns of the output."""
        return int(self.made.shape[0])

    @property
    def height(self) -> int:
        """Rows of the output."""
        return int(self.made.shape[1])


def build_plan(
    instance: Instance, sink: int, inside: frozenset[int], chip: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Plan:
    """The plan of the subgraph with the ops `inside`, of which `sink` has the output; with `Made`'s chip and sizes."""
    maker = _Maker(instance, inside)
    maker.finish(instance.outputs[sink])
    out = instance.outputs[sink]
    loads = [[*key, depth, last] for key, (depth, last) in sorted(maker.loads.items())]
    runs = []
    for (op, rows, columns, when), depth in maker.runs.items():
        tensor, own = instance.outputs[op], (instance.depth(op), when, instance.base_costs[op])
        sides = (instance.heights[tensor], instance.widths[tensor], rows, columns)
        runs.append((op, instance.matmul[op], *sides, depth, *own))
    roots = [instance.depth(op) for op, _, _, when in maker.runs if when == SUMMED]
    made = Made(
        np.array(loads, np.int64).reshape(-1, 7),
        np.array(runs, np.int64).reshape(-1, 10),
        np.array(sorted(set(roots)), np.int64),
        np.array([instance.widths[out], instance.heights[out], instance.matmul[sink], len(roots)], np.int64),
        chip,
        sizes,
    )
    return Plan(tuple(sorted(inside)), tuple(sorted({key[0] for key in maker.loads})), made)


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
