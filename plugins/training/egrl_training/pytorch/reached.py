"""The modules and tensors that a function to be compiled refers to."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch


def tensors_of(modules: Sequence[torch.nn.Module]) -> list[torch.Tensor]:
    """Parameters and buffers of modules; each storage once."""
    tensors = [t for module in modules for t in (*module.parameters(), *module.buffers())]
    dense = [tensor for tensor in tensors if tensor.layout is torch.strided]
    return list({tensor.untyped_storage().data_ptr(): tensor for tensor in dense}.values())


DEPTH = 4
"""How far objects within objects are followed."""
MOST_OBJECTS = 20_000


def modules_of(*roots: Any) -> list[torch.nn.Module]:
    """The modules that functions and objects lead to: by closures, names, defaults, attributes and containers.

    Modules within another are not named by themselves. What lies deeper than `DEPTH` is not found.
    """
    found: dict[int, torch.nn.Module] = {}
    seen: dict[int, Any] = {}
    waiting = [(root, 0) for root in roots]
    while waiting and len(seen) < MOST_OBJECTS:
        each, depth = waiting.pop()
        if id(each) in seen or depth > DEPTH:
            continue
        seen[id(each)] = each
        if isinstance(each, torch.nn.Module):
            found[id(each)] = each
        else:
            waiting += [(within, depth + 1) for within in _within(each)]
    inner = {id(child) for module in found.values() for child in module.modules() if child is not module}
    return [module for key, module in found.items() if key not in inner]


def _within(each: Any) -> Iterator[Any]:
    """What an object, a container or a function directly leads to."""
    if isinstance(each, Mapping):
        yield from each.values()
    elif isinstance(each, list | tuple | set | frozenset):
        yield from each
    elif isinstance(each, functools.partial):
        yield from (each.func, each.args, each.keywords)
    elif callable(each) and hasattr(inspect.unwrap(each), "__code__"):
        function: Any = inspect.unwrap(each)
        yield from (getattr(each, "__self__", None), function.__defaults__, function.__kwdefaults__)
        names = getattr(function, "__globals__", {})
        yield from (names[name] for name in function.__code__.co_names if name in names)
        for cell in getattr(function, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # a name that has no value yet
                yield cell.cell_contents
    elif not isinstance(each, type) and not inspect.ismodule(each):
        yield from vars(each).values() if hasattr(each, "__dict__") else ()
