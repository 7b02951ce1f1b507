"""Keeps inductor from what it gets wrong: graphs are changed before it compiles them.

*Results over buffers.* Inductor makes `index_put(buffer, …)` of a graph that ends with `buffer.copy_(…)` write into the
buffer itself, if nothing reads the buffer in between. It does not ask who reads the *result* after that copy: a value
that the backward pass needs is then the memory of the buffer, which holds what the step, or the next one, has written
there since; and if the buffer changes again, parts of it are read after they have been written. And it may run a
custom op that changes a tensor before what reads its old value, which it fuses with later ops. Where that may happen,
`give_own_room` gives the op a copy of the buffer: the memory that its result would take in eager mode, and which plans
count.

*Old values.* A graph ends with the changes of its inputs, and the name of an input means its old value until there.
Inductor drops copies that look idle, so that of two buffers that are swapped one is copied after it has changed, and
that a copy that is returned is the buffer itself. `copy_old_values` copies before the change.

*Factors.* Inductor makes `addmm` of `add(x, mm(a, b), alpha=0.1)` and forgets the factor. `write_factors_out` makes it
a product of its own.

*Draws in another order.* Inductor chooses among orders of kernels the one with the least peak. Draws from PyTorch's
generator that do not depend on each other change places then, so that each has the numbers of the other, and so do
custom ops. `KeepDraws` binds each to the one before.

*A second backward pass.* With `retain_graph=True` the cache of compiled graphs may give code that writes over what it
reads, made for a graph that ran once. The name of a `Rewrite` tells the cache what a backward graph may write over.

Source: `torch/_inductor/memory.py` (`reorder_for_peak_memory`), `torch/_inductor/fx_passes/reinplace.py`
(`reinplace_inplaceable_ops_core`, `can_inplace`) and `post_grad.py` (`remove_noop_ops`, `addmm`, `mm_plus_mm`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.auto_functionalize import get_mutable_args
from torch._inductor import config as _config
from torch._inductor import custom_graph_pass
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.utils import get_donated_idxs
from torch.utils._pytree import tree_leaves

from egrl_training.pytorch.same import is_known
from egrl_training.pytorch.writes import is_item, viewed

config: Any = _config
aten = torch.ops.aten

_CUSTOM = frozenset(
    {
        torch.ops.higher_order.auto_functionalized,
        torch.ops.higher_order.auto_functionalized_v2,
        torch.ops.higher_order.triton_kernel_wrapper_functional,
    }
)
"""What stands for custom ops, and kernels of Triton, that change what they are given."""
_WRITES_OVER = _CUSTOM | frozenset(
    {
        aten.index_put.default,
        aten._unsafe_index_put.default,
        aten.diagonal_scatter.default,
        aten.select_scatter.default,
        aten.slice_scatter.default,
        aten.as_strided_scatter.default,
    }
)
"""Ops whose results inductor may write over what they are given."""


BEFORE_FUSION = "_pre_fusion_custom_pass"
"""The option of inductor for a pass over kernels."""
GIVEN = "egrl_given"
"""Where an output says which of its results are inputs as they are."""


def without_faults(options: dict[str, Any]) -> dict[str, Any]:
    """Options of inductor, with which it makes none of these faults."""
    passes: dict[str, Any] = {
        "post_grad_custom_pre_pass": Rewrite(write_factors_out, mark_given),
        "post_grad_custom_post_pass": Rewrite(copy_old_values, give_own_room),
    }
    for name, added in passes.items():
        given = options.get(name, getattr(config, name))
        if given is not None:  # several are taken by PyTorch 2.13 and later
            passes[name] = (*given, added) if isinstance(given, list | tuple) else (given, added)
    first = options.get(BEFORE_FUSION, getattr(config, BEFORE_FUSION))
    keep = KeepDraws(first)
    # graphs that a function of the user has changed have no name: as a method it is no pass that may be cached
    named = first is None or hasattr(first, "uuid")
    return {**options, **passes, BEFORE_FUSION: keep if named else keep.__call__}


class KeepDraws(getattr(custom_graph_pass, "CustomSchedulerPass", CustomGraphPass)):  # type: ignore[misc]
    """A pass of inductor over the kernels of a graph, after another if there is one: draws keep their order."""

    def __init__(self, first: Any = None) -> None:
        self._first = first

    def __call__(self, nodes: Any) -> Any:
        """The kernels, of which each that draws follows the one before."""
        from torch._inductor.dependencies import WeakDep

        nodes = nodes if self._first is None else self._first(nodes)
        fake = {"is_fake": True} if "is_fake" in WeakDep.__dataclass_fields__ else {}
        drawing = [
            node for node in nodes if _draws(getattr(getattr(node, "node", None), "op_overload", None))
        ]
        for before, node in itertools.pairwise(drawing):
            known, made = (next(iter(each.get_buffer_names())) for each in (before, node))
            node.add_fake_dep(WeakDep(known, mutating_buf=made, **fake))
        return nodes

    def uuid(self) -> tuple[bytes, Any]:
        """What inductor's cache of compiled graphs asks."""
        return get_hash_for_files((__file__,)), None if self._first is None else self._first.uuid()


def _draws(op: Any) -> bool:
    """True for an op that draws random numbers, or of which nobody knows whether it does."""
    return isinstance(op, torch._ops.OpOverload) and (
        torch.Tag.nondeterministic_seeded in op.tags or not is_known(op)
    )


class Rewrite(CustomGraphPass):
    """A pass of inductor over a graph."""

    def __init__(self, *steps: Callable[[fx.Graph], None]) -> None:
        self._steps = steps

    def __call__(self, graph: fx.Graph) -> None:
        """One after the other."""
        for step in self._steps:
            step(graph)

    def uuid(self) -> tuple[bytes, str]:
        """What inductor's cache of compiled graphs asks, and with it which values a backward graph may write over."""
        return get_hash_for_files((__file__,)), f"over {get_donated_idxs()}"


def write_factors_out(graph: fx.Graph) -> None:
    """Make factors of sums products of their own."""
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        x, y = node.args
        if "alpha" in node.kwargs and isinstance(y, fx.Node):
            with graph.inserting_before(node):
                product = graph.call_function(aten.mul.Tensor, (y, node.kwargs["alpha"]))
            product.meta = dict(y.meta)
            node.args, node.kwargs = (x, product), {}


def mark_given(graph: fx.Graph) -> None:
    """Mark which results are inputs as they are, before inductor drops copies: the backward pass writes to these."""
    for output in graph.find_nodes(op="output"):
        results: Any = output.args[0]
        output.meta[GIVEN] = [isinstance(each, fx.Node) and each.op == "placeholder" for each in results]


def copy_old_values(graph: fx.Graph) -> None:
    """Copy what is read of an input after it has changed, before it does."""
    order = {
        node: number for number, node in enumerate(graph.nodes)
    }  # copies have no number: they come early
    for change, buffer in _changes(graph):
        for shown in _views(buffer):
            late = [
                user for user in shown.users if _reads(user, shown) and order.get(user, 0) > order[change]
            ]
            if late:
                with graph.inserting_before(change):
                    old = _copy_of(graph, shown)
                for user in late:
                    _read_instead(user, shown, old)


def give_own_room(graph: fx.Graph) -> None:
    """Give ops a copy of a buffer where inductor may write their result over it, and that is needed later."""
    order = {node: number for number, node in enumerate(graph.nodes)}
    for change, buffer in _changes(graph):
        for shown in _views(buffer):
            for node in [user for user in shown.users if user.target in _WRITES_OVER]:
                if not _becomes(change, node) or _needed_after(node, order[change], order):
                    _copy_before(node, shown)
    for node in [node for node in graph.nodes if node.target in _CUSTOM]:
        for given in _changed_by(node):
            if viewed(given) is not None or not all(
                user is node or _becomes(user, node) for user in given.users
            ):
                _copy_before(node, given)


def _changes(graph: fx.Graph) -> list[tuple[fx.Node, fx.Node]]:
    """The ops that change inputs, each with its input."""
    copies = graph.find_nodes(op="call_function", target=aten.copy_.default)
    return [(node, node.args[0]) for node in copies if node.args[0].op == "placeholder"]


def _changed_by(node: fx.Node) -> list[fx.Node]:
    """What a custom op changes."""
    op: Any = node.args[0] if node.args else None
    given: Any = node.kwargs
    if node.target is torch.ops.higher_order.auto_functionalized_v2:
        found = given["_all_bases"]
    elif node.target is torch.ops.higher_order.auto_functionalized:
        found = [given[name] for name in get_mutable_args(op)[0]]
    else:
        found = [given["kwargs"][name] for name in given["tensors_to_clone"]]
    return [each for each in tree_leaves(found) if isinstance(each, fx.Node)]


def _becomes(change: fx.Node, node: fx.Node) -> bool:
    """True if an input becomes the result of an op, and not what later ops make of that."""
    source = change.all_input_nodes[-1] if change.all_input_nodes else change
    made = source.all_input_nodes[0] if is_item(source) else source
    return change.target is aten.copy_.default and made is node


def _views(buffer: fx.Node) -> Iterator[fx.Node]:
    """The buffer, and what shows it, as long as it does so."""
    yield buffer
    for user in list(buffer.users):
        if buffer in user.all_input_nodes and (viewed(user) is not None or is_item(user)):
            yield from _views(user)


def _read_instead(user: fx.Node, shown: fx.Node, old: fx.Node) -> None:
    """Let an op read a copy; and who runs the graph, but for what is given back as it is."""
    if user.op != "output":
        user.replace_input_with(shown, old)
        return
    results: Any = user.args[0]
    pairs = zip(results, user.meta.get(GIVEN) or [False] * len(results), strict=True)
    user.args = (tuple(old if each is shown and not given else each for each, given in pairs),)


def _reads(user: fx.Node, shown: fx.Node) -> bool:
    """True if an op or who runs the graph reads a tensor, and does not only write to it."""
    return user.target is not aten.copy_.default or user.args[0] is not shown


def _copy_before(node: fx.Node, given: fx.Node) -> None:
    with node.graph.inserting_before(node):
        node.replace_input_with(given, _copy_of(node.graph, given))


def _copy_of(graph: fx.Graph, node: fx.Node) -> fx.Node:
    copy = graph.call_function(aten.clone.default, (node,))
    copy.meta = {**node.meta, "val": node.meta["val"].clone()}
    return copy


def _needed_after(node: fx.Node, moment: int, order: dict[fx.Node, int]) -> bool:
    """True if the result, or what may lie in the same memory, is read after a moment, or by who runs the graph."""
    shared, new = {node}, [node]
    while new:
        for user in new.pop().users:
            if order.get(user, 0) > moment:
                return True
            same = viewed(user) is not None or is_item(user) or user.target in _WRITES_OVER
            if same and user not in shared:
                shared.add(user)
                new.append(user)
    return False
