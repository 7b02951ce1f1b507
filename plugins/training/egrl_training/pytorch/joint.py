"""The joint forward and backward graph of PyTorch as a `TrainingStep`, and back: which node each value and op is.

Source: `torch/_functorch/partitioners.py`: which nodes the forward pass must run, which depend on a tangent, and what
both passes return.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._functorch.compile_utils import fx_graph_cse
from torch.utils.checkpoint import CheckpointPolicy

from egrl_training.pytorch.norms import forget_statistics, read_by
from egrl_training.pytorch.same import returns_the_same
from egrl_training.pytorch.writes import (
    in_backward,
    is_item,
    is_mutable,
    keep_old_values,
    order,
    partitioners,
    reads,
    unsteady,
    viewed,
)
from egrl_training.steps.step import OWNER, Op, TrainingStep, Value


class UnsupportedGraphError(Exception):
    """A graph that cannot be planned; the message says in one line why. PyTorch's own partition is used instead."""


@dataclass(frozen=True)
class JointGraph:
    """A joint graph with the step that it is.

    Attributes:
        module: the joint graph, cleaned as PyTorch's partitioner cleans it.
        step: its values and ops. Seconds and scratch bytes are 0 until they are measured.
        values: for each value of the step, its node.
        ops: for each op of the step, its node.
        forward_outputs: how many results the forward pass returns.
        early: names of ops that run as soon as they can, wherever they stand in the graph.
    """

    module: fx.GraphModule
    step: TrainingStep
    values: tuple[fx.Node, ...]
    ops: tuple[fx.Node, ...]
    forward_outputs: int
    early: frozenset[str] = frozenset()

    def positions(self, names: Collection[str]) -> list[int]:
        """The positions in `step.values` of the values called so."""
        wanted = set(names)
        return [number for number, value in enumerate(self.step.values) if value.name in wanted]


def clean(module: fx.GraphModule) -> fx.GraphModule:
    """The module without dead nodes, and each equal computation once, as PyTorch's partitioner makes it.

    What the backward pass reads is not changed before it: it reads copies instead (`writes.keep_old_values`).
    """
    module.graph.eliminate_dead_code()
    if torch._functorch.config.cse:
        module.graph = fx_graph_cse(module.graph)
    forget_statistics(module.graph)
    keep_old_values(module.graph)
    module.recompile()
    return module


def read_joint(
    module: fx.GraphModule, forward_outputs: int, parameters: Sequence[int], name: str
) -> JointGraph:
    """The step of a clean joint graph.

    Args:
        module: the joint graph, from `clean`.
        forward_outputs: how many of its outputs the forward pass returns.
        parameters: positions of the parameters and buffers among its primal inputs.
        name: of the network.

    Raises:
        UnsupportedGraphError: sizes that are not fixed, state of the backward pass, or functional random numbers.
    """
    return _Reader(module, forward_outputs, parameters).read(name)


class _Reader:
    def __init__(self, module: fx.GraphModule, forward_outputs: int, parameters: Sequence[int]) -> None:
        self._module, self._forward_outputs = module, forward_outputs
        primals = [node for node in module.graph.nodes if partitioners._is_primal(node)]
        self._parameters = {primals[number] for number in parameters}
        returned = partitioners._extract_fwd_bwd_outputs(module, num_fwd_outputs=forward_outputs)
        self._returned = [[node for node in nodes if isinstance(node, fx.Node)] for nodes in returned[:2]]
        self._backward = in_backward(module.graph)
        if not self._backward:
            raise UnsupportedGraphError("the graph has no backward pass")
        once = [node for node in module.graph.nodes if _runs_once(node) and node not in self._backward]
        self._forward = _all_inputs([*self._returned[0], *once])
        self._drawn = [node for node in once if not is_mutable(node)]
        self._unsteady = unsteady(module, forward_outputs, set(parameters))
        self._values: list[Value] = []
        self._nodes: list[fx.Node] = []
        self._number: dict[fx.Node, int] = {}
        self._given: set[int] = set()

    def read(self, name: str) -> JointGraph:
        for node in self._module.graph.find_nodes(op="placeholder"):
            self._add(node, OWNER, self._role(node))
        ops, nodes = [], []
        early = self._early()
        for node in order(self._module.graph, early.__contains__, self._backward, self._turn()):
            if node.op == "get_attr" and "val" in node.meta:
                self._add(node, OWNER, "parameter")
            elif node.op == "call_function" and not is_item(node):
                ops.append(self._op(node))
                nodes.append(node)
        outputs, gradients = (
            tuple(sorted({self._number[node] for node in nodes})) for nodes in self._returned
        )
        step = TrainingStep(
            name,
            tuple(self._values),
            tuple(ops),
            outputs,
            gradients,
            f"torch {torch.__version__}",
        )
        step = replace(step, graph=_digest(step))
        names = frozenset(node.name for node in early)
        return JointGraph(self._module, step, tuple(self._nodes), tuple(nodes), self._forward_outputs, names)

    def _turn(self) -> int:
        """The number of the last node that results of the forward pass need, or that draws random numbers, of those
        before the backward pass."""
        number = {node: at for at, node in enumerate(self._module.graph.nodes)}
        needed = {number[node] for node in _all_inputs([*self._returned[0], *self._drawn])}
        return max(needed & set(range(min(number[node] for node in self._backward))))

    def _early(self) -> set[fx.Node]:
        """The nodes of the forward pass that it need not run for its results, or that stand behind its end."""
        late = set(list(self._module.graph.nodes)[self._turn() + 1 :])
        phases = {node: self._phase(node) for node in self._module.graph.nodes}
        return {
            node
            for node in phases
            if phases[node] == "either" or (node in late and phases[node] == "forward")
        }

    def _role(self, node: fx.Node) -> str:
        if partitioners._is_primal(node):
            return "parameter" if node in self._parameters else "input"
        if partitioners._is_tangent(node):
            return "tangent"
        raise UnsupportedGraphError(f"the graph takes {node.name}, which is neither an input nor a gradient")

    def _phase(self, node: fx.Node) -> str:
        if node in self._backward:
            return "backward"
        return "forward" if node in self._forward else "either"

    def _op(self, node: fx.Node) -> Op:
        # a branch of an op of higher order is no value
        inputs = sorted({self._number[source] for source in read_by(node) if source in self._number})
        items = [user for user in node.users if is_item(user)]
        outputs = items if isinstance(node.meta.get("val"), tuple | list) else [node]
        base = self._base(node)
        numbers = tuple(self._add(output, base, "") for output in outputs)
        for item in items:
            if any(is_item(user) for user in item.users):
                raise UnsupportedGraphError(f"{node.name} returns tuples within a tuple")
        kind = str(node.target)
        may_repeat = returns_the_same(node) and not reads(node, self._unsteady)
        return Op(
            node.name, kind, self._phase(node), tuple(inputs), numbers, 0.0, 0, may_repeat, _module(node)
        )

    def _base(self, node: fx.Node) -> int:
        """The position of the value that owns what a view shows; `OWNER` if the node is no view."""
        source = viewed(node)
        if source is None:
            return OWNER
        number = self._number[source]
        owner = self._values[number].view_of
        return number if owner == OWNER else owner

    def _add(self, node: fx.Node, base: int, role: str) -> int:
        size = 0 if base != OWNER else _size_bytes(node)
        if role and self._is_shared(node):
            size = 0
        self._number[node] = len(self._values)
        self._values.append(Value(node.name, size, base, role))
        self._nodes.append(node)
        return self._number[node]

    def _is_shared(self, node: fx.Node) -> bool:
        """True if what is given shows the storage of what was given before."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return False
        storage = value.untyped_storage()._cdata
        known = storage in self._given
        self._given.add(storage)
        return known


def _runs_once(node: fx.Node) -> bool:
    """True for an op that eager mode runs whatever reads its results: it may change more than these."""
    return node.op == "call_function" and not is_item(node) and not returns_the_same(node)


def _all_inputs(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes, and all that they need."""
    needed: set[fx.Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return needed


def _digest(step: TrainingStep) -> str:
    """Hex digest of all that a step says without having been measured."""
    values = [(value.name, value.size_bytes, value.view_of, value.role) for value in step.values]
    ops = [(op.name, op.kind, op.phase, op.inputs, op.outputs, op.recomputable) for op in step.ops]
    text = json.dumps([values, ops, step.outputs, step.gradients])
    return hashlib.sha256(text.encode()).hexdigest()


def _size_bytes(node: fx.Node) -> int:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return 0
    if value.layout != torch.strided:
        raise UnsupportedGraphError(f"{node.name} is a sparse tensor")
    size: Any = value.untyped_storage().nbytes()
    if not isinstance(size, int):
        raise UnsupportedGraphError(
            "sizes are not fixed: compile with dynamic=False, without mark_dynamic or sizes that data decide"
        )
    return size


def _module(node: fx.Node) -> str:
    """The path of the innermost module that the op belongs to, as `named_modules` has it; "" if it is not known."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = str(next(reversed(stack.values()), ("", None))[0])
    while (plain := _NO_NAME.sub(r"\1.\2", path)) != path:
        path = plain
    return _CHILD.sub(r".\1", _ROOT.sub("", path)).lstrip(".")


_ROOT = re.compile(r"^[LG]\['\w+'\]\.?")
"""What Dynamo calls the compiled module: a local or global variable."""
_CHILD = re.compile(r"\.?_modules\['([^']+)'\]")
"""What it calls a module within another in PyTorch 2.9."""
_NO_NAME = re.compile(r"getattr\((.+), '([^']*)'\)")
"""What it calls one whose name is none of Python's."""


def never_recompute(module: fx.GraphModule, forward_outputs: int, parameters: Sequence[int]) -> None:
    """Tell PyTorch's own partitioner, too, what must not run again: by itself it does not look at what changes."""
    gone = unsteady(module, forward_outputs, set(parameters))
    for node in module.graph.nodes:
        known = isinstance(node.target, torch._ops.OpOverload) and not is_mutable(node)
        if known and (not returns_the_same(node) or reads(node, gone)):
            # of several results each is saved, whatever a checkpoint says of it
            for each in (node, *filter(is_item, node.users)):
                each.meta["recompute"] = CheckpointPolicy.MUST_SAVE
