"""A linear rule and a context network in torch, for several problems at once: what gradients of scores train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from policies.context import LEAST_SQUARE
from policies.context_module import Batch, ContextModule
from policies.places import ENDS, Places
from policies.ranker import by_hand
from policies.weight_vector import WeightFormat, Weights, assign

LEAST_SPREAD = 0.05
"""Least standard deviation by which an input is divided."""
INITIAL_GAIN = 0.02
"""Standard deviation of the weights that add what the network says to the rule."""


class RankingModule(nn.Module):
    """A linear rule and a context network; its scores [T, L - 1] have a mean square of 1 for each problem."""

    mean: Tensor
    spread: Tensor

    def __init__(self, names: tuple[str, ...], heads: int, width: int) -> None:
        super().__init__()
        rule = by_hand(names, heads)
        self.coefficients = nn.Parameter(torch.from_numpy(rule[:-1]).view(heads, ENDS, len(names)).clone())
        self.free = nn.Parameter(torch.from_numpy(rule[-1:]).clone())
        self.network = ContextModule(len(names), heads, width)
        nn.init.normal_(self.network.decide.weight, std=INITIAL_GAIN)
        nn.init.zeros_(self.network.decide.bias)
        nn.init.zeros_(self.network.free.weight)
        inputs = len(names) + ENDS + heads
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("spread", torch.ones(inputs))

    def see(self, given: Sequence[Places]) -> None:
        """Bring the inputs of the network to mean 0 and standard deviation 1 over these places."""
        rows = np.concatenate([places.rows.reshape(-1, len(self.mean)) for places in given])
        self.mean.copy_(torch.from_numpy(rows.mean(axis=0, dtype=np.float64)))
        self.spread.copy_(torch.from_numpy(rows.std(axis=0, dtype=np.float64)).clamp(min=LEAST_SPREAD))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Scores [T, L - 1], and the weights of `free` [K]."""
        inputs = batch.inputs
        _, ends, features = self.coefficients.shape
        of_end = inputs[:, :, features : features + ends]
        rule = torch.einsum("tlf,tef->tle", inputs[:, :, :features], self.coefficients[batch.head])
        added, free = self.network(replace(batch, inputs=(inputs - self.mean) / self.spread))
        scores = (rule * of_end).sum(dim=2) + added
        square = scores.new_zeros(batch.count).index_add(0, batch.of_tensor, scores.square().mean(dim=1))
        square = square / torch.bincount(batch.of_tensor, minlength=batch.count).clamp(min=1)
        return scores / (square + LEAST_SQUARE).sqrt()[batch.of_tensor].unsqueeze(1), self.free + free

    def begin_with(self, weights: Weights, format_: WeightFormat) -> None:
        """Take the weights float32 [P] of a file, in the format of `policies.ranker.Rankers`; `see` comes before."""
        arrays = format_.arrays(weights)
        own = {name.removeprefix("network."): a for name, a in arrays.items() if name.startswith("network.")}
        spread, mean = self.spread.numpy(), self.mean.numpy()
        own["encode.bias"] = own["encode.bias"] + own["encode.weight"] @ mean
        own["encode.weight"] = own["encode.weight"] * spread
        assign(self.network, np.concatenate([array.reshape(-1) for array in own.values()]).astype(np.float32))
        with torch.no_grad():
            self.coefficients.copy_(torch.from_numpy(arrays["coefficients"]))
            self.free.copy_(torch.from_numpy(arrays["free"]))

    def weights(self) -> Weights:
        """The weights float32 [P] as `policies.ranker.Rankers` reads them: scaling of the inputs is part of them."""
        encode = self.network.encode
        weight = encode.weight.detach() / self.spread
        bias = encode.bias.detach() - weight @ self.mean
        parts = dict(self.network.named_parameters()) | {"encode.weight": weight, "encode.bias": bias}
        own = [self.coefficients, self.free, *parts.values()]
        return np.concatenate([part.detach().reshape(-1).numpy() for part in own]).astype(np.float32)
