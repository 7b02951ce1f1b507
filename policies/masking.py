"""Masked distributions over ragged choices, and their entropy."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_log_probs(logits: Tensor, num_choices: Tensor) -> Tensor:
    """log softmax over the legal choices of logits [..., N, H, C]; -inf where choice >= num_choices [N, H].

    A decision without choices puts everything on choice 0.
    """
    legal = torch.arange(logits.shape[-1], device=logits.device) < num_choices.clamp(min=1).unsqueeze(-1)
    return logits.masked_fill(~legal, -torch.inf).log_softmax(dim=-1)


def mean_entropy(log_probs: Tensor, live: Tensor) -> Tensor:
    """Entropy (nats) of log_probs [..., N, H, C], mean over the live decisions bool [N, H]; 0 without any."""
    # 0 x -inf is not a number, in the gradient, too: illegal choices count with a logarithm of 0 instead.
    finite = log_probs.masked_fill(log_probs == -torch.inf, 0.0)
    entropy = -(log_probs.exp() * finite).sum(dim=-1)
    return (entropy * live).sum(dim=(-2, -1)) / live.sum().clamp(min=1)


def cross_entropy(share: Tensor, log_probs: Tensor, live: Tensor) -> Tensor:
    """Cross-entropy (nats) of log_probs [..., N, H, C] to shares [N, H, C], mean over live decisions bool [N, H]."""
    finite = log_probs.masked_fill(log_probs == -torch.inf, 0.0)
    crossed = -(share * finite).sum(dim=-1)
    return (crossed * live).sum(dim=(-2, -1)) / live.sum().clamp(min=1)
