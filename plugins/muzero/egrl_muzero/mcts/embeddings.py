"""States of all nodes of all trees: any tree of arrays or tensors, gathered and written for a whole batch at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def map_leaves(function: Callable[..., Any], *trees: Any) -> Any:
    """The function of the leaves of equally built trees, in a tree built like the first.

    Tuples (named ones too), lists, dicts and dataclasses are inner nodes, whatever else is a leaf.

    Raises:
        ValueError: the trees are built differently.
    """
    first = trees[0]
    if isinstance(first, tuple | list | Mapping) or (is_dataclass(first) and not isinstance(first, type)):
        for other in trees[1:]:
            if type(other) is not type(first) or _names(other) != _names(first):
                raise ValueError(f"embedding: expected {_form(first)}, received {_form(other)}")
        if isinstance(first, Mapping):
            return type(first)(
                {name: map_leaves(function, *(tree[name] for tree in trees)) for name in first}  # type: ignore[call-arg]
            )
        if isinstance(first, tuple | list):
            parts = [map_leaves(function, *part) for part in zip(*trees, strict=True)]
            return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
        return type(first)(
            **{name: map_leaves(function, *(getattr(t, name) for t in trees)) for name in _names(first)}
        )
    return function(*trees)


def _names(tree: Any) -> list[Any]:
    if isinstance(tree, Mapping):
        return list(tree)
    return list(range(len(tree))) if isinstance(tree, tuple | list) else [f.name for f in fields(tree)]


def _form(tree: Any) -> str:
    inner = isinstance(tree, tuple | list | Mapping) or is_dataclass(tree)
    return f"{type(tree).__name__} of {_names(tree)}" if inner else type(tree).__name__


class Embeddings:
    """The embeddings of B trees with up to N nodes, N first so that all trees' new nodes lie side by side."""

    def __init__(self, root: Any, batch: int, nodes: int) -> None:
        self._batch = batch
        self._stored = map_leaves(lambda leaf: _room(leaf, batch, nodes), root)
        map_leaves(lambda kept, given: _set(kept, 0, given), self._stored, root)

    def gather(self, rows: NDArray[np.int64], node: NDArray[np.int64]) -> Any:
        """Copies of the states, one node per row, [len(rows), …]."""
        place = node * self._batch + rows
        return map_leaves(lambda kept: _take(kept, place), self._stored)

    def write(self, rows: NDArray[np.int64], node: int, embedding: Any) -> None:
        """Keep the states [len(rows), …] of nodes with the same number."""
        where = node if len(rows) == self._batch else (node, rows)
        map_leaves(lambda kept, given: _set(kept, where, given), self._stored, embedding)

    def all(self) -> Any:
        """Views [B, N, …]; what lies at numbers without a node is undefined."""
        return map_leaves(lambda kept: kept.swapaxes(0, 1), self._stored)


def _room(leaf: Any, batch: int, nodes: int) -> Any:
    shape = tuple(getattr(leaf, "shape", ()))
    if shape[:1] != (batch,):
        raise ValueError(
            f"embedding: expected arrays [{batch}, …], received {type(leaf).__name__} {list(shape)}"
        )
    room = (nodes, *shape)
    return np.empty(room, leaf.dtype) if isinstance(leaf, np.ndarray) else leaf.detach().new_empty(room)


def _set(kept: Any, where: Any, given: Any) -> None:
    count = kept.shape[1] if isinstance(where, int) else len(where[1])
    expected = (count, *kept.shape[2:])
    same_kind = isinstance(given, np.ndarray) is isinstance(kept, np.ndarray) and hasattr(given, "dtype")
    if not same_kind or tuple(given.shape) != expected or given.dtype != kept.dtype:
        received = f"{type(given).__name__} {getattr(given, 'dtype', '')} {list(getattr(given, 'shape', ()))}"
        wanted = f"{type(kept).__name__} {kept.dtype} {list(expected)}"
        raise ValueError(f"embedding: expected {wanted}, received {received}")
    kept[where] = given if isinstance(kept, np.ndarray) else given.detach()


def _take(kept: Any, place: NDArray[np.int64]) -> Any:
    flat = kept.reshape(kept.shape[0] * kept.shape[1], *kept.shape[2:])
    if isinstance(kept, np.ndarray):
        return flat.take(place, axis=0)
    import torch

    return flat.index_select(0, torch.from_numpy(place).to(kept.device))
