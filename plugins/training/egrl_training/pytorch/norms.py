"""Batch norm in training, which may run again without its running statistics.

Its op returns new running statistics beside its result, so that it reads what the step changes. But its result, mean
and deviation do not depend on them. So where it runs again it is the op without statistics, which returns the same; and
the op of its backward pass, which is given the statistics, does not read them in training.

Source: `aten/src/ATen/native/Normalization.cpp` (`batch_norm_cpu_transform_input_template`, and its backward pass).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

_NORM: Any = torch.ops.aten._native_batch_norm_legit_functional.default
_AGAIN: Any = torch.ops.aten._native_batch_norm_legit.no_stats
_BACKWARD: Any = torch.ops.aten.native_batch_norm_backward.default
STATISTICS = slice(3, 5)
"""Which arguments of both ops are running statistics."""
TRAIN = {_NORM: 5, _BACKWARD: 7}
"""Which argument says that it is in training."""
RESULTS = 3
"""So many of what the op returns do not depend on running statistics."""


def _in_training(node: fx.Node, target: Any) -> bool:
    return node.target is target and len(node.args) > TRAIN[target] and node.args[TRAIN[target]] is True


def _repeats(node: fx.Node) -> bool:
    """True for a batch norm in training that may run without its statistics.

    These have the type of its input: others decide types of results. And no op computes with the new ones.
    """
    if not _in_training(node, _NORM):
        return False
    new = [item for item in node.users if item.args[1] >= RESULTS]  # type: ignore[operator]
    if not all(_is_only_kept(item, user) for item in new for user in item.users):
        return False
    given = [
        each.meta["val"].dtype for each in (node.args[0], *node.args[STATISTICS]) if isinstance(each, fx.Node)
    ]
    return len(set(given)) == 1


def _is_only_kept(statistics: fx.Node, user: fx.Node) -> bool:
    """True if new statistics are returned, copied over the old ones, or given to the next norm in training."""
    if user.op == "output" or user.target is torch.ops.aten.copy_.default:
        return True
    others = (*user.args[: STATISTICS.start], *user.args[STATISTICS.stop :])
    return statistics not in others and (_repeats(user) or _in_training(user, _BACKWARD))


def read_by(node: fx.Node) -> list[fx.Node]:
    """What an op reads, if it runs again: for a batch norm in training its running statistics are none of it."""
    if not _repeats(node):
        return node.all_input_nodes
    unread = set(node.args[STATISTICS])
    return [source for source in node.all_input_nodes if source not in unread]


def statistics(graph: fx.Graph) -> list[fx.Node]:
    """The running statistics of batch norms in training; each once."""
    norms = graph.find_nodes(op="call_function", target=_NORM)
    given = [each for node in norms if _repeats(node) for each in node.args[STATISTICS]]
    return list(dict.fromkeys(each for each in given if isinstance(each, fx.Node)))


def forget_statistics(graph: fx.Graph) -> None:
    """Give ops of the backward pass of a batch norm in training no running statistics, which they do not read."""
    for node in graph.find_nodes(op="call_function", target=_BACKWARD):
        if _in_training(node, _BACKWARD):
            node.args = (*node.args[: STATISTICS.start], None, None, *node.args[STATISTICS.stop :])


def run_again_without_statistics(forward: fx.GraphModule, backward: fx.GraphModule) -> None:
    """Replace batch norms that the backward graph runs again; statistics that are saved for that alone are no more."""
    graph = backward.graph
    for node in graph.find_nodes(op="call_function", target=_NORM):
        if not _repeats(node):
            continue
        with graph.inserting_before(node):
            again = graph.call_function(
                _AGAIN, (*node.args[: STATISTICS.start], *node.args[STATISTICS.stop :]), node.kwargs
            )
        again.meta = {**node.meta, "val": tuple(node.meta["val"][:RESULTS])}
        name, statistics = node.name, [each for each in node.args[STATISTICS] if isinstance(each, fx.Node)]
        node.replace_all_uses_with(again)
        graph.erase_node(node)
        again.name = name
        for item in [user for user in again.users if user.args[1] >= RESULTS]:  # type: ignore[operator]
            graph.erase_node(item)
        for given in {each for each in statistics if not each.users}:
            _not_saved(forward, given.name)
            graph.erase_node(given)
    forward.recompile()
    backward.recompile()


def _not_saved(forward: fx.GraphModule, name: str) -> None:
    """The forward graph returns a given tensor no more."""
    (output,) = forward.graph.find_nodes(op="output")
    results: Any = output.args[0]
    stays = [not (isinstance(each, fx.Node) and each.name == name) for each in results]
    output.args = (tuple(each for each, stay in zip(results, stays, strict=True) if stay),)
    for key in ("desc", "output_stack_traces"):
        if key in output.meta:
            described = zip(output.meta[key], stays, strict=True)
            output.meta[key] = [each for each, stay in described if stay]
