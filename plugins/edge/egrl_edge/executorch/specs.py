"""An exported program, as the memory planner is shown it, as a `Program`: tensors, lives, uses.

A node that computes is an instruction; `alloc`, `view` and `getitem` are none. A tensor that an instruction changes in
place is read by it, with the bytes of both. What an instruction reads of constants and of tensors that are not planned
it moves by itself (`slow_bytes`).
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from executorch.exir import memory
from executorch.exir.memory_planning import get_node_tensor_specs
from executorch.exir.passes.replace_view_copy_with_view_pass import _ViewSpec
from executorch.exir.tensor import TensorSpec
from torch.utils._pytree import tree_flatten

from workloads.errors import InputError
from workloads.programs.program import Buffer, Instruction, Program, Tensor

SILENT = (memory.alloc, memory.view, memory.free, operator.getitem)
"""Functions that move nothing when the program runs."""
GATHERING = ("select", "slice", "embedding", "index_select", "gather")
"""Parts of the names of ops that read of their inputs only what they write."""
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "linear", "matmul")


@dataclass(frozen=True)
class Exported:
    """A program with what the planner needs beside it.

    Attributes:
        program: tensors and instructions; a tensor's name is its node's, with ".k" for the k-th of several outputs.
        specs: the spec of each tensor.
        lives: the graph's nodes between which each lives, closed.
    """

    program: Program
    specs: tuple[TensorSpec, ...]
    lives: tuple[tuple[int, int], ...]

    @property
    def of_name(self) -> Mapping[str, TensorSpec]:
        """The specs by the names of their tensors."""
        return {tensor.name: spec for tensor, spec in zip(self.program.tensors, self.specs, strict=True)}


def root(spec: Any) -> Any:
    """The spec in whose memory a view, or a tensor with a `storage_base`, lies; any other as it is."""
    while True:
        if isinstance(spec, _ViewSpec):
            spec = spec._base
        elif getattr(spec, "storage_base", None) is not None:
            spec = spec.storage_base
        else:
            return spec


def names_of(graph_module: torch.fx.GraphModule) -> dict[Any, str]:
    """A name for the memory of every tensor of a graph: spec -> node, ".k" for the k-th of several outputs."""
    names: dict[Any, str] = {}
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.target in SILENT:
            continue
        specs = get_node_tensor_specs(node)
        for number, spec in enumerate(specs):
            if spec is not None:
                names.setdefault(root(spec), node.name if len(specs) == 1 else f"{node.name}.{number}")
    return names


@dataclass
class _Uses:
    """The uses of one instruction: bytes by tensor, and bytes of what is not planned."""

    read: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    slow_bytes: int = 0


def check_flat(graph_module: torch.fx.GraphModule, signature: Any) -> None:
    """InputError where ops of a graph have graphs inside (branches, loops), or it is such a graph.

    ExecuTorch's memory plan gives two branches that are both needed later the same bytes, whoever plans.
    """
    inside = {
        name for name, child in graph_module.named_children() if isinstance(child, torch.fx.GraphModule)
    }
    callers = [
        node
        for node in graph_module.graph.nodes
        if any(each.op == "get_attr" and each.target in inside for each in node.all_input_nodes)
    ]
    given = {node.target for node in graph_module.graph.nodes if node.op == "placeholder"}
    known = {spec.arg.name for spec in signature.input_specs} if signature is not None else given
    if callers or (given and not given & known):
        found = ", ".join(dict.fromkeys(map(_opcode, callers))) or "a graph inside an op"
        raise InputError(
            f"expected a program without branches and loops (cond, while_loop, map), found {found}"
        )


def read(
    graph_module: torch.fx.GraphModule,
    specs: Sequence[TensorSpec],
    name: str,
    constants: Collection[str] = (),
) -> Exported:
    """The program of a graph whose planned tensors are `specs`, each with its lifetime.

    The placeholders named in `constants` are tensors, too, which live throughout.
    """
    names = names_of(graph_module)
    held = [spec for spec in dict.fromkeys(map(root, specs)) if spec in names]
    end = len(graph_module.graph.nodes) - 1
    fixed = [spec for spec, of in names.items() if spec.const and of in constants]
    number = {spec: at for at, spec in enumerate(held + fixed)}
    lives = [(spec.lifetime[0], spec.lifetime[1]) for spec in held] + [(0, end)] * len(fixed)
    steps: list[int] = []
    instructions: list[Instruction] = []
    buffers: list[Buffer] = []
    produced = [-1] * len(lives)
    for at, node in enumerate(graph_module.graph.nodes):
        if node.op != "call_function" or node.target in SILENT:
            continue
        uses = _uses_of(node, number)
        here = len(steps)
        steps.append(at)
        for tensor in list(uses.written):
            if produced[tensor] < 0 and lives[tensor][0] > 0:
                produced[tensor] = here
            else:  # changed in place
                uses.read[tensor] = uses.read.get(tensor, 0) + uses.written.pop(tensor)
        instructions.append(Instruction(node.name, _opcode(node), _flops(node), uses.slow_bytes))
        buffers += [Buffer(tensor, here, False, size) for tensor, size in uses.read.items()]
        buffers += [Buffer(tensor, here, True, size) for tensor, size in uses.written.items()]
    if not steps:
        steps, instructions = [end], [Instruction("nothing", "nothing", 0)]
    tensors = []
    for spec, tensor in number.items():
        first, last = lives[tensor]
        if produced[tensor] < 0 < first:  # only handed on, as the graph's output is
            produced[tensor] = max(min(_before(steps, first), len(steps) - 1), 0)
        last_use = max(_before(steps, last + 1) - 1, produced[tensor], 0)
        tensors.append(Tensor(names[spec], spec.nbytes(), produced[tensor], last_use))
    program = Program(name, tuple(instructions), tuple(tensors), tuple(buffers), "executorch")
    return Exported(program, tuple(number), tuple(lives))


def _before(steps: Sequence[int], node: int) -> int:
    """How many instructions are before a node."""
    return sum(1 for step in steps if step < node)


def _uses_of(node: torch.fx.Node, number: Mapping[Any, int]) -> _Uses:
    """What one instruction reads and writes."""
    uses = _Uses()
    written = list(_specs_of(_written(node)))
    output = sum(spec.nbytes() for spec in written)
    gathers = any(part in _opcode(node) for part in GATHERING)
    outside = {id(each) for each in tree_flatten(list(_written(node)))[0]}
    inputs = [each for each in tree_flatten([node.args, node.kwargs])[0] if id(each) not in outside]
    for spec in _specs_of(inputs):
        size = min(spec.nbytes(), output) if gathers and output else spec.nbytes()
        tensor = number.get(root(spec))
        if tensor is None:
            uses.slow_bytes += size
        else:
            uses.read[tensor] = max(uses.read.get(tensor, 0), size)
    for spec in written:
        tensor = number.get(root(spec))
        if tensor is None:
            uses.slow_bytes += spec.nbytes()
        else:
            uses.written[tensor] = uses.written.get(tensor, 0) + spec.nbytes()
    return uses


def _written(node: torch.fx.Node) -> Iterator[Any]:
    """The arguments that an op writes, by its schema; the node itself where it has none."""
    if not isinstance(node.target, torch._ops.OpOverload):
        yield node
        return
    for at, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield node.args[at] if at < len(node.args) else node.kwargs.get(argument.name)


def _specs_of(values: Iterable[Any]) -> Iterator[Any]:
    for value in tree_flatten(list(values))[0]:
        if isinstance(value, torch.fx.Node):
            yield from (spec for spec in get_node_tensor_specs(value) if spec is not None)


def _opcode(node: torch.fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _flops(node: torch.fx.Node) -> int:
    """Operations of an instruction: two a multiply-accumulate, one an element of any other output."""
    op = _opcode(node).split(".")[0].removesuffix("_copy")
    shapes = [spec.shape for spec in _specs_of(each for each in node.args if each is not None)]
    elements = sum(spec.nbytes() // spec.dtype.itemsize for spec in _specs_of([node]))
    if op == "convolution":
        over = prod(shapes[0]) if node.args[6] else elements  # a transposed one takes its weights an input
        return 2 * over * prod(shapes[1][1:])
    if op in PRODUCTS:
        matrix = shapes[1] if op in ("addmm", "baddbmm") else shapes[0]
        return 2 * elements * int(matrix[-1])
    return int(elements)
