"""A planned program run on its own arenas, with poison wherever no live tensor lies.

The Python runtime of ExecuTorch gives no access to its arenas. So this plays the planned graph with the same op
overloads in PyTorch, each tensor a view of its arena at its planned address. Before the first instruction all bytes of
the arenas are poison (0xFF: NaN in floats, -1 in integers); after each node the bytes of tensors that die there are
poison again. A plan that lets two live tensors meet, or a life that ends too early, changes the outputs. What
outlives a run (a key-value cache) begins as poison, as it does in the runtime, and stays as the last run left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from executorch.exir import memory
from executorch.exir.memory_planning import get_node_tensor_specs
from torch.export.graph_signature import OutputKind

from egrl_edge.executorch.specs import root

POISON = 0xFF


class Poisoned(torch.fx.Interpreter):
    """The planned graph of an exported program (`ExecutorchProgramManager.exported_program()`) on poisoned arenas."""

    def __init__(self, exported: Any) -> None:
        super().__init__(exported.graph_module)
        self._exported = exported
        graph = exported.graph_module
        sizes = graph.meta["non_const_buffer_sizes"]
        self._arenas = [torch.full((size,), POISON, dtype=torch.uint8) for size in sizes]
        self._dying: dict[int, list[Any]] = {}
        signature = exported.graph_signature
        changed = set(signature.buffers_to_mutate.values())
        self._kept = {name for name, of in signature.inputs_to_buffers.items() if of in changed}
        nodes = [node for node in graph.graph.nodes if node.target not in self._kept]
        kept = {root(node.meta["spec"]) for node in graph.graph.nodes if node.target in self._kept}
        seen = {root(spec) for node in nodes for spec in get_node_tensor_specs(node) if self._planned(spec)}
        for spec in seen - kept:
            self._dying.setdefault(spec.lifetime[1], []).append(spec)
        self._number = {node: at for at, node in enumerate(graph.graph.nodes)}
        self._persistent = self._constants()

    def _constants(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by the names of their placeholders."""
        signature, values = self._exported.graph_signature, dict(self._exported.state_dict)
        values |= self._exported.constants
        named = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        return {name: values[of] for name, of in named.items() if of in values}

    def outputs(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What one run gives for the user's inputs."""
        waiting = iter(inputs)
        given = [
            self._persistent[node.target] if node.target in self._persistent else next(waiting)
            for node in self._exported.graph_module.graph.nodes
            if node.op == "placeholder"
        ]
        with torch.no_grad():
            found = self.run(*given)
        kinds = [spec.kind for spec in self._exported.graph_signature.output_specs]
        return list(found)[-kinds.count(OutputKind.USER_OUTPUT) :]  # those of changed buffers may have gone

    def run_node(self, n: torch.fx.Node) -> Any:
        """One node, and then the poison."""
        found = super().run_node(n)
        specs = get_node_tensor_specs(n)
        if n.op == "placeholder" and specs and self._planned(specs[0]):
            held = self._view(specs[0])
            if n.target not in self._kept:
                held.copy_(found)
            found = held
        elif n.op == "call_function" and n.target is memory.alloc:
            views = [self._view(spec) if self._planned(spec) else None for spec in specs]
            found = views[0] if len(views) == 1 and not isinstance(n.meta["spec"], (list, tuple)) else views
        elif n.op == "output":
            return [each.clone() if isinstance(each, torch.Tensor) else each for each in found]
        for spec in self._dying.get(self._number[n], ()):
            begin = spec.mem_offset
            self._arenas[spec.mem_id][begin : begin + spec.nbytes()] = POISON
        return found

    def _planned(self, spec: Any) -> bool:
        return spec is not None and spec.mem_id is not None and spec.mem_offset is not None

    def _view(self, spec: Any) -> torch.Tensor:
        """A tensor at its planned address."""
        arena = self._arenas[spec.mem_id][spec.mem_offset : spec.mem_offset + spec.nbytes()]
        return arena.view(spec.dtype).as_strided(spec.shape, spec.stride)
