"""The context network in torch, for several problems at once: gradients pass it. `policies.context` says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from policies.context import PARTS, WINDOWS
from policies.places import ENDS, Places


@dataclass(frozen=True, eq=False)
class Batch:
    """K problems, side by side: their N nodes and T tensors are numbered through.

    A *row* is a tensor in a memory other than the slowest, tensor by tensor; problems may have any numbers of memories.

    Attributes:
        inputs: float32 [R, F + 2 + H] of the rows, see `Places.rows`.
        tensor: int64 [R].
        node, head: int64 [T].
        source, target: int64 [E], the edges.
        first, end: int64 [N], the nodes first .. end - 1 are those of the node's problem.
        graph: int64 [N], its number; `of_tensor` int64 [T], that of each tensor's.
        places: those of each problem.
    """

    inputs: Tensor
    tensor: Tensor
    node: Tensor
    head: Tensor
    source: Tensor
    target: Tensor
    first: Tensor
    end: Tensor
    graph: Tensor
    of_tensor: Tensor
    places: tuple[Places, ...]

    @property
    def count(self) -> int:
        """K."""
        return len(self.places)

    @staticmethod
    def of(given: Sequence[Places]) -> Batch:
        """For places with equal numbers of decisions."""
        nodes = np.array([places.shape[0] for places in given])
        start = np.cumsum(nodes) - nodes
        tensors = [len(places.node) for places in given]
        edges = [np.zeros((2, 0), np.int64) if p.edge_index is None else p.edge_index for p in given]
        joined = np.concatenate([e + at for e, at in zip(edges, start, strict=True)], axis=1)
        memories = [p.rows.shape[1] for p in given]
        numbers = {
            "tensor": np.repeat(np.arange(sum(tensors)), np.repeat(memories, tensors)),
            "node": np.concatenate([p.node + at for p, at in zip(given, start, strict=True)]),
            "head": np.concatenate([p.head for p in given]),
            "source": joined[0],
            "target": joined[1],
            "first": np.repeat(start, nodes),
            "end": np.repeat(start + nodes, nodes),
            "graph": np.repeat(np.arange(len(given)), nodes),
            "of_tensor": np.repeat(np.arange(len(given)), tensors),
        }
        inputs = np.concatenate([p.rows.reshape(-1, p.rows.shape[2]) for p in given])
        return Batch(
            torch.from_numpy(inputs),
            **{k: torch.from_numpy(v) for k, v in numbers.items()},
            places=tuple(given),
        )


class ContextModule(nn.Module):
    """Two layers; parameters are in the order of `ContextNetwork.weight_format`, and have its names."""

    def __init__(self, features: int, heads: int, width: int, around: bool = True) -> None:
        super().__init__()
        self.heads, self.around = heads, around
        self.encode = nn.Linear(features + ENDS + heads, width)
        self.mix = nn.Linear(width * (1 + PARTS * heads * around), width)
        self.decide = nn.Linear(width, 1)
        self.free = nn.Linear(heads * width, 1, bias=False)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What is added to the scores of the rows [R], and to the weights of `free` [K]."""
        z = torch.relu(self.encode(batch.inputs))
        width = z.shape[1]
        of_op = of_nodes(z, batch, self.heads)
        everywhere = means(of_op, batch.graph, batch.count)
        own, mixing = self.mix.weight[:, :width], self.mix.weight[:, width:]
        mixed: Tensor = self.mix.bias
        if self.around:
            mixed = (self._around(of_op, everywhere, batch) @ mixing.T + mixed)[batch.node[batch.tensor]]
        hidden = torch.relu(z @ own.T + mixed)
        return self.decide(hidden).squeeze(1), self.free(everywhere).squeeze(1)

    @staticmethod
    def _around(of_op: Tensor, everywhere: Tensor, batch: Batch) -> Tensor:
        """The means that each node sees, [N, PARTS V], of values [N, V] of nodes and [K, V] of problems."""
        nodes = len(of_op)
        around = [
            of_op,
            means(of_op[batch.source], batch.target, nodes),
            means(of_op[batch.target], batch.source, nodes),
            *_windows(of_op, batch),
            everywhere[batch.graph],
        ]
        return torch.cat(around, dim=1)


def of_nodes(values: Tensor, batch: Batch, heads: int) -> Tensor:
    """Values [N, H V] of the nodes: of each decision the mean over the rows [R, V]; 0 where it places nothing."""
    nodes = len(batch.graph)
    decision = (batch.node * heads + batch.head)[batch.tensor]
    return means(values, decision, nodes * heads).view(nodes, -1)


def _windows(values: Tensor, batch: Batch) -> list[Tensor]:
    """Means of [N, V] over the nodes of the same problem that are at most so many steps away."""
    total = torch.cat([values.new_zeros(1, values.shape[1]), values.cumsum(dim=0)])
    at = torch.arange(len(values))
    found = []
    for steps in WINDOWS:
        first, end = torch.maximum(at - steps, batch.first), torch.minimum(at + steps + 1, batch.end)
        found.append((total[end] - total[first]) / (end - first).unsqueeze(1))
    return found


def means(values: Tensor, at: Tensor, count: int) -> Tensor:
    """The means float32 [count, V] of the rows of values that belong to each number; 0 where there are none."""
    total = values.new_zeros(count, values.shape[1]).index_add(0, at, values)
    return total / torch.bincount(at, minlength=count).clamp(min=1).unsqueeze(1)
