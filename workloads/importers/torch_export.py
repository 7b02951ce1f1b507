"""Modules of PyTorch, through torch.export and the format of .pt2 files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from workloads.errors import InputError
from workloads.importers import pt2_file, pt2_graph
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
    weights_once: bool = False,
) -> Imported:
    """A torch.nn.Module as a workload, exported with `example_inputs` (a tuple of tensors).

    `name` is the workload's (the class's unless given), `dynamic_shapes` goes to torch.export.export, and the
    others are those of `workloads.importers.read.read`. The weights are copied once while it works.

    Raises:
        InputError: as `workloads.importers.read.read` does, or torch.export cannot export or save the module; what it
            says is the cause.
    """
    import torch

    stream, title = io.BytesIO(), name or type(module).__name__
    try:
        program = torch.export.export(module, example_inputs, dynamic_shapes=dynamic_shapes)
        if _has_vmap(program):
            program = program.run_decompositions({})
        torch.export.save(program, stream)
    except Exception as error:  # whatever torch says of what it cannot export or save
        first = next(iter(str(error).strip().splitlines()), "")
        raise InputError(
            f"{title}: expected a module that torch.export can export and save,"
            f" found {type(error).__name__}: {first[:160]}"
        ) from error
    graph = pt2_file.read(stream.getvalue(), title, Dimensions(dimensions or {}))
    return convert(graph, title, f"torch.export of {title}", element_bytes, fuse, allow_unknown, weights_once)


def _has_vmap(program: Any) -> bool:
    """Whether shapes within a program are those of one sample of `torch.vmap`."""
    graphs = [part.graph for part in program.graph_module.modules() if hasattr(part, "graph")]
    return any(pt2_graph.VMAP in str(node.target) for graph in graphs for node in graph.nodes)
