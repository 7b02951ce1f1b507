"""Networks of torch-geometric as policies, and any module that keeps its conventions.

A class is called with keyword arguments. It must take `in_channels` (features of a node) and `out_channels` (logits of
a node: decisions x choices). It also gets `hidden_channels` (width), `num_layers` and `depth` (both are the depth) and
`heads` (attention heads), if its signature names them. `forward(x, edge_index)` gets features float32 [N, F] and edges
int64 [2, E] of one graph, both directions of each edge and no self loops; it returns logits float32 [N, out_channels].

Networks are kept in evaluation mode: dropout is off, and batch normalisation keeps the statistics that it begins with,
because whatever changes apart from the weights would be lost where weights are crossed, perturbed or copied. Networks
by name have layer normalisation, each node by itself.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from policies.graph import Graph, prepare
from policies.graph_unet import GraphUNet, draw_weights
from policies.network import GRAPH_UNET, LIBRARY, RANKING_ONLY, NetworkConfig
from policies.weight_vector import WeightFormat, Weights, flatten, weight_format_of
from workloads.errors import InputError
from workloads.references import failed, imported, is_reference, look_here

BASIC = {"gcn": "GCN", "sage": "GraphSAGE", "gin": "GIN", "gat": "GAT", "edge_cnn": "EdgeCNN"}
"""Name -> class of `torch_geometric.nn.models`."""
RING = np.arange(8)
"""Nodes of the graph that every new module is tried on, so that it fails before a search begins."""
EXPECTED = "a torch.nn.Module with the arguments in_channels and out_channels"


class GraphGps(nn.Module):
    """Layers of GPS (Rampášek et al., NeurIPS 2022): GIN along the edges beside attention among all nodes."""

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, num_layers: int, heads: int
    ) -> None:
        super().__init__()
        MLP, GINConv, GPSConv = (_library(name) for name in ("MLP", "GINConv", "GPSConv"))

        def layer() -> nn.Module:
            local = GINConv(MLP([hidden_channels] * 3, norm=None))
            own: nn.Module = GPSConv(hidden_channels, local, heads=heads, norm="layer_norm", norm_kwargs=NODE)
            return own

        self.encode = nn.Linear(in_channels, hidden_channels)
        self.layers = nn.ModuleList(layer() for _ in range(num_layers))
        self.decide = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits [N, out_channels]."""
        h = self.encode(x)
        for layer in self.layers:
            h = layer(h, edge_index)
        logits: Tensor = self.decide(h)
        return logits


NODE = {"mode": "node"}
"""Layer normalisation of each node by itself; torch-geometric's default is one of all nodes together."""


class PygActor(nn.Module):
    """A module of torch-geometric's conventions instead of `policies.graph_unet.GraphUNet`."""

    def __init__(self, config: NetworkConfig, features: int, heads: int, choices: int, seed: int = 0) -> None:
        """Weights as the module draws them from torch's generator, seeded by `seed`, which is then as before.

        Raises InputError if the module cannot be built, fails on a small graph, or has other than float32 parameters.
        """
        super().__init__()
        self.config, self.features, self.heads, self.choices = config, features, heads, choices
        where = f"network {config.name}"
        make = _builder(config, where)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            try:
                self.module: nn.Module = make(features, heads * choices).eval()
                self(torch.zeros(len(RING), features), prepare(np.stack([RING, np.roll(RING, 1)]), len(RING)))
            except InputError:
                raise
            except Exception as error:  # whatever a module of someone else raises
                raise failed(where, error) from error
        if odd := [name for name, p in self.module.named_parameters() if p.dtype != torch.float32]:
            raise InputError(f"{where}: expected float32 parameters, found {odd[0]}")

    @property
    def weight_format(self) -> WeightFormat:
        """Where each tensor lies in the weight vector."""
        return weight_format_of(self.named_parameters())

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Logits [N, H, C] of features x [N, F], or [B, N, H, C] of several states x [B, N, F] of the graph.

        Raises ValueError if x does not fit, and InputError if the module's output does not.
        """
        if x.shape[-2:] != (graph.nodes, self.features) or x.dim() not in (2, 3):
            raise ValueError(
                f"x: expected shape [..., {graph.nodes}, {self.features}], received {list(x.shape)}"
            )
        if x.dim() == 3:  # one graph at a time: a module may look at all nodes of what it gets
            return torch.stack([self(state, graph) for state in x])
        logits = self.module(x, graph.links)
        expected = (graph.nodes, self.heads * self.choices)
        if not isinstance(logits, Tensor) or logits.shape != expected:
            found = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise InputError(f"network {self.config.name}: expected logits {list(expected)}, found {found}")
        return logits.view(graph.nodes, self.heads, self.choices)


def make_actor(
    config: NetworkConfig,
    features: int,
    heads: int,
    choices: int,
    rng: np.random.Generator | None = None,
) -> GraphUNet | PygActor:
    """The network of some settings, with weights drawn from `rng`; without one they are the caller's to assign."""
    if config.name == GRAPH_UNET:
        return GraphUNet(config, features, heads, choices, rng)
    if config.name in RANKING_ONLY:
        raise InputError(
            f"network: expected a network over the graph, found {config.name}, which only a placer reads"
        )
    return PygActor(config, features, heads, choices, 0 if rng is None else int(rng.integers(2**63)))


def draw_actor(
    config: NetworkConfig,
    weight_format: WeightFormat,
    features: int,
    heads: int,
    choices: int,
    rng: np.random.Generator,
) -> Weights:
    """Initial weights float32 [P] of the network of some settings."""
    if config.name == GRAPH_UNET:
        return draw_weights(weight_format, config, rng)
    return flatten(make_actor(config, features, heads, choices, rng))


def check_network(name: str, where: str) -> None:
    """Import what MODULE:NAME names. InputError naming `where` if it is no class that can be a policy."""
    if is_reference(name):
        network_class(name, where)


@cache
def network_class(reference: str, where: str) -> Callable[..., nn.Module]:
    """The class that MODULE:NAME names. InputError naming `where` if it cannot be called as this file says."""
    look_here()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch-geometric uses what torch deprecates
        found = imported(reference, where)
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise InputError(f"{where}: expected {EXPECTED}, found {type(found).__name__} {reference}")
    try:
        inspect.signature(found).bind(**_arguments(found, NetworkConfig(), 1, 1))
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: expected {EXPECTED}, found {reference}: {error}") from error
    return found


def _arguments(kind: type, config: NetworkConfig, features: int, outputs: int) -> dict[str, Any]:
    """What a class is called with: its two sizes, and of the shape what its signature names."""
    shape = {
        "hidden_channels": config.width,
        "num_layers": config.depth,
        "depth": config.depth,
        "heads": config.attention_heads,
    }
    named = inspect.signature(kind).parameters
    return {
        "in_channels": features,
        "out_channels": outputs,
        **{key: value for key, value in shape.items() if key in named},
    }


def _library(name: str) -> Any:
    """A class of torch-geometric, which is imported when it is needed: that takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it uses what torch deprecates
        return imported(f"{LIBRARY}:{name}", f"network {name}")


def _builder(config: NetworkConfig, where: str) -> Callable[[int, int], nn.Module]:
    """Makes a module of numbers of features and of logits."""
    own: dict[str, Any] = {}
    kind: Any
    if config.name == "graph_gps":
        kind = GraphGps
    elif is_reference(config.name):
        kind = network_class(config.name, where)
    else:
        kind = _library(BASIC[config.name])
        own = {"norm": "LayerNorm", "norm_kwargs": NODE}
        own |= {"v2": True, "heads": config.attention_heads} if config.name == "gat" else {}
    return lambda features, outputs: kind(**_arguments(kind, config, features, outputs), **own)
