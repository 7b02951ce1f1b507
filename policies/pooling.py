"""Top-k pooling and unpooling of M equal-sized graphs at once.

Source: Gao and Ji, "Graph U-Nets" (ICML 2019), sections 3.1 and 3.2.

Deviations:
- Nodes are ranked by their projection before the tanh (which saturates and makes ties) and rounded to
  1 / `RANK_STEPS`, so that rounding errors do not order nodes that are equal; ties go to the lower number.
- Chosen nodes keep their order, so that edges stay sorted. The layers are blind to the order of nodes.
"""

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor

RANK_STEPS = 4096
"""Ranking resolution: projections closer than 1 / RANK_STEPS count as equal."""


def pooled_size(nodes: int, ratio: float) -> int:
    """Nodes that remain of `nodes`: ceil(ratio x nodes), at least 1."""
    return max(1, ceil(ratio * nodes))


def projection(x: Tensor, direction: Tensor) -> Tensor:
    """Scores [M, n] of node states [M, n, width] along a direction [M or 1, width] scaled to length 1."""
    unit = direction / direction.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    score: Tensor = (x * unit.unsqueeze(-2)).sum(dim=-1)
    return score


def choose(score: Tensor, keep: int) -> Tensor:
    """The `keep` best of scores [M, n]: int64 [M, keep], ascending node numbers."""
    # Stable, so that equal ranks stay in the order of their numbers.
    rank = (score.detach() * RANK_STEPS).round()
    best = rank.sort(dim=1, descending=True, stable=True).indices[:, :keep]
    return best.sort(dim=1).values


def pool(x: Tensor, score: Tensor, chosen: Tensor) -> Tensor:
    """States [M, keep, width] of the chosen nodes, each scaled by tanh of its score."""
    gate = score.gather(1, chosen).tanh().unsqueeze(-1)
    return x.gather(1, chosen.unsqueeze(-1).expand(-1, -1, x.shape[-1])) * gate


def unpool(x: Tensor, chosen: Tensor, skip: Tensor) -> Tensor:
    """Skip states [M, n, width] plus x [M, keep, width] put back at the chosen nodes."""
    return skip.scatter_add(1, chosen.unsqueeze(-1).expand(-1, -1, x.shape[-1]), x)


def union_numbers(chosen: Tensor, nodes: int) -> Tensor:
    """Numbers in the union of M graphs of `nodes` nodes of chosen [M, keep], ascending int64 [M * keep]."""
    return (chosen + torch.arange(len(chosen), device=chosen.device).mul_(nodes).unsqueeze(1)).view(-1)
