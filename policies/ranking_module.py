"""Ranking networks in torch, for several problems at once: what gradients of scores train.

`policies.ranker` says what they are; tests hold the two to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from policies.context import LEAST_SQUARE
from policies.context_module import Batch, ContextModule, means, of_nodes
from policies.graph import Graph
from policies.network import CONTEXT, LINEAR, MLP, NetworkConfig
from policies.places import ENDS, Places
from policies.pyg import make_actor
from policies.ranker import added_network, by_hand
from policies.roles import NODES, Roles, roles
from policies.weight_vector import WeightFormat, Weights, assign

LEAST_SPREAD = 0.05
"""Least standard deviation by which an input is divided."""
INITIAL_GAIN = 0.02
"""Standard deviation of the weights that add what a context network says to the rule."""


class GraphModule(nn.Module):
    """A network over the graph, which adds to both ends of the memories; problems one after the other."""

    def __init__(self, config: NetworkConfig, features: int, heads: int) -> None:
        super().__init__()
        self.features, self.heads = features, heads
        rng = np.random.default_rng(int(torch.randint(2**62, ())))
        self.actor = make_actor(added_network(config), heads * features, heads, ENDS, rng)
        self._roles: dict[Places, Roles] = {}

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What is added to the scores of the rows [R], and to the weights of `free` [K]: nothing."""
        x = of_nodes(batch.inputs[:, : self.features], batch, self.heads)
        parts = torch.split(x, [places.shape[0] for places in batch.places])
        outputs = torch.cat([self._outputs(*given) for given in zip(parts, batch.places, strict=True)])
        of_end = batch.inputs[:, self.features : self.features + ENDS]
        added = (outputs[batch.node, batch.head][batch.tensor] * of_end).sum(dim=1)
        return added, added.new_zeros(batch.count)

    def _outputs(self, x: Tensor, places: Places) -> Tensor:
        """Outputs [N, H, 2] of features [N, H F]. A large graph is seen as its roles, whose features have no noise."""
        if places.graph.nodes <= NODES:
            return self._said(x, places.graph)
        if places not in self._roles:
            self._roles[places] = roles(places.of_nodes, places.graph)
        seen = self._roles[places]
        return self._said(torch.from_numpy(seen.x), seen.graph)[torch.from_numpy(seen.of)]

    def _said(self, x: Tensor, graph: Graph) -> Tensor:
        said: Tensor = self.actor(x, graph)
        return said


def _body(config: NetworkConfig, features: int, heads: int) -> ContextModule | GraphModule | None:
    """What adds to the scores of a linear rule."""
    if config.name == LINEAR:
        return None
    if config.name not in (CONTEXT, MLP):
        return GraphModule(config, features, heads)
    body = ContextModule(features, heads, config.width, around=config.name == CONTEXT)
    nn.init.normal_(body.decide.weight, std=INITIAL_GAIN)
    nn.init.zeros_(body.decide.bias)
    nn.init.zeros_(body.free.weight)
    return body


class RankingModule(nn.Module):
    """A linear rule and a network; its scores have a mean square of 1 for each problem."""

    mean: Tensor
    spread: Tensor

    def __init__(self, names: tuple[str, ...], heads: int, config: NetworkConfig) -> None:
        """Weights are drawn from torch's generator. InputError if a network from elsewhere cannot be built."""
        super().__init__()
        rule = by_hand(names, heads)
        self.coefficients = nn.Parameter(torch.from_numpy(rule[:-1]).view(heads, ENDS, len(names)).clone())
        self.free = nn.Parameter(torch.from_numpy(rule[-1:]).clone())
        self.network = _body(config, len(names), heads)
        inputs = len(names) + ENDS + heads
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("spread", torch.ones(inputs))

    def see(self, given: Sequence[Places]) -> None:
        """Bring the inputs of a context network to mean 0 and standard deviation 1 over these places."""
        rows = np.concatenate([places.rows.reshape(-1, len(self.mean)) for places in given])
        self.mean.copy_(torch.from_numpy(rows.mean(axis=0, dtype=np.float64)))
        self.spread.copy_(torch.from_numpy(rows.std(axis=0, dtype=np.float64)).clamp(min=LEAST_SPREAD))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Scores of the rows [R], and the weights of `free` [K]."""
        inputs = batch.inputs
        heads, ends, features = self.coefficients.shape
        of_end, of_head = inputs[:, features : features + ends], inputs[:, features + ends :]
        rule = (inputs[:, :features] @ self.coefficients.view(-1, features).T).view(-1, heads, ends)
        scores = torch.einsum("rhe,rh,re->r", rule, of_head, of_end)
        free = self.free + inputs.new_zeros(batch.count)
        if self.network is not None:
            scaled = isinstance(self.network, ContextModule)
            seen = replace(batch, inputs=(inputs - self.mean) / self.spread) if scaled else batch
            added, more = self.network(seen)
            scores, free = scores + added, free + more
        problem = batch.of_tensor[batch.tensor]
        square = means(scores.square().unsqueeze(1), problem, batch.count).squeeze(1)
        return scores / (square + LEAST_SQUARE).sqrt()[problem], free

    def begin_with(self, weights: Weights, format_: WeightFormat) -> None:
        """Take the weights float32 [P] of a file, in the format of `policies.ranker.Rankers`; `see` comes before."""
        arrays = format_.arrays(weights)
        own = {name.removeprefix("network."): a for name, a in arrays.items() if name.startswith("network.")}
        if isinstance(self.network, ContextModule):
            spread, mean = self.spread.numpy(), self.mean.numpy()
            own["encode.bias"] = own["encode.bias"] + own["encode.weight"] @ mean
            own["encode.weight"] = own["encode.weight"] * spread
        if self.network is not None:
            body = np.concatenate([array.reshape(-1) for array in own.values()])
            assign(self.network, body.astype(np.float32))
        with torch.no_grad():
            self.coefficients.copy_(torch.from_numpy(arrays["coefficients"]))
            self.free.copy_(torch.from_numpy(arrays["free"]))

    def weights(self) -> Weights:
        """The weights float32 [P] as `policies.ranker.Rankers` reads them: scaling of the inputs is part of them."""
        parts: dict[str, Tensor] = {} if self.network is None else dict(self.network.named_parameters())
        if isinstance(self.network, ContextModule):
            encode = self.network.encode
            weight = encode.weight.detach() / self.spread
            parts |= {"encode.weight": weight, "encode.bias": encode.bias.detach() - weight @ self.mean}
        own = [self.coefficients, self.free, *parts.values()]
        return np.concatenate([part.detach().reshape(-1).numpy() for part in own]).astype(np.float32)
