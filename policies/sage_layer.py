"""A GraphSAGE layer with the mean aggregator, over all neighbours in both directions of the edges.

Source: Hamilton, Ying and Leskovec, "Inductive representation learning on large graphs" (NIPS 2017), Algorithm 1.

Deviations: as in `policies/graphsage.py`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from policies.graph import Graph


class SageLayer(nn.Module):
    """W_l mean(h of neighbours) + b + W_r h, of states [N, B, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin_l = nn.Linear(width, width)
        self.lin_r = nn.Linear(width, width, bias=False)

    def forward(self, h: Tensor, graph: Graph) -> Tensor:
        """[N, B, width] -> [N, B, width]; a node without neighbours reads zeros."""
        # One product for the whole batch: [N, N] @ [N, B * width].
        near, back = neighbours(graph, str(h.device))
        mean = _Mean.apply(h.flatten(1), near, back).view_as(h)  # type: ignore[no-untyped-call]
        out: Tensor = self.lin_l(mean) + self.lin_r(h)
        return out


class _Mean(torch.autograd.Function):
    """A sparse matrix times states: the gradient goes back through its transpose, which is at hand."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, near: Tensor, back: Tensor) -> Tensor:
        ctx.back = back
        return torch.sparse.mm(near, h)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return torch.sparse.mm(ctx.back, grad.contiguous()), None, None


@lru_cache(maxsize=64)
def neighbours(graph: Graph, device: str) -> tuple[Tensor, Tensor]:
    """The sparse matrix [N, N] that takes the mean over a node's neighbours (itself not), and its transpose."""
    # The matrices are kept, and training reads them: tensors of inference mode could not be used there.
    with torch.inference_mode(False):
        source, target = graph.edges[:, graph.edges[0] != graph.edges[1]].cpu()
        degree = torch.bincount(target, minlength=graph.nodes).float()
        share, size = 1 / degree[target], (graph.nodes, graph.nodes)
        # Edges are sorted by target, so the matrix is in order as it stands; its transpose is not.
        pairs = ((torch.stack([target, source]), True), (torch.stack([source, target]), False))
        found = [
            torch.sparse_coo_tensor(at, share, size, is_coalesced=in_order, check_invariants=False)
            .coalesce()
            .to(device)
            for at, in_order in pairs
        ]
    return found[0], found[1]
