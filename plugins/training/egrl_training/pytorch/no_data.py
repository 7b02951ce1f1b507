"""Networks and inputs without data: tensors that know their sizes, and take no memory.

Source: `torch/_subclasses/fake_tensor.py`. Whatever is built under a `FakeTensorMode` has shapes, strides, types and
devices alone. `torch.compile` captures it like the real thing, with the same graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from egrl.measure.board import excerpt
from egrl_training.pytorch.counted import tensors_of
from egrl_training.pytorch.step_file import load
from workloads.errors import InputError


@contextlib.contextmanager
def without_data(tables: bool = False) -> Iterator[None]:
    """New tensors have no data; with `tables` they meet others that have."""
    # `Module.to` swaps what has no data, and refuses tensors with weak references, which each parameter without data
    # has: of its own making, to nothing that a swap could harm
    unseen = SimpleNamespace(getweakrefs=lambda tensor: [])
    mode = FakeTensorMode(allow_non_fake_inputs=tables)
    with mode, mock.patch.object(torch.utils, "weakref", unseen):
        yield


def load_without_data(file: str) -> tuple[Callable[..., torch.Tensor], Sequence[Any]]:
    """The loss function and the inputs of a file (`step_file.load`), without data.

    InputError if the file defines no `build`, or if that reads data.
    """
    try:
        with without_data():
            return load(file)
    except InputError:
        raise
    except Exception as error:  # whatever the user's code, or PyTorch, raises on tensors without data
        raise InputError(
            f"{file}: expected build() to run on tensors without data (no weights that are loaded, no values that are"
            f" read), found {type(error).__name__}: {excerpt(str(error))}"
        ) from error


def batch_of(inputs: Any, dim: int) -> int:
    """The size that the tensors among the inputs have in common in a dimension. InputError if there is none, or 0."""
    sizes = {tensor.shape[dim] for tensor in tensors_of(inputs) if tensor.dim() > dim}
    if len(sizes) != 1 or 0 in sizes:
        found = ", ".join(map(str, sorted(sizes))) or "no such dimension"
        raise InputError(f"batch_dim: expected inputs of one size above 0 in dimension {dim}, found {found}")
    return int(sizes.pop())


def with_batch(inputs: Any, dim: int, batch: int) -> Any:
    """The inputs with another size in a dimension, without data; those that shared memory share it again."""
    shared: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors_of(inputs):
        shared.setdefault(tensor.untyped_storage()._cdata, []).append(tensor)
    made: dict[int, torch.Tensor] = {}

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() <= dim:
            return tensor
        shape = [*tensor.shape[:dim], batch, *tensor.shape[dim + 1 :]]
        together = shared[tensor.untyped_storage()._cdata]
        if not _grows(together, dim):
            strides = _dense(shape, tensor.stride())
            new = torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device)
            return new.requires_grad_(tensor.requires_grad)
        key, steps = id(together), tensor.stride(dim) * (batch - tensor.shape[dim])
        if key not in made:
            held = tensor.untyped_storage().nbytes() // tensor.element_size()
            made[key] = torch.empty(held + steps, dtype=tensor.dtype, device=tensor.device)
        new = made[key].as_strided(shape, tensor.stride(), tensor.storage_offset())
        return new.requires_grad_(tensor.requires_grad)

    with without_data():
        return tree_map_only(torch.Tensor, resized, inputs)


def _grows(together: Sequence[torch.Tensor], dim: int) -> bool:
    """True if tensors of one storage show parts of it, and more of a dimension is more of the same behind them."""
    steps = {
        (tensor.stride(dim), tensor.shape[dim], tensor.dtype) for tensor in together if tensor.dim() > dim
    }
    parts = any(
        tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes() for tensor in together
    )
    outer = all(tensor.dim() > dim and tensor.stride(dim) == max(tensor.stride()) for tensor in together)
    return (parts or len(together) > 1) and outer and len(steps) == 1


def _dense(shape: Sequence[int], like: Sequence[int]) -> list[int]:
    """Strides of a tensor without gaps whose dimensions lie in the order of other strides."""
    strides, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda dim: (like[dim], -dim)):
        strides[dim], step = step, step * max(shape[dim], 1)
    return strides
