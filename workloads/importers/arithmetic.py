"""Arithmetic on small constants: what models compute shapes, masks and indices with.

Only a fixed list of harmless ops is computed, and only up to `MAX_ELEMENTS` elements, so that no file can make the
importer compute for long or take much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.importers.ir import Node

MAX_ELEMENTS = 4096
"""Elements of a tensor whose value is followed."""

Array = NDArray[Any]

_BINARY: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mod": np.mod,
    "Pow": np.power,
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "Identity": np.asarray,
    "Neg": np.negative,
    "Abs": np.abs,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.round,
    "Sqrt": np.sqrt,
    "Not": np.logical_not,
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
}


def evaluate(node: Node, inputs: Sequence[Array | None], cast: Mapping[int, Any]) -> list[Array] | None:
    """The outputs of a node whose inputs [None: left out] are known; None where that is not to be had cheaply.

    `cast` gives NumPy's type for the number of a type in the file.
    """
    if any(value is not None and value.size > MAX_ELEMENTS for value in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            found = _evaluate(node, inputs, cast)
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError, ZeroDivisionError):
        return None
    if found is None or any(value.size > MAX_ELEMENTS or value.dtype == object for value in found):
        return None
    return found


def _evaluate(node: Node, inputs: Sequence[Array | None], cast: Mapping[int, Any]) -> list[Array] | None:
    op, given = node.op, [value for value in inputs if value is not None]
    if op in _BINARY and len(given) == 2:
        return [np.asarray(_BINARY[op](given[0], given[1]))] if _fits(given) else None
    if op == "Div" and len(given) == 2 and _fits(given):
        whole = all(np.issubdtype(value.dtype, np.integer) for value in given)
        return [
            np.asarray(np.trunc(given[0] / given[1]).astype(given[0].dtype) if whole else given[0] / given[1])
        ]
    if op == "Where" and len(given) == 3 and _fits(given):
        return [np.where(given[0].astype(bool), given[1], given[2])]
    if op in _UNARY and given:
        return [np.asarray(_UNARY[op](given[0]))]
    if op == "Cast" and given:
        return [given[0].astype(cast[node.integer("to", 0)])]
    if op in _REDUCTIONS and given:
        axes = tuple(int(v) for v in given[1].ravel()) if len(given) > 1 else node.integers("axes") or None
        return [np.asarray(_REDUCTIONS[op](given[0], axis=axes, keepdims=bool(node.integer("keepdims", 1))))]
    return _rearrange(node, inputs, given)


def _rearrange(node: Node, inputs: Sequence[Array | None], given: list[Array]) -> list[Array] | None:
    """Ops that move or pick elements, whose result is no larger than what is given."""
    op = node.op
    if op == "Concat" and given:
        return [np.concatenate(given, axis=node.integer("axis", 0))]
    if op == "Gather":
        return [np.take(given[0], given[1].astype(np.int64), axis=node.integer("axis", 0))]
    if op == "Transpose":
        return [np.transpose(given[0], node.integers("perm") or None)]
    # Axes are an input in newer versions of the format, an attribute in older ones.
    if op == "Squeeze":
        axes = tuple(int(v) for v in given[1]) if len(given) > 1 else node.integers("axes")
        return [np.squeeze(given[0], axis=axes or None)]
    if op == "Unsqueeze":
        axes = tuple(int(v) for v in given[1].ravel()) if len(given) > 1 else node.integers("axes")
        return [np.expand_dims(given[0], axes)]
    if op == "Reshape":
        return [given[0].reshape([int(v) for v in given[1]])]
    if op == "Slice":
        return [_slice(node, inputs)]
    if op == "Split":
        axis, parts = node.integer("axis", 0), len(node.outputs)
        size = -(-given[0].shape[axis] // parts)
        sizes = given[1].ravel() if len(given) > 1 else node.integers("split") or [size] * parts
        return np.split(given[0], np.cumsum(sizes)[:-1], axis)
    return _fill(node, given)


def _fill(node: Node, given: list[Array]) -> list[Array] | None:
    """Ops that make arrays of a size that a value states: the size is checked before there is an array."""
    if node.op == "Range":
        start, limit, step = (value.item() for value in given)
        # Written so that a length that is not a number is refused, too.
        if step == 0 or not abs((limit - start) / step) <= MAX_ELEMENTS:
            return None
        return [np.arange(start, limit, step, dtype=given[0].dtype)]
    if node.op == "Expand":
        shape = np.broadcast_shapes(given[0].shape, tuple(int(v) for v in given[1]))
        return [np.broadcast_to(given[0], shape)] if prod(shape) <= MAX_ELEMENTS else None
    if node.op == "ConstantOfShape":
        shape = tuple(int(v) for v in given[0])
        if prod(shape) > MAX_ELEMENTS:
            return None
        value = np.asarray(node.attributes.get("value", np.zeros(1, np.float32))).ravel()
        return [np.full(shape, value[0])]
    return None


def _slice(node: Node, inputs: Sequence[Array | None]) -> Array:
    data = inputs[0]
    if data is None:
        raise ValueError("data: expected an array, received None")
    lists: list[list[int] | None] = []
    for position, name in enumerate(("starts", "ends", "axes", "steps"), start=1):
        value = inputs[position] if position < len(inputs) else None
        listed = [int(v) for v in value.ravel()] if value is not None else list(node.integers(name))
        lists.append(listed or None)
    starts, ends, axes, steps = lists
    if starts is None or ends is None:
        raise ValueError("starts, ends: expected integers, received none")
    index = [slice(None)] * data.ndim
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        step = steps[i] if steps else 1
        axis = axes[i] if axes else i
        stop: int | None = end
        # Backwards to the very first element: -1 would count from the end again, so that only None says it.
        if step < 0 and end < -data.shape[axis]:
            stop = None
        index[axis] = slice(start, stop, step)
    return data[tuple(index)]


def _fits(values: Sequence[Array]) -> bool:
    return prod(np.broadcast_shapes(*(value.shape for value in values))) <= MAX_ELEMENTS
