"""Searches with networks of torch-geometric as the policy, one of them defined here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn
from torch_geometric.nn import TransformerConv

import egrl

NETWORKS = ("graph_unet", "sage", "own_network:Transformer")


class Transformer(nn.Module):
    """Attention along the edges; its output are the logits of a node's decisions."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = TransformerConv(in_channels, hidden_channels)
        self.second = TransformerConv(hidden_channels, hidden_channels)
        self.norm = nn.LayerNorm(hidden_channels)
        self.decide = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x, edge_index).relu()
        return self.decide(self.norm(h + self.second(h, edge_index)))


def main(argv: Sequence[str] | None = None) -> int:
    """Arguments: a workload, evaluations."""
    workload, evals = (argv or sys.argv[1:] or ["resnet101", "1000"])[:2]
    sys.path.append(str(Path(__file__).parent))  # where own_network is found, from whatever folder this runs
    for network in NETWORKS:
        settings = [f"method.network={network}", "method.width=32"]
        result = egrl.search(
            workload, method="es", evals=int(evals), start="cold", settings=settings, quiet=True
        )
        print(f"{network}: {result.speedup:.3f}x the compiler")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
