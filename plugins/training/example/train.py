"""Train a network in less memory: the same gradients, a lower peak, a somewhat longer step."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch import nn

import egrl_training
from egrl_training.pytorch.peak import peak_of
from workloads.text import size_text


class Block(nn.Module):
    """A feed-forward layer with a way around it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


class Net(nn.Module):
    """Eight blocks, and the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(256) for _ in range(8)))

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(self.blocks(x), wanted)


def main(argv: Sequence[str] | None = None) -> int:
    """Train two steps as usual and within the limit; print the loss and the measured peak of both."""
    backend = [*(sys.argv[1:] if argv is None else argv), "aot_eager"][0]
    torch.manual_seed(0)
    net, inputs = Net(), (torch.randn(1024, 256), torch.randn(1024, 256))
    usual = torch.compile(net, backend=backend)
    with egrl_training.memory_limit(fraction=0.6, seconds=5, quiet=True) as plans:
        limited = torch.compile(net, backend=backend)
    for name, step in (("as usual", usual), ("limited", limited)):
        loss = step(*inputs)
        loss.backward()
        gradient = net.blocks[0].up.weight.grad.norm()
        net.zero_grad()
        peak = size_text(peak_of(lambda: step(*inputs).backward(), torch.device("cpu")))  # noqa: B023
        print(f"{name}: loss {loss.item():.6f}, gradient {gradient:.6f}, {peak} beside parameters and inputs")
        net.zero_grad()
    before, after = size_text(plans[0].all_peak_bytes), size_text(plans[0].peak_bytes)
    print(f"planned: {before} -> {after}, with parameters and inputs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
