"""Scalars as categorical distributions: MuZero's transform h(x) and two-hot targets.

Source: MuZero (Schrittwieser et al., Nature 588, 2020), appendix F: h(x) = sign(x)(sqrt(|x| + 1) - 1) + 0.001 x after
Pohlen et al. (Observe and look further, 2018), on whole numbers of a support.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

EPSILON = 0.001


def squash(x: Tensor) -> Tensor:
    """h(x), elementwise."""
    return torch.sign(x) * (torch.sqrt(x.abs() + 1) - 1) + EPSILON * x


def unsquash(y: Tensor) -> Tensor:
    """The inverse of `squash`, elementwise."""
    root = (torch.sqrt(1 + 4 * EPSILON * (y.abs() + 1 + EPSILON)) - 1) / (2 * EPSILON)
    return torch.sign(y) * (root * root - 1)


class Support(nn.Module):
    """`bins` (odd) equally spaced points from -most to most in the transformed domain; what lies beyond is clipped.

    Attributes:
        points: float32 [bins].
    """

    points: Tensor

    def __init__(self, bins: int, most: float) -> None:
        super().__init__()
        if bins < 3 or bins % 2 == 0 or not most > 0:
            raise ValueError(f"support: expected odd bins >= 3 and most > 0, received {bins} and {most}")
        self.bins, self.most = bins, most
        self.register_buffer("points", torch.linspace(-most, most, bins), persistent=False)

    def mean(self, logits: Tensor) -> Tensor:
        """Logits [..., bins] -> the scalars [...] that they stand for."""
        return unsquash(torch.softmax(logits, dim=-1) @ self.points)

    def two_hot(self, x: Tensor) -> Tensor:
        """Scalars [...] -> probabilities [..., bins] on the two points beside each transformed scalar."""
        # `low` stays one below the last point: x at the very top then has share 1 on the point above.
        place = (squash(x).clamp(-self.most, self.most) + self.most) * ((self.bins - 1) / (2 * self.most))
        low = place.floor().clamp(max=self.bins - 2)
        share = (place - low).unsqueeze(-1)
        index = low.long().unsqueeze(-1)
        out = torch.zeros((*x.shape, self.bins), dtype=x.dtype, device=x.device)
        return out.scatter_(-1, index, 1 - share).scatter_(-1, index + 1, share)
