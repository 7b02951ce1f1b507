"""Which network a policy over a graph is, and its shape (needs no torch)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from typing_extensions import Doc

from workloads.references import NamesCode, is_reference
from workloads.text import one_of

GRAPH_UNET = "graph_unet"
"""The package's own network, `policies.graph_unet`, which evaluates a whole population in one pass."""
LINEAR = "linear"
"""No network at all: a linear rule (`policies.ranker`)."""
CONTEXT, MLP = "context", "mlp"
"""Two layers that read a tensor with what is around it, or by itself (`policies.context`); both rank, without torch."""
RANKING_ONLY = (LINEAR, CONTEXT, MLP)
"""Networks that only a placer reads."""
NETWORKS = (*RANKING_ONLY, GRAPH_UNET, "gcn", "sage", "gin", "gat", "edge_cnn", "graph_gps")
"""Networks by name; those after the first four are built from torch-geometric's layers, see `policies.pyg`."""
LIBRARY = "torch_geometric.nn"
"""Where MODULE:NAME may come from without being code of a stranger: it is installed with this package."""


def refers(network: str) -> bool:
    """Whether a network is code from outside the package and its dependencies."""
    return is_reference(network) and not f"{network.partition(':')[0]}.".startswith(f"{LIBRARY}.")


@dataclass(frozen=True)
class NetworkConfig:
    """The network of a policy and its shape (defaults: EGRL, Table 2; pool_ratio: Gao and Ji, "Graph U-Nets")."""

    name: Annotated[
        str,
        Doc(
            "graph_unet, gcn, sage, gin, gat, edge_cnn, graph_gps or MODULE:NAME, a torch.nn.Module with"
            " forward(x, edge_index); linear, context, mlp: for placers alone;"
            " `network=gat` is short for `network.name=gat`"
        ),
        NamesCode("policies.pyg:check_network", refers),
    ] = GRAPH_UNET
    depth: Annotated[
        int, Doc("poolings of the Graph U-Net; layers of message passing of any other network")
    ] = 4
    width: Annotated[int, Doc("numbers in the state of a node, a multiple of `attention_heads`")] = 128
    attention_heads: Annotated[
        int, Doc("heads of each attention layer, of width / attention_heads channels each")
    ] = 4
    pool_ratio: Annotated[
        float, Doc("share of the nodes that a pooling of the Graph U-Net keeps, more than 0 and at most 1")
    ] = 0.5
    output_gain: Annotated[
        float, Doc("standard deviation, roughly, of the initial logits of the Graph U-Net")
    ] = 1.0

    def __post_init__(self) -> None:
        if self.name not in NETWORKS and not is_reference(str(self.name)):
            raise ValueError(f"name: {one_of(str(self.name), NETWORKS, ' or MODULE:NAME')}")
        least = 0 if self.name == GRAPH_UNET else 1
        if not least <= self.depth <= 32:
            raise ValueError(f"depth: expected {least}..32, received {self.depth}")
        if self.width > 4096:
            raise ValueError(f"width: expected at most 4096, received {self.width}")
        if self.attention_heads < 1 or self.width < 1 or self.width % self.attention_heads:
            raise ValueError(
                "width: expected a positive multiple of attention_heads "
                f"({self.attention_heads}), received {self.width}"
            )
        if not 0.0 < self.pool_ratio <= 1.0:
            raise ValueError(f"pool_ratio: expected 0 < ratio <= 1, received {self.pool_ratio}")


def saved_settings(config: NetworkConfig) -> dict[str, Any]:
    """The settings as files of policies have them: those of the package's own network have no name."""
    settings = asdict(config)
    return settings if config.name != GRAPH_UNET else {k: v for k, v in settings.items() if k != "name"}
