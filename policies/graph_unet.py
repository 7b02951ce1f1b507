"""Graph U-Net actor: node features and edges in, logits of every decision out.

Sources: Gao and Ji, "Graph U-Nets" (ICML 2019); Brody et al., "How Attentive are Graph Attention Networks?"
(ICLR 2022) for the layers; EGRL, section 3 and Table 2 for depth 4, width 128 and 4 attention heads.

Deviations:
- A linear map brings the features to the width; every attention layer is residual and followed by layer
  normalisation. Batch normalisation would keep state outside the weights, which migration does not copy.
- Pooled levels: see `policies.graph` (cap on two-hop edges) and `policies.pooling` (ranking).
- Skip connections add (Gao and Ji leave it open). The two decisions of a node share all but the last layer.
- States are normalised before the output layer, whose weights are N(0, (gain / sqrt(width))^2): initial
  logits have a standard deviation near `gain`, whatever the graph.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from policies.attention import GraphAttention
from policies.graph import Graph, edges_between, square, union
from policies.network import NetworkConfig
from policies.pooling import choose, pool, pooled_size, projection, union_numbers, unpool
from policies.weight_vector import Segment, WeightFormat, Weights, assign, weight_format_of


class GraphUNet(nn.Module):
    """The actor. F features, H decisions a node and C choices a decision are fixed; the graph is not."""

    def __init__(
        self,
        config: NetworkConfig,
        features: int,
        heads: int,
        choices: int,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Weights are drawn from `rng`; without one they are left undefined for the caller to assign."""
        super().__init__()
        self.config, self.features, self.heads, self.choices = config, features, heads, choices
        width = config.width
        with torch.random.fork_rng(devices=[]):
            self.encode = nn.Linear(features, width)
            self.down = nn.ModuleList(
                GraphAttention(width, config.attention_heads) for _ in range(config.depth + 1)
            )
            self.down_norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.depth + 1))
            self.pool_direction = nn.ParameterList(
                nn.Parameter(torch.empty(1, width)) for _ in range(config.depth)
            )
            self.up = nn.ModuleList(
                GraphAttention(width, config.attention_heads) for _ in range(config.depth)
            )
            self.up_norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.depth))
            self.last_norm = nn.LayerNorm(width)
            self.decide = nn.Linear(width, heads * choices)
        if rng is not None:
            assign(self, draw_weights(self.weight_format, config, rng))

    @property
    def weight_format(self) -> WeightFormat:
        """Where each tensor lies in the weight vector."""
        return weight_format_of(self.named_parameters())

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Logits [N, H, C] of features x [N, F], or [B, N, H, C] of several states x [B, N, F] of the graph.

        Raises ValueError where x does not fit the graph or the network.
        """
        if x.shape[-2:] != (graph.nodes, self.features) or x.dim() not in (2, 3):
            raise ValueError(
                f"x: expected shape [..., {graph.nodes}, {self.features}], received {list(x.shape)}"
            )
        states = x if x.dim() == 3 else x.unsqueeze(0)
        batch, nodes = len(states), graph.nodes
        # h is [B, n, width] throughout; `edges` number the nodes of all states, B * n of them.
        edges, near = union(graph.edges, batch, nodes), union(graph.two_hop, batch, nodes)
        h = self._layer(self.down[0], self.down_norm[0], self.encode(states), edges)
        # What the way up needs of each level, finest first: states, edges, and the nodes that went on.
        path: list[tuple[Tensor, Tensor, Tensor]] = []
        for level, direction in enumerate(self.pool_direction, start=1):
            keep = pooled_size(nodes, self.config.pool_ratio)
            score = projection(h, direction)
            chosen = choose(score, keep)
            path.append((h, edges, chosen))
            h = pool(h, score, chosen)
            # Pooled nodes are joined where they are two edges apart; of the whole graph that is known already.
            near = square(edges, batch, nodes) if level > 1 else near
            edges = edges_between(near, union_numbers(chosen, nodes), batch * nodes)
            nodes = keep
            h = self._layer(self.down[level], self.down_norm[level], h, edges)
        for level, (skip, edges, chosen) in enumerate(reversed(path)):
            h = self._layer(self.up[level], self.up_norm[level], unpool(h, chosen, skip), edges)
        logits: Tensor = self.decide(self.last_norm(h)).unflatten(-1, (self.heads, self.choices))
        return logits if x.dim() == 3 else logits[0]

    @staticmethod
    def _layer(attention: nn.Module, norm: nn.Module, h: Tensor, edges: Tensor) -> Tensor:
        message: Tensor = attention(h.reshape(-1, h.shape[-1]), edges)
        return h + F.elu(norm(message.view_as(h)))


def draw_weights(weight_format: WeightFormat, config: NetworkConfig, rng: np.random.Generator) -> Weights:
    """Initial weights float32 [P] of a `GraphUNet`: Glorot-uniform matrices, zero biases, unit norms."""
    weights = np.zeros(weight_format.size, dtype=np.float32)
    for segment in weight_format.segments:
        weights[segment.offset : segment.end] = _draw(segment, config, rng).reshape(-1)
    return weights


def _draw(segment: Segment, config: NetworkConfig, rng: np.random.Generator) -> Weights:
    name, shape = segment.name, segment.shape
    values: Weights
    if name == "decide.weight":
        scale = np.float32(config.output_gain / config.width**0.5)
        values = rng.standard_normal(shape, dtype=np.float32) * scale
        return values
    if name.endswith("bias"):
        return np.zeros(shape, dtype=np.float32)
    if "norm" in name:
        return np.ones(shape, dtype=np.float32)
    bound = np.float32((6.0 / (shape[-1] + shape[-2])) ** 0.5)
    values = (rng.random(shape, dtype=np.float32) * 2 - 1) * bound
    return values
