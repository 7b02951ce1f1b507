"""A whole population of actors in one pass: M networks of one shape on one observation.

The networks are stacked: linear maps are batched matrix products, the M graphs (each pools its own nodes) are
one union of disjoint graphs. The result is what each `GraphUNet` gives alone, up to rounding. Networks of
torch-geometric (`policies.pyg`) are evaluated one after the other.

A graph of more than `policies.roles.NODES` nodes is seen as the roles that its nodes play; a `Notice` says so.

Source: as `policies.graph_unet`; the attention layer is Brody et al. (ICLR 2022), equations 4 and 7.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from policies.attention import SLOPE
from policies.graph import Graph, edges_between, square, union
from policies.masking import masked_log_probs
from policies.network import GRAPH_UNET, NetworkConfig
from policies.pooling import choose, pool, pooled_size, projection, union_numbers, unpool
from policies.pyg import draw_actor, make_actor
from policies.roles import NODES, Roles, roles
from policies.weight_vector import WeightFormat, Weights
from workloads.errors import Notice

NODES_A_PASS = 4096
"""Nodes of all members together in one pass: larger populations go in several, so that caches are not missed."""


class StackedActor:
    """Evaluates M actors of one shape, given as weight vectors [M, P]."""

    def __init__(
        self,
        config: NetworkConfig,
        features: int,
        heads: int,
        choices: int,
        device: str = "cpu",
    ) -> None:
        """For F features, H decisions a node and C choices a decision; evaluates on a torch device."""
        self.device = torch.device(device)
        self.config, self.features, self.heads, self.choices = config, features, heads, choices
        single = make_actor(config, features, heads, choices).to(self.device)
        self.weight_format: WeightFormat = single.weight_format
        self._single = None if config.name == GRAPH_UNET else single
        self._seen: tuple[NDArray[np.float32], Graph, Roles] | None = None

    def draw(self, rng: np.random.Generator) -> Weights:
        """Initial weights float32 [P] of one actor."""
        return draw_actor(self.config, self.weight_format, self.features, self.heads, self.choices, rng)

    def probabilities(
        self,
        weights: NDArray[np.float32],
        x: NDArray[np.float32],
        graph: Graph,
        num_choices: NDArray[np.int16],
    ) -> NDArray[np.float32]:
        """Probabilities float32 [M, N, H, C] of weights [M, P] on x [N, F]; 0 for illegal choices.

        A choice is legal where it is below num_choices [N, H]. Raises ValueError where a shape does not fit.
        """
        counts = torch.from_numpy(num_choices).to(self.device)
        with torch.inference_mode():
            parts = [masked_log_probs(logits, counts).exp() for logits in self._in_passes(weights, x, graph)]
            return torch.cat(parts).cpu().numpy()

    def all_logits(
        self, weights: NDArray[np.float32], x: NDArray[np.float32], graph: Graph
    ) -> NDArray[np.float32]:
        """Logits float32 [M, N, H, C] of weights [M, P] on x [N, F]. Raises ValueError where a shape does not fit."""
        with torch.inference_mode():
            return torch.cat(list(self._in_passes(weights, x, graph))).cpu().numpy()

    def _in_passes(
        self, weights: NDArray[np.float32], x: NDArray[np.float32], graph: Graph
    ) -> Iterator[Tensor]:
        """Logits [m, N, H, C] of as many members at a time as a pass takes."""
        self.weight_format.check(weights)
        given = None if graph.nodes <= NODES else self._roles(x, graph)
        x, graph = (x, graph) if given is None else (given.x, given.graph)
        step = max(1, NODES_A_PASS // graph.nodes)
        role = None if given is None else torch.from_numpy(given.of).to(self.device)
        for first in range(0, len(weights), step):
            logits = self.logits(weights[first : first + step], x, graph)
            yield logits if role is None else logits.index_select(1, role)

    def _roles(self, x: NDArray[np.float32], graph: Graph) -> Roles:
        """Roles of the last graph and features are remembered: most populations see the same ones all the time."""
        seen = self._seen
        if seen is None or seen[1] is not graph or not np.array_equal(seen[0], x):
            self._seen = seen = (x.copy(), graph, roles(x, graph))
            text = f"networks see the {graph.nodes:,} nodes as {len(seen[2].x):,} roles"
            warnings.warn(Notice(text), stacklevel=4)
        return seen[2]

    def logits(self, weights: NDArray[np.float32], x: NDArray[np.float32], graph: Graph) -> Tensor:
        """Logits [M, N, H, C] of weights [M, P] on x [N, F]. Raises ValueError where a shape does not fit."""
        self.weight_format.check(weights)
        if x.shape != (graph.nodes, self.features):
            raise ValueError(f"x: expected shape [{graph.nodes}, {self.features}], received {list(x.shape)}")
        graph, vectors = graph.on(self.device), torch.from_numpy(np.atleast_2d(weights)).to(self.device)
        w = self.weight_format.views(vectors)
        if self._single is not None:
            state = torch.from_numpy(x).to(self.device)
            each = [{name: views[m] for name, views in w.items()} for m in range(len(vectors))]
            return torch.stack([functional_call(self._single, own, (state, graph)) for own in each])
        members, nodes = len(w["decide.bias"]), graph.nodes
        # h is [M, n, width] throughout; `edges` number the nodes of all members, M * n of them.
        edges, near = union(graph.edges, members, nodes), union(graph.two_hop, members, nodes)
        h = _linear(torch.from_numpy(x).to(self.device).expand(members, -1, -1), w, "encode")
        h = self._layer(h, edges, w, "down", 0)
        # What the way up needs of each level, finest first: states, edges, and the nodes that went on.
        path: list[tuple[Tensor, Tensor, Tensor]] = []
        for level in range(1, self.config.depth + 1):
            keep = pooled_size(nodes, self.config.pool_ratio)
            score = projection(h, w[f"pool_direction.{level - 1}"][:, 0])
            chosen = choose(score, keep)
            path.append((h, edges, chosen))
            h = pool(h, score, chosen)
            # Pooled nodes are joined where they are two edges apart; of the whole graph that is known already.
            near = square(edges, members, nodes) if level > 1 else near
            edges = edges_between(near, union_numbers(chosen, nodes), members * nodes)
            nodes = keep
            h = self._layer(h, edges, w, "down", level)
        for level, (skip, edges, chosen) in enumerate(reversed(path)):
            h = self._layer(unpool(h, chosen, skip), edges, w, "up", level)
        h = _linear(_normalise(h, w, "last_norm"), w, "decide")
        return h.view(members, graph.nodes, self.heads, self.choices)

    def _layer(self, h: Tensor, edges: Tensor, w: dict[str, Tensor], side: str, level: int) -> Tensor:
        message = _attend(h, edges, w, f"{side}.{level}", self.config.attention_heads)
        return h + F.elu(_normalise(message, w, f"{side}_norm.{level}"))


def _linear(h: Tensor, w: dict[str, Tensor], name: str) -> Tensor:
    return torch.baddbmm(w[f"{name}.bias"].unsqueeze(1), h, w[f"{name}.weight"].transpose(1, 2))


def _normalise(h: Tensor, w: dict[str, Tensor], name: str) -> Tensor:
    gain, shift = w[f"{name}.weight"].unsqueeze(1), w[f"{name}.bias"].unsqueeze(1)
    return torch.addcmul(shift, F.layer_norm(h, h.shape[-1:]), gain)


def _attend(h: Tensor, edges: Tensor, w: dict[str, Tensor], name: str, heads: int) -> Tensor:
    """One GATv2 layer of every member: h [M, n, width] -> [M, n, width]."""
    members, nodes, width = h.shape
    # Per edge: [E, heads, channels], E of all members together; `nodes` shows an edge's member.
    source, target = edges
    left = _linear(h, w, f"{name}.lin_l").view(members * nodes, heads, -1)
    right = _linear(h, w, f"{name}.lin_r").view(members * nodes, heads, -1)
    given = left.index_select(0, source)
    mixed = F.leaky_relu_(right.index_select(0, target).add_(given), SLOPE)
    attention = w[f"{name}.att"].view(members, heads, -1)
    score = mixed.mul_(attention.index_select(0, target // nodes)).sum(dim=-1)
    # Softmax over the edges into each node; its greatest score is subtracted, so that exp does not overflow.
    greatest = score.new_full((members * nodes, heads), -torch.inf)
    greatest.scatter_reduce_(0, target.unsqueeze(1).expand(-1, heads), score, "amax")
    share = (score - greatest.index_select(0, target)).exp_()
    total = share.new_zeros(members * nodes, heads).index_add_(0, target, share)
    share = share / total.index_select(0, target)
    out = left.new_zeros(members * nodes, heads, width // heads)
    out.index_add_(0, target, given.mul_(share.unsqueeze(-1)))
    return out.view(members, nodes, width) + w[f"{name}.bias"].unsqueeze(1)
