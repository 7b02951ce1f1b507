"""What a kind of training step is, and how it is compared with the same step in eager mode.

A kind trains for a few steps with functions that it has compiled, and returns all that a user could look at: losses,
gradients, buffers, inputs. Numbers are float64 wherever the kind allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

BATCH, WIDTH, DEPTH, STEPS = 256, 32, 4, 2
Compile = Callable[..., Any]
"""`torch.compile` with a backend, or what returns the function as it is."""


@dataclass(frozen=True)
class Kind:
    """A kind of step.

    Attributes:
        name: what is special about it, for people.
        group: what it is listed under.
        run: trains with functions compiled by what it is given; returns all results.
        tolerance: relative difference that rounding explains.
        compiled_tolerance: the same for kernels that inductor makes.
        as_plain: what plain `torch.compile` gives is right, too: in low precision compiled code rounds at other places.
    """

    name: str
    group: str
    run: Callable[[Compile], list[Tensor]]
    tolerance: float = 1e-9
    compiled_tolerance: float = 1e-7
    as_plain: bool = False


KINDS: list[Kind] = []
ZERO = 1e-9
"""Results below it are rounding of what is 0, as the gradient of a bias before a batch norm is."""


def kind(
    name: str, group: str, tolerance: float = 1e-9, compiled_tolerance: float = 1e-7
) -> Callable[[Any], Any]:
    """Add a `Net` or a function of `Compile` to `KINDS`."""

    def add(made: Any) -> Any:
        run = made if not isinstance(made, type) else lambda wrap: train(made().double(), wrap)
        KINDS.append(Kind(name, group, run, tolerance, max(tolerance, compiled_tolerance)))
        return made

    return add


class Net(nn.Module):
    """Two layers, `a` and `b`, and what `make` adds; `forward` returns the loss of x [BATCH, WIDTH].

    Attributes:
        steps: how many steps are trained.
    """

    steps: ClassVar[int] = STEPS

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.make()

    def make(self) -> None:
        """Layers and buffers of the kind."""

    def keep(self, name: str, value: Tensor) -> None:
        """A buffer."""
        self.register_buffer(name, value)

    def inputs(self) -> tuple[Any, ...]:
        """Of one step."""
        return (batch(),)

    def end(self, h: Tensor) -> Tensor:
        """A loss of some layers, so that there is something to compute again."""
        for _ in range(DEPTH):
            h = self.b(torch.tanh(h)).sin()
        return h.square().mean()

    def forward(self, *inputs: Any) -> Any:
        """The loss."""
        raise NotImplementedError


def batch(*shape: int, shift: float = 0.5) -> Tensor:
    """Random numbers [BATCH, WIDTH], or of another shape."""
    return torch.randn(shape or (BATCH, WIDTH), dtype=torch.float64) + shift


def train(net: Net, wrap: Compile) -> list[Tensor]:
    """Train a net with plain gradient descent; losses, inputs, gradients, parameters, buffers, and the random state."""
    compiled, results = wrap(net), list[Tensor]()
    for _ in range(net.steps):
        inputs = net.inputs()
        loss = compiled(*inputs)
        loss.backward()
        results += [loss.detach(), *(each for each in inputs if isinstance(each, Tensor))]
        results += descend(net.parameters())
    return results + kept(net)


def descend(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """One step of gradient descent; returns the gradients, which are None afterwards."""
    gradients = []
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                gradients.append(parameter.grad)
                parameter -= 0.1 * parameter.grad.to_dense()
                parameter.grad = None
    return gradients


def kept(net: nn.Module) -> list[Tensor]:
    """Parameters, buffers and the next random number."""
    return [*net.parameters(), *net.buffers(), torch.rand(1)]


def difference(found: list[Tensor], wanted: list[Tensor]) -> float:
    """The largest difference of results, relative to the largest number of each; infinite if they do not match."""
    if len(found) != len(wanted):
        return float("inf")
    return max(map(_difference, found, wanted), default=0.0)


def _difference(found: Tensor, wanted: Tensor) -> float:
    found, wanted = (each.detach().to_dense() for each in (found, wanted))
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    if not wanted.numel():
        return 0.0
    exact = torch.complex128 if wanted.is_complex() else torch.float64
    found, wanted = found.to(exact), wanted.to(exact)
    off = float(torch.where(found == wanted, 0.0, (found - wanted).abs()).max())  # infinities may be equal
    return 0.0 if off == 0 else off / max(float(wanted.abs().max()), ZERO) if off == off else float("inf")
