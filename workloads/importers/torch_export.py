"""Modules of PyTorch, through torch.export and the format of .pt2 files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from workloads.importers import pt2_file
from workloads.importers.dimensions import Dimensions
from workloads.importers.read import Imported, convert


def from_torch(
    module: Any,
    example_inputs: tuple[Any, ...],
    *,
    name: str = "",
    dynamic_shapes: Any = None,
    dimensions: Mapping[str, int] | None = None,
    element_bytes: float | None = None,
    fuse: bool = True,
    allow_unknown: bool = False,
) -> Imported:
    """A torch.nn.Module as a workload, exported with `example_inputs` (a tuple of tensors).

    `name` is the workload's (the class's unless given), `dynamic_shapes` goes to torch.export.export, and the
    others are those of `workloads.importers.read.read`. The weights are copied once while it works.

    Raises:
        InputError: as `workloads.importers.read.read` does.
        Exception: whatever torch.export says of a module that it cannot export.
    """
    import torch

    program = torch.export.export(module, example_inputs, dynamic_shapes=dynamic_shapes)
    stream = io.BytesIO()
    torch.export.save(program, stream)
    title = name or type(module).__name__
    graph = pt2_file.read(stream.getvalue(), title, Dimensions(dimensions or {}))
    return convert(graph, title, f"torch.export of {title}", element_bytes, fuse, allow_unknown)
