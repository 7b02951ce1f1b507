"""Constants of a model that no op needs: whoever loads the model has them in memory all the same."""

from __future__ import annotations

from math import ceil

from workloads.importers.fold import is_in_instruction
from workloads.importers.ir import ModelGraph
from workloads.importers.uncounted import counted, names
from workloads.workload import Op, Workload

NAME = "unread constants"
"""The name of the op that holds them, unless an op of the model has it."""
LITTLE = 1e-3
"""A smaller share of the bytes of all weights is not worth an op (*assumption*)."""


def with_unread(net: Workload, graph: ModelGraph) -> tuple[Workload, list[str]]:
    """The workload with one more op that holds what no op reads, and the remark on it; none where there is nothing.

    The op reads and writes nothing and takes no time. Left out are small integers (counters of batches, shapes that an
    exporter worked out), single numbers that are no parameters, and all of it where that is little and no parameter.
    """
    found = {
        name: graph.tensors[at]
        for at, name in graph.unread.items()
        if not is_in_instruction(graph.tensors[at])
        or (graph.tensors[at].is_float and graph.tensors[at].parameters)
    }
    size = ceil(sum(tensor.held_bytes for tensor in found.values() if tensor.kept > 1))
    parameters = sum(tensor.parameters for tensor in found.values() if tensor.is_float or tensor.numbers)
    if not parameters and size <= LITTLE * sum(op.weight_bytes for op in net):
        return net, []
    remark = f"no op reads {counted(len(found), 'constant')} ({names(list(found))}): held, {size} bytes"
    if not size and not parameters:
        return net, [remark]
    name = NAME
    while name in {op.name for op in net}:
        name += "_"
    one = 1, 1, 1
    op = Op(name, "other", (), one, one, 0, weight_bytes=size, parameters=parameters)
    return Workload(net.name, (*net.ops, op), net.element_bytes, net.source, net.remarks), [remark]
