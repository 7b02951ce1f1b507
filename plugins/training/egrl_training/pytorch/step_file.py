"""A file of Python that says what one training step is: `build()` returns a loss function and its inputs.

def build():
    model = Net()
    return model, (images, labels)      # model(images, labels) is the loss, a scalar
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from workloads.errors import InputError


def load(file: str) -> tuple[Callable[..., torch.Tensor], Sequence[Any]]:
    """The loss function and its inputs. InputError if the file defines no `build` that returns them.

    The file is run: it is code that the user names.
    """
    if not Path(file).is_file():
        raise InputError(f"{file}: expected a file of Python with a function build(), found no such file")
    build = runpy.run_path(file, run_name="step").get("build")
    if not callable(build):
        raise InputError(f"{file}: expected a function build(), found none")
    built = build()
    if not (
        isinstance(built, tuple)
        and len(built) == 2
        and callable(built[0])
        and isinstance(built[1], tuple | list)
    ):
        raise InputError(
            f"{file}: expected build() to return a function and its inputs, found {type(built).__name__}"
        )
    return built
