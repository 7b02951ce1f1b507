"""A network's parameters as one float32 vector and back: what evolution works on."""

from __future__ import annotations

import torch
from torch import nn

from policies.weight_vector import Weights, weight_format_of


def flatten(module: nn.Module) -> Weights:
    """A copy of the module's parameters, float32 [P], in the order of `named_parameters`."""
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]).cpu().numpy()


def assign(module: nn.Module, weights: Weights) -> None:
    """Copy float32 [P] into the module's parameters in place. Raises ValueError where the shape differs."""
    weight_format = weight_format_of(module.named_parameters())
    weight_format.check(weights)
    if weights.ndim != 1:
        raise ValueError(f"weights: expected one vector, received shape {list(weights.shape)}")
    vector = torch.from_numpy(weights)
    with torch.no_grad():
        for segment, parameter in zip(weight_format.segments, module.parameters(), strict=True):
            parameter.copy_(vector[segment.offset : segment.end].view(segment.shape))
