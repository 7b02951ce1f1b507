"""The modules and tensors that a function to be compiled refers to."""

from __future__ import annotations

import contextlib
import functools
import inspect
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch


def tensors_in(modules: Sequence[torch.nn.Module]) -> list[torch.Tensor]:
    """Parameters and buffers of modules."""
    return [t for module in modules for t in (*module.parameters(), *module.buffers())]


_HELD = ("_parameters", "_buffers", "_modules")
"""Where a module has its tensors, and the modules within it."""
_ELSEWHERE = (torch.nn.Module, torch.optim.Optimizer, functools.partial)
"""What is no attribute's own, whose tensors count elsewhere or not at all."""
DEPTH = 4
"""How far objects within objects are followed."""
MOST_OBJECTS = 20_000


def modules_of(*roots: Any) -> list[torch.nn.Module]:
    """The modules that functions and objects lead to (`reached`); those within another are not named by themselves."""
    return modules_among(reached(*roots))


def modules_among(objects: Sequence[Any]) -> list[torch.nn.Module]:
    """The modules among objects, without those within another."""
    found = {id(each): each for each in objects if isinstance(each, torch.nn.Module)}
    inner = {id(child) for module in found.values() for child in module.modules() if child is not module}
    return [module for key, module in found.items() if key not in inner]


def attributes_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that a module and those within it have as plain attributes, in containers and in objects there, by name.

    What an optimizer or a function holds is not among them.
    """
    waiting = [
        (f"{prefix}.{name}" if prefix else name, value, 0)
        for prefix, owner in module.named_modules()
        for name, value in vars(owner).items()
        if name not in _HELD
    ]
    seen: dict[int, Any] = {}
    while waiting and len(seen) < MOST_OBJECTS:
        name, value, depth = waiting.pop()
        if id(value) in seen or isinstance(value, _ELSEWHERE) or inspect.isroutine(value):
            continue
        seen[id(value)] = value
        if isinstance(value, torch.Tensor):
            yield name, value
        elif depth < DEPTH:
            waiting += [(name, within, depth + 1) for within in _within(value)]


def reached(*roots: Any) -> list[Any]:
    """What functions and objects lead to, cells of closures too: by closures, names, defaults, attributes, containers.

    Of modules attributes and hooks lead on, those of the modules within them too. What lies deeper than `DEPTH` is not
    found. All that an optimizer holds is found.
    """
    seen: dict[int, Any] = {}
    waiting = [(root, 0) for root in roots]
    while waiting and len(seen) < MOST_OBJECTS:
        each, depth = waiting.pop()
        each = _behind(each)
        if id(each) in seen or depth > DEPTH:
            continue
        seen[id(each)] = each
        if not isinstance(each, torch.Tensor):
            below = 0 if isinstance(each, torch.optim.Optimizer) else depth + 1
            waiting += [(within, below) for within in _within(each)]
    return list(seen.values())


def _behind(each: Any) -> Any:
    """The object that a weak proxy stands for, which seems to be an iterator itself; None if that is gone."""
    if type(each) not in weakref.ProxyTypes:
        return each
    try:
        return each.__reduce_ex__.__self__
    except ReferenceError:
        return None


def _within(each: Any) -> Iterator[Any]:
    """What an object, a container or a function directly leads to."""
    if isinstance(each, torch.nn.Module):
        for owner in each.modules():
            yield from (value for name, value in vars(owner).items() if name not in _HELD)
            yield from (parameter._backward_hooks for parameter in owner.parameters(recurse=False))
    elif isinstance(each, Mapping):
        yield from each.values()
    elif isinstance(each, list | tuple | set | frozenset | deque):
        yield from each
    elif isinstance(each, functools.partial):
        yield from (each.func, each.args, each.keywords)
    elif callable(each) and hasattr(inspect.unwrap(each), "__code__"):
        function: Any = inspect.unwrap(each)
        yield from (getattr(each, "__self__", None), function.__defaults__, function.__kwdefaults__)
        if not str(function.__module__).startswith("torch."):  # what PyTorch refers to is its own
            names = getattr(function, "__globals__", {})
            yield from (names[name] for name in function.__code__.co_names if name in names)
        for cell in getattr(function, "__closure__", None) or ():
            yield cell
            with contextlib.suppress(ValueError):  # a name that has no value yet
                yield cell.cell_contents
    elif not isinstance(each, type) and not inspect.ismodule(each):
        yield from vars(each).values() if hasattr(each, "__dict__") else ()
