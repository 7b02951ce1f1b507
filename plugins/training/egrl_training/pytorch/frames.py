"""Which part of a function PyTorch compiles: all of it, or what comes after a break or is called from eager code."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch._dynamo import resume_execution, symbolic_convert

PYTORCH = str(Path(torch.__file__).parent)
RESUMED: str = getattr(resume_execution, "TORCH_DYNAMO_RESUME_IN_PREFIX", "torch_dynamo_resume_in")
"""How the names begin of the frames that PyTorch makes of what comes after a break."""


def is_part(functions: Iterable[Any]) -> bool:
    """Whether the frame that is compiled now is only a part of the functions or modules that were to be compiled.

    What runs before it is not compiled, if PyTorch found nothing to compile there: then no graph says that it is broken
    off. False where that is not known.
    """
    frame = getattr(getattr(symbolic_convert.tls, "current_tx", None), "f_code", None)
    if not isinstance(frame, CodeType):
        return False
    if frame.co_name.startswith(RESUMED):
        return True
    own = [set(_codes(function)) for function in functions]
    # a frame of PyTorch's own file wraps what it was given
    return all(own) and not frame.co_filename.startswith(PYTORCH) and not any(frame in codes for codes in own)


def _codes(function: Any) -> Iterator[CodeType]:
    """The code that runs first when a function or module is called, and what it wraps; none where that is not known."""
    if isinstance(function, torch.nn.parallel.DistributedDataParallel):
        yield from _codes(function.module)  # all that it does itself is to exchange
    if isinstance(function, torch.nn.Module):
        function = vars(function).get("forward", type(function).forward)
    while function is not None:
        function = getattr(function, "__func__", function)
        if isinstance(function, functools.partial) or not hasattr(function, "__code__"):
            return
        yield function.__code__
        function = getattr(function, "__wrapped__", None)
