"""What modules hold that no op of a graph reads: it is in memory all the same, during the whole step.

A graph takes what its ops read. A pooling layer that the loss does not need, a buffer for another mode, or a frozen
weight is no input of it, and has a place in memory like any other parameter.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from egrl_training.pytorch.counted import plain_of
from egrl_training.pytorch.exchanged import buckets, check_known, exchanging
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.reached import attributes_of, modules_of
from egrl_training.steps.step import OWNER, Value


class Resident:
    """The tensors of modules that compiled functions lead to, and which of them graphs have read so far."""

    def __init__(self, *functions: Any) -> None:
        self._functions: list[weakref.ref[Any] | Any] = []
        self._read: set[int] = set()
        for function in functions:
            self.add(function)

    def add(self, function: Any) -> None:
        """Another function or module that is compiled to the same graphs; a module is not kept alive."""
        self._functions.append(weakref.ref(function) if isinstance(function, torch.nn.Module) else function)

    def reads(self, given: Iterable[Any], is_whole: bool = True) -> None:
        """A graph is given these, of which tensors count. InputError if what the step takes cannot be known
        (`check_known`).
        """
        check_known(self.functions(), is_whole)
        there = {_storage(each) for _, each in held(*self.functions())}
        self._read |= there & {_storage(part) for each in given for part in plain_of(each)}

    def unread(self, device: torch.device) -> dict[str, torch.Tensor]:
        """By name, what lies on a device and no graph has read; each storage once.

        Of several functions those are looked at of which something is read: each has a graph of its own otherwise.
        """
        functions = self.functions()
        exchanged = exchanging(functions)
        all_held = [[*held(each), *buckets(each, exchanged)] for each in functions]
        known = [each for each in all_held if any(_storage(tensor) in self._read for _, tensor in each)]
        found: dict[int, tuple[str, torch.Tensor]] = {}
        for name, tensor in (pair for each in known or all_held[:1] for pair in each):
            if _is_on(tensor, device) and _storage(tensor) not in self._read:
                found.setdefault(_storage(tensor), (name, tensor))
        return _named(found.values())

    def functions(self) -> list[Any]:
        """The functions and modules that are still there."""
        found = [each() if isinstance(each, weakref.ref) else each for each in self._functions]
        return [each for each in found if each is not None]


def held(*functions: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The names and parts of all tensors of the modules that functions lead to: parameters, buffers, attributes."""
    for module in modules_of(*functions):
        for name, tensor in (*module.named_parameters(), *module.named_buffers(), *attributes_of(module)):
            yield from ((name, part) for part in plain_of(tensor))


def held_bytes(function: Any, inputs: Any) -> int:
    """Bytes of what the modules of a function hold and of its inputs; each storage once."""
    tensors = [
        *(tensor for _, tensor in held(function)),
        *(p for each in tree_leaves(inputs) for p in plain_of(each)),
    ]
    return sum({_storage(tensor): int(tensor.untyped_storage().nbytes()) for tensor in tensors}.values())


def with_unread(joint: JointGraph, unread: Mapping[str, torch.Tensor]) -> JointGraph:
    """The graph whose step has these, too, as parameters that no op reads; its digest stays."""
    taken = {value.name for value in joint.step.values}
    nodes, values = list(joint.values), list(joint.step.values)
    graph = fx.Graph()
    for name, tensor in unread.items():
        node = graph.placeholder("unread")
        node.meta["val"] = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        nodes.append(node)
        own = name if name not in taken else f"{name}, unread"
        values.append(Value(own, int(tensor.untyped_storage().nbytes()), OWNER, "parameter"))
    return replace(joint, step=replace(joint.step, values=tuple(values)), values=tuple(nodes))


def _named(found: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """By names that differ; those of several modules may be equal."""
    named: dict[str, torch.Tensor] = {}
    for name, tensor in found:
        own, number = name, 1
        while own in named:
            number += 1
            own = f"{name} ({number})"
        named[own] = tensor
    return named


def _is_on(tensor: torch.Tensor, device: torch.device) -> bool:
    """Whether a tensor is on a device; on any of its kind if no number is said."""
    there = tensor.device
    return there.type == device.type and (None in (there.index, device.index) or there.index == device.index)


def _storage(tensor: torch.Tensor) -> int:
    """What is the same for tensors that share memory, with data or without."""
    return int(tensor.untyped_storage()._cdata)
