"""A joint graph cut into a forward and a backward graph so that exactly the planned values are kept.

Source: `torch/_functorch/partitioners.py` (`min_cut_rematerialization_partition`), whose helpers extract the graphs.
Ops that the forward pass need not run, but of which something is kept, run as early as they can.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from torch import fx
from torch._functorch.compile_utils import raise_getitems

from egrl_training.pytorch import norms
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.offload import offload
from egrl_training.pytorch.plan import Offload
from egrl_training.pytorch.writes import order, partitioners


@dataclass(frozen=True)
class Cut:
    """How a joint graph is cut.

    Attributes:
        keep: positions of the values to keep, in `TrainingStep.values`.
        offload: those of them that are kept on the host, in the order in which they return.
    """

    keep: Collection[int]
    offload: Sequence[Offload] = ()


def saved_values(joint: JointGraph, keep: Collection[int]) -> list[int]:
    """The values that go from the forward to the backward pass, in the order of the step.

    `keep` are the positions of values to keep; of these, only what the backward pass needs is saved. What is given is
    saved where it is needed, which costs nothing; what must not run twice is always kept.
    """
    step = joint.step
    kept = set(keep)
    saved: set[int] = set()
    needed = [number for op in step.ops if op.phase == "backward" for number in op.inputs]
    needed += step.gradients
    seen: set[int] = set()
    while needed:
        number = needed.pop()
        if number in seen:
            continue
        seen.add(number)
        maker = int(step.maker[number])
        if maker < 0:
            if step.values[number].role != "tangent":
                saved.add(number)
            continue
        op = step.ops[maker]
        if op.phase == "backward":
            continue
        owns = step.owner[number] == number
        if owns and (number in kept or not op.recomputable or not step.values[number].size_bytes):
            saved.add(number)
        else:
            needed += op.inputs
    return sorted(saved)


def partition(joint: JointGraph, cut: Cut) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward graph of a joint graph that is cut like this.

    Raises:
        UnsupportedGraphError: values cannot be copied to the host and back where the cut says.
    """
    nodes = [joint.values[number] for number in saved_values(joint, cut.keep)]
    numbers = [node for node in nodes if partitioners.is_sym_node(node)]
    tensors = [node for node in nodes if not partitioners.is_sym_node(node)]
    # those that no norm needs which runs again are dropped, and the others below
    tensors += [node for node in norms.statistics(joint.module.graph) if node not in tensors]
    forward, backward = partitioners._extract_fwd_bwd_modules(
        joint.module, tensors, numbers, num_fwd_outputs=joint.forward_outputs
    )
    norms.run_again_without_statistics(forward, backward)
    _run_early(forward, joint.early)
    _run_late(backward, joint)
    forward, backward = raise_getitems(forward), raise_getitems(backward)
    if cut.offload:
        offload(forward, backward, joint, cut.offload)
    return forward, backward


def _run_early(module: fx.GraphModule, names: Collection[str]) -> None:
    """Move the nodes called `names` directly behind the last of their inputs."""
    _reorder(module, order(module.graph, lambda node: node.name in names))


def _run_late(module: fx.GraphModule, joint: JointGraph) -> None:
    """Put what is computed again directly before the first op of the backward pass that needs it.

    What several inputs of an op need runs in the order of the step, so that memory is what is simulated.
    """
    position = {op.name: number for number, op in enumerate(joint.step.ops)}
    late = {op.name for op in joint.step.ops if op.phase == "backward"}
    order: list[fx.Node] = []
    placed: set[fx.Node] = set()

    def place(node: fx.Node) -> None:
        missing, waiting = set(), [node]
        while waiting:
            needed = waiting.pop()
            if needed not in placed and needed not in missing:
                missing.add(needed)
                waiting += needed.all_input_nodes
        placed.update(missing)
        order.extend(sorted(missing, key=rank.__getitem__))

    rank = {node: (_maker_position(node, position), number) for number, node in enumerate(module.graph.nodes)}
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr") or node.name in late:
            place(node)
    # PyTorch leaves ops that may draw random numbers, such as attention, though nothing reads what they make again.
    for node in reversed(list(module.graph.nodes)):
        if node not in placed:
            module.graph.erase_node(node)
    _reorder(module, order)


def _maker_position(node: fx.Node, position: Mapping[str, int]) -> int:
    """The position in the step of the op that a node is, or takes an item of; -1 for inputs."""
    while node.name not in position and node.op == "call_function" and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return len(position) if node.op == "output" else position.get(node.name, -1)


def _reorder(module: fx.GraphModule, order: Sequence[fx.Node]) -> None:
    """Move the nodes of a graph into an order that holds all of them."""
    for before, node in itertools.pairwise(order):
        if before.next is not node:
            before.append(node)
    module.recompile()
