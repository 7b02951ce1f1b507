"""What a joint graph changes in place, and what must be kept because of it.

PyTorch writes a step that changes tensors as one that makes new ones, and copies them over the old ones when the
forward pass ends: by `copy_` at the end of the joint graph, or outside of it, for inputs whose change needs a gradient.
Within the joint graph the name of such an input means its old value, in the backward pass too, where that is gone.

Source: `torch/_functorch/_aot_autograd/graph_capture_wrappers.py` (`apply_in_graph_mutations`), and `descriptors.py`
for inputs that are changed outside of the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch import partitioners as _partitioners
from torch.utils._pytree import tree_leaves

from egrl_training.pytorch.norms import read_by

partitioners: Any = _partitioners
"""PyTorch's helpers, none of which is public; `versions.py` says with which versions they were tested."""

_ALSO_VIEWS = frozenset(
    {
        torch.ops.aten._unsafe_view.default,
        torch.ops.aten._reshape_alias.default,
        torch.ops.aten.unsafe_chunk.default,
        torch.ops.aten.unsafe_split.Tensor,
        torch.ops.aten.unsafe_split_with_sizes.default,
    }
)
"""Ops that share the memory of what they are given without saying so."""


_OF_FORWARD = ("is_forward", "must_be_in_forward")
"""What PyTorch tags ops of the forward pass with; the second are changes of what the backward pass changes, too."""


def viewed(node: fx.Node) -> fx.Node | None:
    """What the node shows another view of; None if it makes something new."""
    target = node.target
    shows = isinstance(target, torch._ops.OpOverload) and (target.is_view or target in _ALSO_VIEWS)
    return node.all_input_nodes[0] if shows else None


def is_item(node: fx.Node) -> bool:
    """True if the node takes an item of what another returns."""
    return node.op == "call_function" and node.target is operator.getitem


def owner(node: fx.Node) -> fx.Node:
    """The node whose memory a node shows: itself if it is no view."""
    while True:
        source = viewed(node)
        if source is None and is_item(node) and viewed(node.all_input_nodes[0]) is not None:
            source = node.all_input_nodes[0]
        if source is None:
            return node
        node = source


def is_mutable(node: fx.Node) -> bool:
    """True if the op changes something that it is given."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def written(node: fx.Node) -> set[fx.Node]:
    """The owners of what an op changes in place."""
    if not is_mutable(node):
        return set()
    target: Any = node.target
    arguments = target._schema.arguments
    given = [*zip(arguments, node.args, strict=False)]
    given += [(each, node.kwargs[each.name]) for each in arguments if each.name in node.kwargs]
    changed = [value for each, value in given if each.alias_info is not None and each.alias_info.is_write]
    return {owner(leaf) for leaf in tree_leaves(changed) if isinstance(leaf, fx.Node)}


def in_backward(graph: fx.Graph) -> set[fx.Node]:
    """The ops that depend on a tangent, or that PyTorch binds to the backward pass.

    So do those that read there what changes in it, or what a function has without saving it, since others, or a first
    backward pass, may change it before: they stand behind the ops of the forward pass, as they were traced.
    """
    calls = [node for node in graph.nodes if node.op == "call_function"]
    tied = {node for node in calls if partitioners._must_be_in_backward(node)}
    changing = {owned for node in tied for owned in written(node)}
    changing |= {each for each in _not_held(graph) if each.op == "placeholder"}
    tangents = {
        node for node in graph.find_nodes(op="placeholder", sort=False) if partitioners._is_tangent(node)
    }
    backward: set[fx.Node] = set()
    begins = _begins(calls, tangents)
    for at, node in enumerate(calls):
        traced_there = at >= begins and node.meta.get("partitioner_tag") not in _OF_FORWARD
        inputs = node.all_input_nodes
        if (
            node in tied
            or (traced_there and changing and reads(node, changing))
            or not tangents.isdisjoint(inputs)
            or not backward.isdisjoint(inputs)
        ):
            backward.add(node)
    return backward


def _not_held(graph: fx.Graph) -> set[fx.Node]:
    """The owners of what custom autograd functions have as attributes, which eager mode does not hold for them."""
    return {owner(node) for node in graph.nodes if node.meta.get("saved_tensor_with_no_vc_check")}


def _begins(calls: Sequence[fx.Node], tangents: set[fx.Node]) -> int:
    """Where the backward pass begins among calls: at the first that reads a tangent, or before it where untagged.

    The backward pass of a custom autograd function carries no tags, and may begin with what reads no tangent.
    """
    first = next(
        (at for at, node in enumerate(calls) if not tangents.isdisjoint(node.all_input_nodes)), len(calls)
    )
    tagged = [at for at in range(first) if calls[at].meta.get("partitioner_tag") in _OF_FORWARD]
    return tagged[-1] + 1 if tagged else first


def changed(graph: fx.Graph, backward: Collection[fx.Node]) -> set[fx.Node]:
    """The owners of memory that has changed when the backward pass begins."""
    found = {each for node in graph.nodes if node not in backward for each in written(node)}
    (output,) = graph.find_nodes(op="output")
    outside = {
        described.mutated_input
        for described in output.meta.get("desc") or ()
        if type(described).__name__ == "InputMutationAOTOutput"
    }
    return found | {node for node in graph.find_nodes(op="placeholder") if node.meta.get("desc") in outside}


def changed_in_both(graph: fx.Graph) -> list[fx.Node]:
    """What both passes change, where a custom autograd function reads in its backward pass what the forward pass left.

    It reads the value, not the tensor: PyTorch has made two of it. What autograd itself reads must not change anyway.
    """
    backward = in_backward(graph)
    there = {each for node in backward for each in written(node)}
    copies = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    left = [(owner(node.args[0]), node.args[1]) for node in copies if node not in backward]
    return [
        changed
        for changed, value in left
        if changed in there and any(_reads(user, value) for user in value.users)
    ]


def _reads(node: fx.Node, value: fx.Node) -> bool:
    """True for an op that reads a value in the backward pass of a custom autograd function, whose ops have no tags."""
    fills = node.target is torch.ops.aten.copy.default and value not in node.args[1:]
    return "partitioner_tag" not in node.meta and not fills


def unsteady(module: fx.GraphModule, forward_outputs: int, parameters: Collection[int]) -> set[fx.Node]:
    """The owners of memory that has, or may have, another value when the backward pass begins.

    That is what the step changes, in the backward pass too: there may be several, with others between; and what no op
    of the backward pass reads, so that eager mode does not hold it: inputs, buffers, and results, which others may fill
    anew or change before the backward pass. Neither does it hold what a function has as an attribute, and not saved.
    `parameters` are the positions of parameters and buffers among the primals; one with a gradient is taken to stay.
    """
    backward = in_backward(module.graph)
    there = {each for node in backward for each in written(node)}
    read = {owner(source) for node in backward for source in node.all_input_nodes}
    read -= _not_held(module.graph)
    primals = [node for node in module.graph.nodes if partitioners._is_primal(node)]
    results, gradients = partitioners._extract_fwd_bwd_outputs(module, num_fwd_outputs=forward_outputs)[:2]
    given = {
        node
        for number, (node, gradient) in enumerate(zip(primals, gradients, strict=False))
        if gradient is None or number not in parameters
    }
    returned = {owner(node) for node in results if isinstance(node, fx.Node)}
    return changed(module.graph, backward) | there | ((given | returned) - read)


def reads(node: fx.Node, owners: Collection[fx.Node]) -> bool:
    """True if an op that runs again reads memory of one of these; a view of it does not."""
    return viewed(node) is None and any(owner(source) in owners for source in read_by(node))


def keep_old_values(graph: fx.Graph) -> None:
    """Let the backward pass read copies of what has changed when it begins, made before the change."""
    backward = in_backward(graph)
    gone = changed(graph, backward)
    copies: dict[fx.Node, fx.Node] = {}

    def old(node: fx.Node) -> fx.Node:
        """The copy of a changed tensor, or the same view of the copy."""
        if node not in copies:
            place = (
                graph.inserting_before(_first_op(graph))
                if node.op == "placeholder"
                else graph.inserting_after(node)
            )
            with place:
                if node in gone:
                    copy = graph.call_function(torch.ops.aten.clone.default, (node,))
                else:
                    copy = graph.node_copy(
                        node, lambda source: old(source) if owner(source) in gone else source
                    )
            copy.meta = {key: value for key, value in node.meta.items() if key != "desc"}
            copies[node] = copy
        return copies[node]

    for node in [node for node in graph.nodes if node in backward]:
        targets = written(node)
        for source in node.all_input_nodes:
            owned = owner(source)
            if owned in gone and owned not in targets and source not in backward:
                node.replace_input_with(source, old(source))


def _first_op(graph: fx.Graph) -> fx.Node:
    return next(node for node in graph.nodes if node.op != "placeholder")


def order(
    graph: fx.Graph,
    movable: Callable[[fx.Node], bool],
    backward: Collection[fx.Node] = (),
    end: int | None = None,
) -> list[fx.Node]:
    """The nodes of a graph in order, each movable one directly behind what it must follow.

    That are its inputs; and if it changes something in place, all nodes outside of the backward pass that read it. One
    without any moves behind the node number `end`; by default it stays.
    """
    number = {node: at for at, node in enumerate(graph.nodes)}
    place: dict[fx.Node, tuple[int, int]] = {}
    for node, at in number.items():
        earlier = [*node.all_input_nodes, *(each for owned in written(node) for each in readers(owned))]
        behind = [place[each][0] for each in earlier if number[each] < at and each not in backward]
        if not behind and end is not None:
            behind = [end]
        moves = node.op == "call_function" and behind and movable(node)
        place[node] = (max(behind), at) if moves else (at, -1)
    return sorted(place, key=place.__getitem__)


def readers(owned: fx.Node) -> Iterator[fx.Node]:
    """The nodes that read or show memory, through views."""
    waiting = [owned]
    while waiting:
        for user in waiting.pop().users:
            if user.op == "call_function":
                yield user
                if owner(user) is owned:
                    waiting.append(user)
