"""Small graphs, observations and actors for the tests."""

from __future__ import annotations

import numpy as np
import torch

from policies.graph import Graph
from policies.graph_unet import GraphUNet
from policies.network import NetworkConfig

SMALL = NetworkConfig(depth=3, width=16, attention_heads=2)
FEATURES, HEADS, CHOICES = 5, 2, 3


def chain(nodes: int, extra: int = 0, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    own = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    return Graph.build(np.concatenate([own, rng.integers(0, nodes, (2, extra))], axis=1), nodes)


def states(nodes: int, seed: int = 0, features: int = FEATURES) -> np.ndarray:
    return np.random.default_rng(seed).random((nodes, features), dtype=np.float32)


def actor(seed: int = 0, config: NetworkConfig = SMALL) -> GraphUNet:
    return GraphUNet(config, FEATURES, HEADS, CHOICES, np.random.default_rng(seed))


def logits(net: GraphUNet, x: np.ndarray, graph: Graph) -> torch.Tensor:
    with torch.no_grad():
        return net(torch.from_numpy(x), graph)
