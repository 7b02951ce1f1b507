"""Twin critic: two estimates of the return of a whole mapping, from node features and a (soft) action.

Source: EGRL, appendix D (two Q heads after Fujimoto et al. 2018, noisy one-hot actions). Message passing
follows Kipf and Welling, "Semi-supervised classification with graph convolutional
networks" (ICLR 2017), equation 2.

Deviations:
- EGRL does not give the critic's shape. Here: width 64, 3 layers, mean over the nodes, a two-layer
  perceptron; the two critics share no weights but run as one batched pass.
- Edges are undirected, layers residual; no attention: a batch of mappings needs many critic passes, and the
  critic must be cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import Doc

from policies.graph import Graph
from policies.weight_vector import WeightFormat, Weights, assign, weight_format_of

TWINS = 2


@dataclass(frozen=True)
class CriticConfig:
    """Shape of each critic."""

    width: Annotated[int, Doc("numbers in the state of a node")] = 64
    layers: Annotated[int, Doc("layers of message passing")] = 3

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 4096 or not 0 <= self.layers <= 32:
            raise ValueError(
                f"critic: expected width 1..4096 and layers 0..32, received {self.width} and {self.layers}"
            )


class Critic(nn.Module):
    """Q1 and Q2 over (graph, action). F features, H decisions a node, C choices a decision."""

    def __init__(
        self,
        config: CriticConfig,
        features: int,
        heads: int,
        choices: int,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Weights are drawn from `rng`; without one they are left undefined for the caller to assign."""
        super().__init__()
        self.config, self.features, self.action_size = config, features, heads * choices
        width, layers = config.width, config.layers

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(TWINS, *shape))

        self.node_weight, self.action_weight = empty(features, width), empty(self.action_size, width)
        self.entry_bias = empty(1, width)
        self.layer_weight = nn.ParameterList(empty(width, width) for _ in range(layers))
        self.layer_bias = nn.ParameterList(empty(1, width) for _ in range(layers))
        self.hidden_weight, self.hidden_bias = empty(width, width), empty(1, width)
        self.value_weight, self.value_bias = empty(width, 1), empty(1, 1)
        if rng is not None:
            assign(self, draw_critic_weights(weight_format_of(self.named_parameters()), rng))

    def forward(self, x: Tensor, graph: Graph, action: Tensor) -> Tensor:
        """Values [2, B] of actions [B, N, H*C] in one state x [N, F].

        Rows of an action are (noisy) one-hots or probabilities, all zero where a decision is unused. The part
        that depends on x alone is computed once a state.
        Raises ValueError where shapes do not fit.
        """
        nodes, batch = graph.nodes, len(action)
        if action.dim() != 3 or action.shape[1:] != (nodes, self.action_size):
            raise ValueError(
                f"action: expected shape [B, {nodes}, {self.action_size}], received {list(action.shape)}"
            )
        if x.shape != (nodes, self.features):
            raise ValueError(f"x: expected shape [{nodes}, {self.features}], received {list(x.shape)}")
        # Nodes before the batch, [N, B, ...], so that one sparse product serves all of the batch. What depends
        # on x alone has a batch of 1, and is spread by the addition.
        width = self.config.width
        node = torch.baddbmm(self.entry_bias, _twice(x.unsqueeze(1)), self.node_weight)
        h = torch.bmm(_twice(action.transpose(0, 1)), self.action_weight).view(TWINS, nodes, batch, width)
        h = torch.relu(h + node.view(TWINS, nodes, -1, width))
        # The two critics are two disjoint copies of the graph.
        adjacency = graph.adjacency(TWINS)
        for weight, bias in zip(self.layer_weight, self.layer_bias, strict=True):
            message = _neighbours(h.reshape(TWINS * nodes, -1), adjacency)
            message = torch.baddbmm(bias, message.view(TWINS, -1, width), weight)
            h = h + torch.relu(message).view_as(h)
        pooled = h.mean(dim=1)
        hidden = torch.relu(torch.baddbmm(self.hidden_bias, pooled, self.hidden_weight))
        value: Tensor = torch.baddbmm(self.value_bias, hidden, self.value_weight).squeeze(-1)
        return value


def _twice(rows: Tensor) -> Tensor:
    """[N, B, K] as [2, N*B, K], one copy a critic."""
    return rows.reshape(1, -1, rows.shape[-1]).expand(TWINS, -1, -1)


class _Neighbours(torch.autograd.Function):
    """Product of a symmetric sparse matrix with dense rows; being symmetric, it is its own backward."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, adjacency: Tensor) -> Tensor:
        ctx.save_for_backward(adjacency)
        product: Tensor = torch.sparse.mm(adjacency, rows)
        return product

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (adjacency,) = ctx.saved_tensors
        return torch.sparse.mm(adjacency, gradients[0].contiguous()), None


_neighbours: Callable[[Tensor, Tensor], Tensor] = cast(Any, _Neighbours).apply


def draw_critic_weights(weight_format: WeightFormat, rng: np.random.Generator) -> Weights:
    """Initial weights float32 [P] of a `Critic`: Glorot-uniform matrices, zero biases."""
    weights = np.zeros(weight_format.size, dtype=np.float32)
    for segment in weight_format.segments:
        if "bias" not in segment.name:
            bound = np.float32((6.0 / (segment.shape[-1] + segment.shape[-2])) ** 0.5)
            values = rng.random(segment.size, dtype=np.float32) * 2 - 1
            weights[segment.offset : segment.end] = values * bound
    return weights
