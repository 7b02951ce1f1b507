"""Axes of tensors as (x, y, z) of a workload, which says width, height, channels and keeps the batch apart.

An image [batch, channels, …, height, width] is what convolutions and poolings read and write, and what element-wise
nodes make of it. Everything else keeps the order of its axes: a sequence [batch, length, hidden] is
(length, 1, hidden).
"""

from __future__ import annotations

from math import prod

from workloads.importers.ir import ModelGraph, Shape
from workloads.importers.vocabulary import (
    ACTIVATIONS,
    CONVOLUTIONS,
    ELEMENTWISE,
    GLOBAL_POOLS,
    POOLS,
    SOFTMAXES,
)
from workloads.workload import Shape3

_IMAGE_OPS = (
    CONVOLUTIONS
    | POOLS
    | GLOBAL_POOLS
    | {
        "Resize",
        "Upsample",
        "BatchNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "LRN",
        "DepthToSpace",
    }
)
_KEEPING = (
    frozenset(ELEMENTWISE) | frozenset(ACTIVATIONS) | SOFTMAXES | {"Concat", "Pad", "Identity", "Dropout"}
)


def images(graph: ModelGraph) -> frozenset[str]:
    """Names of the tensors that are images."""
    found: set[str] = set()
    for node in graph.nodes:
        if node.op in _IMAGE_OPS and node.input(0):
            found |= {node.inputs[0], *(name for name in node.outputs if name)}
        elif node.op in _KEEPING and found.intersection(node.inputs):
            rank = max(len(graph.tensors[name].shape or ()) for name in node.inputs if name in found)
            found |= {name for name in node.outputs if name and len(graph.tensors[name].shape or ()) == rank}
    return frozenset(found)


def batch_of(graph: ModelGraph) -> int:
    """The batch size: the first axis of the first input that has two."""
    shapes = (graph.tensors[name].shape or () for name in graph.inputs)
    return max(1, next((shape[0] for shape in shapes if len(shape) > 1), 1))


def xyz(shape: Shape, batch: int, is_image: bool) -> tuple[Shape3, int]:
    """(x, y, z) of one sample, and how many there are (1 where the first axis is not the batch)."""
    if is_image and len(shape) > 2:
        width = shape[-1]
        return (width, prod(shape[2:-1]), shape[1]), max(1, shape[0])
    has_batch = len(shape) > 1 and shape[0] == batch
    axes = shape[1:] if has_batch else shape
    samples = batch if has_batch else 1
    if len(axes) < 2:
        return (1, 1, axes[0] if axes else 1), samples
    if len(axes) == 2:
        return (axes[0], 1, axes[1]), samples
    return (prod(axes[:-2]), axes[-2], axes[-1]), samples
