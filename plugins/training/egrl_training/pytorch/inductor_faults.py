"""Keeps inductor from what it gets wrong: graphs are changed before it compiles them.

*Results over buffers.* Inductor makes `index_put(buffer, …)` of a graph that ends with `buffer.copy_(…)` write into the
buffer itself, if nothing reads the buffer in between. It does not ask who reads the *result* after that copy: a value
that the backward pass needs is then the memory of the buffer, which holds what the step, or the next one, has written
there since. Where that may happen, `OwnRoom` gives the op a copy of the buffer: the memory that its result would take
in eager mode, and which plans count.

*Factors.* Inductor makes `addmm` of `add(x, mm(a, b), alpha=0.1)` and forgets the factor. `Factors` writes it out.

Source: `torch/_inductor/fx_passes/reinplace.py` (`reinplace_inplaceable_ops_core`, `can_inplace`) and `post_grad.py`
(`addmm`, `mm_plus_mm`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._inductor import config as _config
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.utils import get_donated_idxs

from egrl_training.pytorch.writes import is_item, viewed

config: Any = _config
aten = torch.ops.aten

_WRITES_OVER = frozenset(
    {
        aten.index_put.default,
        aten._unsafe_index_put.default,
        aten.diagonal_scatter.default,
        aten.select_scatter.default,
        aten.slice_scatter.default,
        aten.as_strided_scatter.default,
        torch.ops.higher_order.auto_functionalized,
        torch.ops.higher_order.auto_functionalized_v2,
        torch.ops.higher_order.triton_kernel_wrapper_functional,
    }
)
"""Ops whose results inductor may write over what they are given."""


class Factors(CustomGraphPass):
    """Writes factors of sums as products of their own."""

    def __call__(self, graph: fx.Graph) -> None:
        """Change a graph of inductor, before its own passes."""
        for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
            x, y = node.args
            if "alpha" in node.kwargs and isinstance(y, fx.Node):
                with graph.inserting_before(node):
                    product = graph.call_function(aten.mul.Tensor, (y, node.kwargs["alpha"]))
                product.meta = dict(y.meta)
                node.args, node.kwargs = (x, product), {}

    def uuid(self) -> str:
        """What caches of compiled graphs see."""
        return "egrl factors 1"


class OwnRoom(CustomGraphPass):
    """Gives ops a copy of a buffer where inductor may write their result over it, and that is needed later."""

    def __call__(self, graph: fx.Graph) -> None:
        """Change a graph of inductor, after its own passes that simplify."""
        order = {node: number for number, node in enumerate(graph.nodes)}
        for copy in graph.find_nodes(op="call_function", target=aten.copy_.default):
            buffer = copy.args[0]
            if buffer.op != "placeholder":
                continue
            for node, shown in _writers(buffer):
                if _needed_after(node, order[copy], order):
                    with graph.inserting_before(node):
                        node.replace_input_with(shown, _copy_of(graph, shown))

    def uuid(self) -> str:
        """What inductor's cache of compiled graphs sees: with it, which values a backward graph may write over.

        The cache itself does not ask, and would give a backward pass that runs twice (`retain_graph=True`) code that
        spoils its inputs, if the same graph has been compiled for one that runs once.
        """
        return f"egrl own room 1, over {get_donated_idxs()}"


def without_faults(options: dict[str, Any]) -> dict[str, Any]:
    """Options of inductor, with which it makes none of these faults."""
    passes: dict[str, Any] = {"post_grad_custom_pre_pass": Factors(), "post_grad_custom_post_pass": OwnRoom()}
    for name, added in passes.items():
        given = options.get(name, getattr(config, name))
        if given is not None:  # several are taken by PyTorch 2.13 and later
            passes[name] = (*given, added) if isinstance(given, list | tuple) else (given, added)
    return {**options, **passes}


def _writers(buffer: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
    """The ops that may write over a buffer, each with the view of it that it is given."""
    for user in list(buffer.users):
        if user.target in _WRITES_OVER:
            yield user, buffer
        elif viewed(user) is not None or is_item(user):
            yield from _writers(user)


def _copy_of(graph: fx.Graph, node: fx.Node) -> fx.Node:
    copy = graph.call_function(aten.clone.default, (node,))
    copy.meta = {**node.meta, "val": node.meta["val"].clone()}
    return copy


def _needed_after(node: fx.Node, moment: int, order: dict[fx.Node, int]) -> bool:
    """True if the result, or what may lie in the same memory, is read after a moment, or by who runs the graph."""
    shared, new = {node}, [node]
    while new:
        for user in new.pop().users:
            if order[user] > moment and user.target is not aten.copy_.default:
                return True
            same = viewed(user) is not None or is_item(user) or user.target in _WRITES_OVER
            if same and user not in shared:
                shared.add(user)
                new.append(user)
    return False
