"""Copies to the host and back, put into the graphs of both passes where a plan says.

The forward pass gives the backward pass the tensor on the host instead of the one on the device. Where copies are
issued and waited for says what is in memory when; how long they take does not.

Source: `torch/_functorch/_activation_offloading/activation_offloading.py`, PyTorch's own passes: a copy behind the last
user, through views; a wait; in the backward pass a copy back that is moved ahead of its wait.

Deviations: the plan says what is copied and where copies and waits stand. PyTorch waits for the copies of a forward
pass at once or at its end. Items of tuples and tensors with any strides are copied, too, as whole storages.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx
from torch._guards import detect_fake_mode

from egrl_training.pytorch import host
from egrl_training.pytorch.joint import JointGraph, UnsupportedGraphError
from egrl_training.pytorch.plan import Offload
from egrl_training.steps.step import Op


def offload(
    forward: fx.GraphModule, backward: fx.GraphModule, joint: JointGraph, values: Sequence[Offload]
) -> None:
    """Keep values on the host, in both graphs of a joint graph that was cut; `values` in the order of their return.

    Raises:
        UnsupportedGraphError: a value leaves before its last use, returns after its first, or is not saved.
    """
    try:
        _leave(forward, joint, values)
        _return(backward, joint, values)
    except KeyError as error:
        raise UnsupportedGraphError(f"the plan's copies name {error}, which is not there") from None
    for module in (forward, backward):
        module.graph.lint()
        module.recompile()


def _leave(module: fx.GraphModule, joint: JointGraph, values: Sequence[Offload]) -> None:
    """Copy each value when the last op that uses it has run, and hold it until the op that it leaves before."""
    nodes = {node.name: node for node in module.graph.nodes}
    (output,) = module.graph.find_nodes(op="output")
    order = {node: number for number, node in enumerate(module.graph.nodes)}
    uses = _uses(module, joint, values)
    last = {value.name: uses[value.name][-1] for value in values}
    position = {value.name: number for number, value in enumerate(joint.step.values)}
    copies: dict[str, fx.Node] = {}
    behind: dict[fx.Node, fx.Node] = {}  # the last node that was put behind another
    for value in sorted(values, key=lambda value: (order[last[value.name]], position[value.name])):
        node, before = nodes[value.name], nodes[value.leaves] if value.leaves else output
        use = max(last[value.name], node, key=order.__getitem__)
        if order[before] <= order[use]:
            raise UnsupportedGraphError(f"{value.name} leaves for the host before its last use")
        with module.graph.inserting_after(behind.get(use, use)):
            copy = module.graph.call_function(host.TO_HOST, (node,))
        behind[use] = copies[value.name] = copy
        _describe_copy(copy, node)
        with module.graph.inserting_before(before):
            module.graph.call_function(host.LEFT, (node, copy))
    results = output.args[0]
    assert isinstance(results, list | tuple)
    replaced = [copies.get(each.name, each) if isinstance(each, fx.Node) else each for each in results]
    output.args = (type(results)(replaced),)


def _return(module: fx.GraphModule, joint: JointGraph, values: Sequence[Offload]) -> None:
    """Copy each value back before the op that its return begins with, and wait before the first op that reads it."""
    nodes = {node.name: node for node in module.graph.nodes}
    order = {node: number for number, node in enumerate(module.graph.nodes)}
    uses, views = _uses(module, joint, values), _views(joint)
    first = {value.name: uses[value.name][0] for value in values}
    here: dict[str, fx.Node] = {}
    for value in values:
        given, before = nodes[value.name], nodes[value.returns]
        if order[before] > order[first[value.name]]:
            raise UnsupportedGraphError(f"{value.name} returns from the host after its first use")
        with module.graph.inserting_after(given):
            copy = module.graph.placeholder(f"{value.name}_on_host")
        _describe_copy(copy, given)
        with module.graph.inserting_before(before):
            back = module.graph.call_function(host.FROM_HOST, (copy, given.meta["val"].device))
        back.meta |= given.meta
        given.replace_all_uses_with(back)
        module.graph.erase_node(given)
        # What only shows a value, and stands before the copy, moves behind it.
        shown = {back}
        place = back
        for node in order:
            if node.name in views and not shown.isdisjoint(node.all_input_nodes):
                shown.add(node)
                if order[node] < order[before]:
                    place.append(node)
                    place = node
        here[value.name] = back
    for value in values:
        with module.graph.inserting_before(first[value.name]):
            module.graph.call_function(host.ARRIVED, (here[value.name],))


def _describe_copy(copy: fx.Node, node: fx.Node) -> None:
    """Say what the copy of a node on the host is."""
    fake = detect_fake_mode([node.meta["val"]])
    assert fake is not None
    with fake:
        copy.meta |= {"val": host.on_host(node.meta["val"])}


def _uses(module: fx.GraphModule, joint: JointGraph, values: Sequence[Offload]) -> dict[str, list[fx.Node]]:
    """For each value the nodes of a graph that make or read its storage, in order; those that only show it are none.

    What makes again what the graph is given reads nothing of it.
    """
    step = joint.step
    ops = {op.name: op for op in step.ops if not _shows(joint, op)}
    given = {node.name for node in module.graph.find_nodes(op="placeholder")}
    found: dict[str, list[fx.Node]] = {}
    names = {number: value.name for number, value in enumerate(step.values)}
    wanted = {value.name for value in values}
    for node in module.graph.nodes:
        if node.op != "call_function" or node.name not in ops:
            continue
        op = ops[node.name]
        read = {names[step.owner[number]] for number in op.inputs}
        made = {names[number] for number in op.outputs} - given
        for name in wanted & (read | made):
            found.setdefault(name, []).append(node)
    return found


def _shows(joint: JointGraph, op: Op) -> bool:
    """Whether an op only makes views."""
    return bool(op.outputs) and all(joint.step.owner[number] != number for number in op.outputs)


def _views(joint: JointGraph) -> set[str]:
    """The names of the nodes that only show others."""
    shown = [op for op in joint.step.ops if _shows(joint, op)]
    return {op.name for op in shown} | {
        joint.step.values[number].name for op in shown for number in op.outputs
    }
