"""Where each tensor of a network lies in its weight vector, which evolution works on.

torch is imported only where a network is read or written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor, nn


Weights = NDArray[np.float32]
"""float32 [P]."""


@dataclass(frozen=True)
class Segment:
    """One tensor of a network: its values are vector[offset : offset + size] (half-open), row-major."""

    name: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Number of values."""
        return prod(self.shape)

    @property
    def end(self) -> int:
        """Position just behind the last value."""
        return self.offset + self.size


@dataclass(frozen=True)
class WeightFormat:
    """How a weight vector is made of tensors: its segments, in order and without gaps."""

    segments: tuple[Segment, ...]

    @cached_property
    def size(self) -> int:
        """P, the length of the vector."""
        return self.segments[-1].end if self.segments else 0

    @cached_property
    def row_starts(self) -> NDArray[np.int64]:
        """Ascending positions at which a row begins (a vector is one row), 0 included: places to cut."""
        starts = [
            np.arange(s.offset, s.end, s.shape[-1] if len(s.shape) > 1 else s.size) for s in self.segments
        ]
        return np.concatenate(starts) if starts else np.zeros(0, dtype=np.int64)

    def check(self, weights: NDArray[np.float32], argument: str = "weights") -> None:
        """Raises ValueError unless `weights` is float32 [P] or [M, P]."""
        if weights.dtype != np.float32 or weights.ndim not in (1, 2) or weights.shape[-1] != self.size:
            raise ValueError(
                f"{argument}: expected float32 [..., {self.size}], "
                f"received {weights.dtype} {list(weights.shape)}"
            )

    def arrays(self, weights: Weights) -> dict[str, Weights]:
        """Every segment of [P] as an array [*shape], by name: views."""
        return {s.name: weights[s.offset : s.end].reshape(s.shape) for s in self.segments}

    def views(self, vectors: Tensor) -> dict[str, Tensor]:
        """Every segment of [M, P] as a view [M, *shape], by name."""
        return {s.name: vectors[:, s.offset : s.end].view(-1, *s.shape) for s in self.segments}


def weight_format_of(parameters: Iterable[tuple[str, Tensor]]) -> WeightFormat:
    """The format of the weights of named tensors, in the given order (`module.named_parameters()`)."""
    segments, offset = [], 0
    for name, tensor in parameters:
        segments.append(Segment(name, tuple(tensor.shape), offset))
        offset += tensor.numel()
    return WeightFormat(tuple(segments))


def flatten(module: nn.Module) -> Weights:
    """A copy of the module's parameters, float32 [P], in the order of `named_parameters`."""
    import torch

    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]).cpu().numpy()


def assign(module: nn.Module, weights: Weights) -> None:
    """Copy float32 [P] into the module's parameters in place. Raises ValueError where the shape differs."""
    import torch

    weight_format = weight_format_of(module.named_parameters())
    weight_format.check(weights)
    if weights.ndim != 1:
        raise ValueError(f"weights: expected one vector, received shape {list(weights.shape)}")
    vector = torch.from_numpy(weights)
    with torch.no_grad():
        for segment, parameter in zip(weight_format.segments, module.parameters(), strict=True):
            parameter.copy_(vector[segment.offset : segment.end].view(segment.shape))
