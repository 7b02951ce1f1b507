"""What ops of the zoo hand to one another: tensors by shape, and the windows that slide over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from workloads.workload import Shape3

ID_BYTES = 4
"""Bytes of a token id, token type or mask entry that the host hands over (int32)."""


@dataclass(frozen=True)
class Tensor:
    """What an op reads: (a part of) the activation of `source`; of the network's input where it is None."""

    source: str | None
    shape: Shape3
    batch: int
    element_bytes: int = 1

    @property
    def elements(self) -> int:
        """Elements of one sample."""
        return prod(self.shape)

    @property
    def read_bytes(self) -> int:
        """Bytes that reading it costs, the whole batch."""
        return self.batch * self.elements * self.element_bytes

    def view(self, shape: Shape3) -> Tensor:
        """The same elements in another shape.

        Raises ValueError where the number of elements differs.
        """
        if prod(shape) != self.elements:
            raise ValueError(f"shape: expected {self.elements} elements, received {shape}")
        return replace(self, shape=shape)

    def part(self, shape: Shape3) -> Tensor:
        """A slice or a crop of this shape; only its elements are read.

        Raises ValueError where it is no part.
        """
        if any(small > large for small, large in zip(shape, self.shape, strict=True)):
            raise ValueError(f"shape: expected at most {self.shape}, received {shape}")
        return replace(self, shape=shape)


@dataclass(frozen=True)
class Window:
    """Kernel, stride, padding, dilation and groups of a convolution or a pooling."""

    kernel: tuple[int, int]
    stride: int
    pad: int
    dilation: int
    groups: int


def window_size(name: str, size: int, kernel: int, stride: int, pad: int) -> int:
    """Positions of a window along an axis of `size` elements.

    Raises ValueError where there is none.
    """
    if size + 2 * pad < kernel:
        raise ValueError(f"resolution: expected at least {kernel - 2 * pad} at {name}, received {size}")
    return (size + 2 * pad - kernel) // stride + 1
