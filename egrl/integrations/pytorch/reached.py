"""The modules and tensors that a function to be compiled refers to."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from typing import Any

import torch


def modules_of(model: Any) -> list[torch.nn.Module]:
    """The modules that a module, a method of one, or a function by its names refers to; each once."""
    function = inspect.unwrap(model) if callable(model) else model
    owner = getattr(function, "__self__", None)
    code = getattr(function, "__code__", None)
    known = getattr(function, "__globals__", {})
    reached = [model, function, owner, *getattr(owner, "__dict__", {}).values()]
    reached += [known.get(name) for name in getattr(code, "co_names", ())]
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a name that has no value yet
            reached.append(cell.cell_contents)
    return list({id(module): module for module in reached if isinstance(module, torch.nn.Module)}.values())


def tensors_of(modules: Sequence[torch.nn.Module]) -> list[torch.Tensor]:
    """Parameters and buffers of modules; each storage once."""
    tensors = [t for module in modules for t in (*module.parameters(), *module.buffers())]
    dense = [tensor for tensor in tensors if tensor.layout is torch.strided]
    return list({tensor.untyped_storage().data_ptr(): tensor for tensor in dense}.values())
