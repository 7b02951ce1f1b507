"""Graph attention: a layer of GATv2 over the edges of a graph.

Source: Brody et al., "How Attentive are Graph Attention Networks?" (ICLR 2022), equations 4 and 7.

Parameters, their names and the order of the sums are those of torch-geometric's `GATv2Conv` without self loops, so
that weights can be exchanged; the tests hold the layer to it. It is built here because importing torch-geometric takes
longer than a short search.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SLOPE = 0.2
"""Negative slope of the leaky rectifier in the attention."""
_TINY = 1e-16
"""Added to the sum of a softmax, as torch-geometric does."""


class GraphAttention(nn.Module):
    """Several heads of attention, their channels joined: every node sums what its neighbours give, by their scores."""

    def __init__(self, width: int, heads: int) -> None:
        """States of `width` numbers, a multiple of `heads`. Attention scores and the bias are left undefined."""
        super().__init__()
        self.heads, self.channels = heads, width // heads
        # Own parameters come before those of the linear maps, whatever the order here: weight files rely on it.
        self.att = nn.Parameter(torch.empty(1, heads, self.channels))
        self.bias = nn.Parameter(torch.empty(width))
        self.lin_l = nn.Linear(width, width)
        self.lin_r = nn.Linear(width, width)

    def forward(self, h: Tensor, edges: Tensor) -> Tensor:
        """New states [N, width] of states h [N, width]; edges int64 [2, E] lead from a source to a target.

        A node that no edge leads to gets the bias alone.
        """
        source, target = edges
        given = self.lin_l(h).view(-1, self.heads, self.channels).index_select(0, source)
        asked = self.lin_r(h).view(-1, self.heads, self.channels).index_select(0, target)
        score = (F.leaky_relu(asked + given, SLOPE) * self.att).sum(dim=-1)
        message = given * _shares(score, target, len(h)).unsqueeze(-1)
        # scatter_add, not index_add: its gradient is a gather, and it adds in the order of the edges on every CPU.
        at = target.view(-1, 1, 1).expand_as(message)
        out = message.new_zeros(len(h), self.heads, self.channels).scatter_add_(0, at, message)
        return out.view(-1, self.heads * self.channels) + self.bias


def _shares(score: Tensor, target: Tensor, nodes: int) -> Tensor:
    """Softmax [E, heads] of scores over the edges into each node."""
    at = target.unsqueeze(1).expand_as(score)
    # The greatest score is subtracted, so that exp does not overflow; it takes no gradient, as it changes nothing.
    greatest = score.new_zeros(nodes, score.shape[1])
    greatest = greatest.scatter_reduce_(0, at, score.detach(), "amax", include_self=False)
    share = (score - greatest.index_select(0, target)).exp()
    total = share.new_zeros(nodes, score.shape[1]).scatter_add_(0, at, share) + _TINY
    return share / total.index_select(0, target)
