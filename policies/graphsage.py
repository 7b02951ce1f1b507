"""GraphSAGE actor and critic: node features, edges and an earlier mapping in; logits and a value out.

Sources: Hamilton, Ying and Leskovec, "Inductive representation learning on large graphs" (NIPS 2017), Algorithm 1 with
the mean aggregator; "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", section
4.1 (equation 7: logits of a pass see the mapping of the pass before) and section 5.1 (8 layers of 128, a head of two).

Deviations:
- Layers are residual and followed by layer normalisation instead of being scaled to length 1; all neighbours are read,
  not a sample of them; edges count in both directions.
- One head serves all choices: a node's *query* is multiplied with a choice's *key*, a network over where the choice
  lies among its decision's (0 = first, 1 = last, and waves of that). So no weight belongs to a choice, and a policy
  reads problems with any number of them. The paper's output layer has a column a chip.
- How far a choice is from the earlier one (`-REACH` to `REACH`, what is beyond at its ends) has a logit of its own,
  which is -stay times that distance before any learning. Where stay is not 0, choices other than the earlier one lose
  the logarithm of the number of nodes in units of `SMALL_GRAPH_NODES` besides: about as many nodes move in large
  networks as in small ones.
- Without an earlier stage a node's logits fall with the distance from where it belongs, which is where the pipeline
  would lie evenly (`Stages.even`) before any learning, and as steeply as `slope`; queries and keys then say nothing. So
  one number per node is learned instead of one per choice, and what is learned on small networks goes on on large ones.
- A choice loses logits by its *heat*, how near it is to setting the pace of a pipeline; each node has a factor of its
  own, which is `leave` before any learning. Nor is that in the paper.
- With `crowds` a node sees the sum over all nodes that had its choice, and keys see it of their choice: how full a
  chip was; how it lies in its stage (`Stages.situation`); and the mean over all nodes: what kind of network it is in.
- The value is a layer over the mean of the nodes; the paper says nothing of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Doc

from policies.graph import Graph
from policies.weight_vector import Segment, WeightFormat, Weights, assign, weight_format_of


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


REACH = 3
"""Distances between choices that have a logit of their own."""
SMALL_GRAPH_NODES = 15
"""Nodes of a network in which choices other than the earlier one lose `stay` alone (own choice)."""
SHIFT, STRETCH = 0.3, 1.5
"""How far a place may be learned to lie from the even one: added, then multiplied (its logarithm)."""
SITUATION = 5
"""Columns of `Stages.situation`."""
Steepness = Annotated[float, Ge(0), Le(20)]


class Stages(NamedTuple):
    """What is known of choices that are stages of a pipeline, of B mappings.

    Attributes:
        heat: float32 [B, H, C] in 0..1, how near each is to setting the pace.
        even: float32 [N], where in 0..1 each node lies in a pipeline of equally full stages.
        situation: float32 [B, N, H, 5], how each node lies in its stage.
    """

    heat: Tensor
    even: Tensor
    situation: Tensor


@dataclass(frozen=True)
class GraphSageConfig:
    """Shape of the network (the paper's is 8 layers of 128)."""

    layers: Annotated[int, Ge(0), Le(64), Doc("GraphSAGE layers")] = 2
    width: Annotated[int, Ge(1), Le(4096), Doc("numbers in the state of a node")] = 32
    waves: Annotated[
        int, Ge(1), Le(64), Doc("pairs of cosine and sine that stand for the place of a choice")
    ] = 8
    crowds: Annotated[
        bool,
        Doc("let nodes and choices see what else has the same choice, and nodes what lies around them"),
    ] = True
    slope: Annotated[
        Steepness,
        Doc(
            "logits that a choice loses per step away from where a node without an earlier choice"
            " belongs, before any learning; 0: such logits come from queries and keys, as in the paper"
        ),
    ] = 4.0
    stay: Annotated[
        Steepness,
        Doc("logits that a choice loses per step away from the earlier one, before any learning; 0: none"),
    ] = 2.0
    leave: Annotated[
        Steepness, Doc("logits that the choice of the fullest stage loses, before any learning")
    ] = 4.0
    output_gain: Annotated[
        float, Gt(0), Le(100), Doc("standard deviation, roughly, of the initial logits")
    ] = 0.3


class GraphSage(nn.Module):
    """The network of the module, for F features and H decisions per node; graph and choices may vary."""

    def __init__(
        self, config: GraphSageConfig, features: int, heads: int, rng: np.random.Generator | None = None
    ) -> None:
        """Weights are drawn from `rng`; without one they are left undefined for the caller to assign."""
        super().__init__()
        self.config, self.features, self.heads = config, features, heads
        width, basis = config.width, 2 + 2 * config.waves
        with torch.random.fork_rng(devices=[]):
            self.encode = nn.Linear(features, width)
            self.earlier = nn.Linear(heads * basis, width, bias=False)
            self.crowd = nn.Linear(heads * width, width, bias=False) if config.crowds else None
            self.lie = nn.Linear(heads * SITUATION, width, bias=False) if config.crowds else None
            self.whole = nn.Linear(width, width, bias=False) if config.crowds else None
            self.first_norm = nn.LayerNorm(width)
            self.layers = nn.ModuleList(SageLayer(width) for _ in range(config.layers))
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.layers))
            self.last_norm = nn.LayerNorm(width)
            self.hidden = nn.Linear(width, width)
            self.query = nn.Linear(width, heads * width)
            self.near = nn.Linear(width, heads * (2 * REACH + 1))
            self.leave = nn.Linear(width, heads)
            self.place = nn.Linear(width, 2 * heads)
            self.slope = nn.Linear(width, heads)
            self.key_hidden = nn.Linear(basis, width)
            self.key = nn.Linear(width, width)
            self.crowd_key = nn.Linear(width, width, bias=False) if config.crowds else None
            self.value_hidden = nn.Linear(width, width)
            self.value = nn.Linear(width, 1)
        if rng is not None:
            assign(self, draw_weights(self.weight_format, config, rng))

    @property
    def weight_format(self) -> WeightFormat:
        """Where each tensor lies in the weight vector."""
        return weight_format_of(self.named_parameters())

    def forward(
        self,
        x: Tensor,
        earlier: Tensor,
        graph: Graph,
        num_choices: Tensor,
        stages: Stages | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits and values of B states of one graph.

        Args:
            x: float32 [N, F].
            earlier: int64 [B, N, H], the mapping before each; -1: nothing decided there yet.
            graph: N nodes.
            num_choices: int64 [N, H], at least 1.
            stages: of the mappings before, where choices are stages; None where they are not.

        Returns logits float32 [B, N, H, C], C being the most choices (those beyond a decision's own mean nothing), and
        values float32 [B]. Raises ValueError where a shape does not fit.
        """
        nodes, heads = graph.nodes, self.heads
        if x.shape != (nodes, self.features):
            raise ValueError(f"x: expected shape [{nodes}, {self.features}], received {list(x.shape)}")
        if earlier.dim() != 3 or earlier.shape[1:] != (nodes, heads):
            raise ValueError(f"earlier: expected shape [B, {nodes}, {heads}], received {list(earlier.shape)}")
        batch, choices = len(earlier), int(num_choices.max())
        # Nodes come before the batch, [N, B, ...], so that a layer is one sparse product for the whole batch.
        before = earlier.transpose(0, 1)
        known = before >= 0
        place = before.clamp(min=0) / (num_choices - 1).clamp(min=1).unsqueeze(1)
        seen = self._waves(place) * known.unsqueeze(-1)
        h = self.encode(x).unsqueeze(1) + self.earlier(seen.flatten(2))
        if stages is not None and self.lie is not None:
            h = h + self.lie(stages.situation.transpose(0, 1).flatten(2))
        h = F.relu(self.first_norm(h))
        # The mean over nodes first, then the crowds: these sum states that know what network they are in.
        if self.whole is not None:
            h = h + self.whole(h.mean(dim=0))
        full: Tensor | None = None
        if self.crowd is not None:
            full, own = self._crowds(h, before.clamp(min=0), known, choices)
            h = h + self.crowd(own)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = h + F.relu(norm(layer(h, graph)))
        h = self.last_norm(h)
        value = self.value(F.relu(self.value_hidden(h.mean(dim=0)))).squeeze(-1)
        hidden = F.relu(self.hidden(h))
        query = self.query(hidden).view(nodes, batch, heads, -1)
        logits = self._match(query, full, num_choices, choices)
        logits = logits + self._distance(hidden, before, known, choices)
        if stages is not None:
            logits = logits - self.leave(hidden).view(nodes, batch, heads, 1) * stages.heat
            if self.config.slope > 0:
                # Nodes without an earlier choice take these logits alone: queries and keys say nothing of them.
                draft = self._draft(hidden, stages.even, num_choices, choices)
                logits = torch.where(known.unsqueeze(-1), logits, draft)
        return logits.transpose(0, 1), value

    def _waves(self, place: Tensor) -> Tensor:
        """Places [...] from 0 to 1 -> [..., 2 + 2 waves]."""
        wave = torch.arange(1, self.config.waves + 1, device=place.device) * math.pi
        angle = place.unsqueeze(-1) * wave
        one = torch.ones_like(place).unsqueeze(-1)
        return torch.cat([one, place.unsqueeze(-1), angle.cos(), angle.sin()], dim=-1)

    def _crowds(self, h: Tensor, before: Tensor, known: Tensor, choices: int) -> tuple[Tensor, Tensor]:
        """Sums of h [N, B, width] over nodes with a choice, in shares of what an even split would have.

        Returns them by choice [B, H, C, width] and for each node's choices [N, B, H * width].
        """
        nodes, batch, width = h.shape
        heads = before.shape[2]
        # A sum for each (mapping, head, choice): `slot` [N, B, H] is its number.
        # Undecided nodes give zeros, to choice 0.
        slot = (torch.arange(batch * heads, device=h.device) * choices).view(batch, heads) + before
        given = (h.unsqueeze(2) * known.unsqueeze(-1)).reshape(-1, width)
        full = h.new_zeros(batch * heads * choices, width).index_add_(0, slot.flatten(), given)
        full = full * (choices / nodes)
        own = full.index_select(0, slot.flatten()).view(nodes, batch, heads, width) * known.unsqueeze(-1)
        return full.view(batch, heads, choices, width), own.flatten(2)

    def _match(self, query: Tensor, full: Tensor | None, num_choices: Tensor, choices: int) -> Tensor:
        """Queries [N, B, H, width] times keys -> [N, B, H, C]."""
        # A key depends on a choice's place among its decision's, so there is a set of keys for each number of choices.
        # Choices beyond that number have the last one's key; they are masked later.
        width = query.shape[-1]
        counts, which = torch.unique(num_choices, return_inverse=True)
        number = torch.arange(choices, device=query.device)
        place = (number / (counts - 1).clamp(min=1).unsqueeze(1)).clamp(max=1.0)
        keys = self.key(F.relu(self.key_hidden(self._waves(place))))
        matched = query @ keys[0].T
        for k in range(1, len(counts)):
            mine = (which == k)[:, None, :, None]
            matched = torch.where(mine, query @ keys[k].T, matched)
        if full is not None and self.crowd_key is not None:
            matched = matched + torch.einsum("nbhw,bhcw->nbhc", query, self.crowd_key(full))
        return matched / math.sqrt(width)

    def _distance(self, hidden: Tensor, before: Tensor, known: Tensor, choices: int) -> Tensor:
        """Logits [N, B, H, C] of how far choices are from those before int64 [N, B, H]."""
        nodes, batch, heads = before.shape
        near = self.near(hidden).view(nodes, batch, heads, -1)
        step = torch.arange(choices, device=hidden.device) - before.clamp(min=0).unsqueeze(-1)
        # `step` [N, B, H, C] is the signed distance of each choice; column REACH of `near` is distance 0.
        logits = near.gather(-1, step.clamp(-REACH, REACH) + REACH)
        if self.config.stay > 0:
            logits = logits - math.log(max(nodes / SMALL_GRAPH_NODES, 1.0)) * (step != 0)
        return logits * known.unsqueeze(-1)

    def _draft(self, hidden: Tensor, even: Tensor, num_choices: Tensor, choices: int) -> Tensor:
        """Logits [N, B, H, C] of how far choices are from where nodes belong."""
        nodes, batch = hidden.shape[:2]
        shift, stretch = self.place(hidden).view(nodes, batch, 2, self.heads).tanh().unbind(dim=2)
        place = ((even.view(-1, 1, 1) + SHIFT * shift) * (STRETCH * stretch).exp()).clamp(0.0, 1.0)
        # A place p of C choices lies in choice floor(p C): the middle of choice c is at (c + 1/2) / C.
        middle = place * num_choices.unsqueeze(1) - 0.5
        slope = F.softplus(self.slope(hidden).view(nodes, batch, self.heads)) + math.log(
            max(nodes / SMALL_GRAPH_NODES, 1.0)
        )
        number = torch.arange(choices, device=hidden.device)
        return -slope.unsqueeze(-1) * (number - middle.unsqueeze(-1)).abs()


def draw_weights(weight_format: WeightFormat, config: GraphSageConfig, rng: np.random.Generator) -> Weights:
    """Initial weights float32 [P]: Glorot-uniform matrices, zero biases, unit norms, `stay` and `leave`."""
    weights = np.zeros(weight_format.size, dtype=np.float32)
    for segment in weight_format.segments:
        weights[segment.offset : segment.end] = _draw(segment, config, rng).reshape(-1)
    return weights


def _draw(segment: Segment, config: GraphSageConfig, rng: np.random.Generator) -> Weights:
    name, shape = segment.name, segment.shape
    if name == "near.bias":
        step = np.abs(np.arange(-REACH, REACH + 1, dtype=np.float32))
        return np.tile(np.float32(-config.stay) * step, shape[0] // len(step))
    if name == "leave.bias":
        return np.full(shape, config.leave, np.float32)
    if name == "slope.bias":
        return np.full(shape, np.log(np.expm1(max(config.slope, 1e-2))), np.float32)
    if name in (
        "place.weight",
        "slope.weight",
        "near.weight",
        "leave.weight",
        "value.weight",
    ) or name.endswith("bias"):
        return np.zeros(shape, dtype=np.float32)
    if "norm" in name:
        return np.ones(shape, dtype=np.float32)
    if name == "query.weight":
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(config.output_gain / shape[1] ** 0.5)
    bound = np.float32((6.0 / (shape[-1] + shape[-2])) ** 0.5)
    values: Weights = (rng.random(shape, dtype=np.float32) * 2 - 1) * bound
    return values
