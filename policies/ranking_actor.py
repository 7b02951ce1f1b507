"""A ranking network as a module that a learner trains: logits of every decision out, as the other actors give them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from policies.context import LEAST_SQUARE
from policies.context_module import Batch, ContextModule
from policies.graph import Graph
from policies.network import CONTEXT, LINEAR, NetworkConfig
from policies.places import ENDS, Places
from policies.pyg import make_actor
from policies.ranker import Rankers, added_network
from policies.weight_vector import assign


class RankingActor(nn.Module):
    """A ranking network for the places of one graph; its parameters are in the order of `Rankers.weight_format`."""

    def __init__(
        self,
        config: NetworkConfig,
        names: tuple[str, ...],
        places: Places,
        choices: int,
        rng: np.random.Generator | None = None,
    ) -> None:
        """For features of some names and C choices a decision; without `rng` the weights are the caller's to assign."""
        super().__init__()
        self.places, self.choices = places, choices
        heads, features = places.shape[1], len(names)
        self.coefficients = nn.Parameter(torch.zeros(heads, ENDS, features))
        self.free = nn.Parameter(torch.zeros(1))
        self.network: nn.Module | None = None
        if config.name == CONTEXT:
            self.network = ContextModule(features, heads, config.width)
            self._batch = Batch.of([places])
        elif config.name != LINEAR:
            self.network = make_actor(added_network(config), heads * features, heads, ENDS, rng)
        for name in ("features", "of_nodes", "ends", "node", "head"):
            self.register_buffer(f"_{name}", torch.from_numpy(getattr(places, name)), persistent=False)
        if rng is not None:
            assign(self, Rankers(config, names, heads).draw(rng))

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Logits [N, H, C]; it reads the places, not `x`."""
        node, head, ends = self.get_buffer("_node"), self.get_buffer("_head"), self.get_buffer("_ends")
        of_memory = torch.einsum("le,hef->hlf", ends, self.coefficients)
        scores = (self.get_buffer("_features") * of_memory[head]).sum(dim=-1)
        if isinstance(self.network, ContextModule):
            added = torch.cat([scores.new_zeros(len(node), 1), self.network(self._batch)[0]], dim=1)
            scores = scores + added
            scores = scores / (scores[:, 1:].square().mean() + LEAST_SQUARE).sqrt()
        elif self.network is not None:
            outputs = self.network(self.get_buffer("_of_nodes"), graph)
            scores = scores + outputs[node, head] @ ends.T
        logits = scores.new_zeros(*self.places.shape, self.choices)
        logits[node, head, : scores.shape[1]] = scores
        return logits
