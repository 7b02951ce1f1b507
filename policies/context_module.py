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
    """K problems, side by side: their N nodes and T tensors are numbered through. All have L memories.

    Attributes:
        inputs: float32 [T, L - 1, F + 2 + H], see `Places.rows`.
        node, head: int64 [T].
        source, target: int64 [E], the edges.
        first, end: int64 [N], the nodes first .. end - 1 are those of the node's problem.
        graph: int64 [N], its number; `of_tensor` int64 [T], that of each tensor's.
    """

    inputs: Tensor
    node: Tensor
    head: Tensor
    source: Tensor
    target: Tensor
    first: Tensor
    end: Tensor
    graph: Tensor
    of_tensor: Tensor
    count: int

    @staticmethod
    def of(given: Sequence[Places]) -> Batch:
        """For places with known edges, all with equal numbers of memories and of decisions."""
        nodes = np.array([places.shape[0] for places in given])
        start = np.cumsum(nodes) - nodes
        tensors = [len(places.node) for places in given]
        edges = [np.zeros((2, 0), np.int64) if p.edge_index is None else p.edge_index for p in given]
        joined = np.concatenate([e + at for e, at in zip(edges, start, strict=True)], axis=1)
        numbers = {
            "node": np.concatenate([p.node + at for p, at in zip(given, start, strict=True)]),
            "head": np.concatenate([p.head for p in given]),
            "source": joined[0],
            "target": joined[1],
            "first": np.repeat(start, nodes),
            "end": np.repeat(start + nodes, nodes),
            "graph": np.repeat(np.arange(len(given)), nodes),
            "of_tensor": np.repeat(np.arange(len(given)), tensors),
        }
        rows = torch.from_numpy(np.concatenate([p.rows for p in given]))
        return Batch(rows, **{k: torch.from_numpy(v) for k, v in numbers.items()}, count=len(given))


class ContextModule(nn.Module):
    """Two layers; parameters are in the order of `ContextNetwork.weight_format`, and have its names."""

    def __init__(self, features: int, heads: int, width: int) -> None:
        super().__init__()
        self.heads = heads
        self.encode = nn.Linear(features + ENDS + heads, width)
        self.mix = nn.Linear(width * (1 + PARTS * heads), width)
        self.decide = nn.Linear(width, 1)
        self.free = nn.Linear(heads * width, 1, bias=False)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What is added to scores [T, L - 1], and to the weights of `free` [K]."""
        z = torch.relu(self.encode(batch.inputs))
        width = z.shape[2]
        nodes = len(batch.graph)
        of_op = z.new_zeros(nodes * self.heads, width)
        of_op = of_op.index_add(0, batch.node * self.heads + batch.head, z.mean(dim=1)).view(nodes, -1)
        everywhere = _means(of_op, batch.graph, batch.count)
        around = [
            of_op,
            _means(of_op[batch.source], batch.target, nodes),
            _means(of_op[batch.target], batch.source, nodes),
            *_windows(of_op, batch),
            everywhere[batch.graph],
        ]
        own, mixing = self.mix.weight[:, :width], self.mix.weight[:, width:]
        mixed = torch.cat(around, dim=1) @ mixing.T + self.mix.bias
        hidden = torch.relu(z @ own.T + mixed[batch.node].unsqueeze(1))
        return self.decide(hidden).squeeze(2), self.free(everywhere).squeeze(1)


def _windows(values: Tensor, batch: Batch) -> list[Tensor]:
    """Means of [N, V] over the nodes of the same problem that are at most so many steps away."""
    total = torch.cat([values.new_zeros(1, values.shape[1]), values.cumsum(dim=0)])
    at = torch.arange(len(values))
    found = []
    for steps in WINDOWS:
        first, end = torch.maximum(at - steps, batch.first), torch.minimum(at + steps + 1, batch.end)
        found.append((total[end] - total[first]) / (end - first).unsqueeze(1))
    return found


def _means(values: Tensor, at: Tensor, count: int) -> Tensor:
    """The means float32 [count, V] of the rows of values that belong to each number; 0 where there are none."""
    total = values.new_zeros(count, values.shape[1]).index_add(0, at, values)
    return total / torch.bincount(at, minlength=count).clamp(min=1).unsqueeze(1)
