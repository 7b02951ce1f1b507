"""The state that a step may change is afterwards what it was before."""

from __future__ import annotations

import contextlib
import io
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import CellType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

CONTAINERS = (dict, list, set, deque)
OPTIM = "torch.optim."
"""Where those of PyTorch's own objects come from that users' steps change: optimizers, schedules, averages."""


@contextlib.contextmanager
def put_back(used: Sequence[Any]) -> Iterator[None]:
    """Undo, at the end, what changes of objects and of random states.

    Of modules that are parameters, buffers, gradients and attributes; of other objects their attributes; and what is in
    containers, closures, tensors and generators of random numbers.
    """
    owners = _unique(owner for each in used if isinstance(each, nn.Module) for owner in each.modules())
    others = [each for each in used if not isinstance(each, nn.Module) and _is_of_user(each)]
    attributes = [(owner, _copies(owner.__dict__)) for owner in owners]
    attributes += [(each, dict(each.__dict__)) for each in others if hasattr(each, "__dict__")]
    contents = [(each, each.copy()) for each in used if _is_container(each)]
    cells = [(each, each.cell_contents) for each in used if isinstance(each, CellType) and _is_filled(each)]
    arrays = [(each, each.copy()) for each in used if isinstance(each, np.ndarray) and each.flags.writeable]
    chance = [back for each in (random, np.random, *used) if (back := _state_put_back(each))]
    with torch.random.fork_rng(), _data_put_back(_tensors_of(owners, used)):
        try:
            yield
        finally:
            for owner, kept in attributes:
                owner.__dict__.clear()
                owner.__dict__.update(_copies(kept) if isinstance(owner, nn.Module) else kept)
            for container, content in contents:
                container.clear()
                (container.extend if isinstance(content, list | deque) else container.update)(content)
            for cell, value in cells:
                cell.cell_contents = value
            for array, numbers in arrays:
                array[...] = numbers
            for back in chance:
                back()


@contextlib.contextmanager
def _data_put_back(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Tensors have their shapes, their data and their gradients again at the end."""
    gradients = [tensor.grad if tensor.is_leaf else None for tensor in tensors]
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage() for t in tensors if t.layout is torch.strided
    }
    values: list[tuple[Any, Any]] = [(storage, _clone(storage)) for storage in storages.values()]
    values += [(grad, grad.detach().clone()) for grad in gradients if grad is not None]
    shapes = [(tensor, tuple(tensor.shape), tensor.data) for tensor in tensors]
    try:
        yield
    finally:
        for tensor, shape, data in shapes:
            if tuple(tensor.shape) != shape:
                tensor.data = data
        with torch.no_grad():
            for thing, value in values:
                thing.copy_(value)
        for tensor, grad in zip(tensors, gradients, strict=True):
            if tensor.is_leaf:
                tensor.grad = grad


def _tensors_of(owners: Sequence[nn.Module], used: Sequence[Any]) -> list[Tensor]:
    """The tensors among objects, and those of modules: parameters, buffers, and what attributes hold."""
    held = tree_leaves([list(_copies(owner.__dict__).values()) for owner in owners])
    named = (tensor for owner in owners for tensor in (*owner.parameters(), *owner.buffers()))
    return [each for each in _unique([*named, *held, *used]) if issubclass(type(each), Tensor)]


def _state_put_back(each: Any) -> Callable[[], object] | None:
    """What gives a generator of random numbers, or the module that has one, its state again; None for others."""
    if each is random or isinstance(each, random.Random):
        return partial(each.setstate, each.getstate())
    if each is np.random or isinstance(each, np.random.RandomState):
        return partial(each.set_state, each.get_state())
    if isinstance(each, torch.Generator):
        return partial(each.set_state, each.get_state())
    if isinstance(each, np.random.Generator):
        return partial(setattr, each.bit_generator, "state", each.bit_generator.state)
    return None


def passing(used: Iterable[Any]) -> Any:
    """An iterator among objects, which cannot be put back where it was; None if there is none."""
    return next(
        (each for each in used if isinstance(each, Iterator) and not isinstance(each, io.IOBase)), None
    )


def _is_container(each: Any) -> bool:
    """True for containers whose content is all of them; other kinds may keep count of it."""
    return isinstance(each, CONTAINERS) and type(each).__module__ in ("builtins", "collections")


def _is_of_user(each: Any) -> bool:
    """False for objects of PyTorch, which know what is compiled, unless they belong to optimizing."""
    module = type(each).__module__
    if isinstance(each, type):
        return False
    known = module.partition(".")[0] in ("torch", "builtins", "collections", "functools")
    return not known or module.startswith(OPTIM)


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # a name that has no value yet
        return False


def _clone(storage: Any) -> Any:
    return storage.clone()


def _copies(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a module with copies of tables and lists, which may be changed."""
    # of a weak proxy whose object is gone only the type may be asked for
    kinds = dict | list | set
    return {
        key: value.copy() if issubclass(type(value), kinds) else value for key, value in attributes.items()
    }


def _unique(things: Iterable[Any]) -> list[Any]:
    return list({id(each): each for each in things}.values())
