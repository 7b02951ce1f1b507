"""Which ops return the same for the same, and how PyTorch is kept from merging and dropping the others.

An op that draws random numbers runs once per step, as in eager mode, whether or not something reads what it returns; so
does one that nobody knows. PyTorch merges two equal draws (`randn_like(x)` twice: its list of what is random is short)
and drops those that nothing reads, so that all later random numbers are others. Of two equal custom ops, and of one
that nothing reads, it thinks the same.

Source: `torch/_functorch/compile_utils.py` (`fx_graph_cse`), `torch/fx/graph.py` (`eliminate_dead_code`) and
`torch/_library/utils.py` (`is_impure`).
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch._functorch import compile_utils as _compile_utils
from torch._inductor import config as _config
from torch._library import utils as _library

compile_utils: Any = _compile_utils
library: Any = _library
config: Any = _config


def returns_the_same(node: fx.Node) -> bool:
    """False if the op draws random numbers, writes to what it is given, or is not known well enough.

    Of an op that is not PyTorch's own nobody knows whether it always returns the same, unless it is tagged as one that
    computes element by element.
    """
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return target in _PURE
    if target._schema.name in _SEEDED:
        return True
    if target._schema.is_mutable or (torch.Tag.nondeterministic_seeded in target.tags and _draws(node)):
        return False
    return is_known(target)


def is_known(target: torch._ops.OpOverload) -> bool:
    """True for ops of PyTorch, and for custom ops that are tagged as computing element by element."""
    return target.namespace in _OWN or torch.Tag.pointwise in target.tags


def _draws(node: fx.Node) -> bool:
    """False if an op that may draw random numbers, such as attention, does not: its dropout is 0."""
    target: Any = node.target
    for number, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[number] if number < len(node.args) else node.kwargs.get(argument.name, 0.0)
            return bool(given != 0.0)
    return True


_SEEDED = frozenset({"prims::inductor_random", "prims::inductor_randint", "prims::inductor_lookup_seed"})
"""Random numbers of inductor that are a function of a seed that they are given: they may be drawn twice."""
_OWN = frozenset({"aten", "prims", "inductor_prims", "quantized_decomposed"})
"""Namespaces of ops that return the same for the same, unless they are tagged."""
_PURE = frozenset(
    {operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv, operator.neg}
)
"""Functions of Python that may stand in a graph and always return the same."""


class _Apart:
    """Contains what must not be merged, in place of PyTorch's list of random ops."""

    def __init__(self, listed: Any) -> None:
        self._listed = listed

    def __contains__(self, target: Any) -> bool:
        if target in self._listed:
            return True
        overloads = (
            [getattr(target, name) for name in target.overloads()] if hasattr(target, "overloads") else []
        )
        return any(torch.Tag.nondeterministic_seeded in each.tags or not is_known(each) for each in overloads)


@contextlib.contextmanager
def once_each(draws_as_eager: bool) -> Iterator[None]:
    """Within it PyTorch merges and drops no op that draws random numbers, or that nobody knows.

    `draws_as_eager` is False if others are drawn than in eager mode anyway: then those may go that nothing reads.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(compile_utils, "rand_ops", _Apart(compile_utils.rand_ops)))
        original = getattr(library, "is_impure", None)
        if original is not None:  # older versions drop what nothing reads
            stack.enter_context(mock.patch.object(library, "is_impure", _with_unknown(original)))
        if draws_as_eager:
            stack.enter_context(config.patch(fallback_random=True))  # what is random is dropped otherwise
        yield


def _with_unknown(original: Callable[..., bool]) -> Callable[..., bool]:
    """PyTorch's answer whether an op has effects; ops that nobody knows may have some."""

    def is_impure(op: Any, **given: Any) -> bool:
        unknown = isinstance(op, torch._ops.OpOverload) and not is_known(op)
        return unknown or original(op, **given)

    return is_impure
