"""A network that reads a tensor together with what is around it: two layers, in NumPy alone.

    z(t, m)    = relu(encode . [features(t, m), end of m, decision of t])
    op(i)      = for each decision of node i: the mean of z(t, m) over the memories, 0 where there is no tensor
    around(i)  = op(i), and the means of op over the producers of i, its consumers, the nodes at most 2 and at most 8
                 steps away, and all nodes
    g(t, m)    = decide . relu(mix . [z(t, m), around(node of t)])
    free       = free . mean of op over all nodes

Features, memories and their ends are those of `policies.places`; memory 0 is not read. Without `around` the network is
a multilayer perceptron: g reads z(t, m) alone. `policies.context_module` is the twin in torch, which gradients pass; a
test holds the two to each other.
"""

from __future__ import annotations

import numpy as np

from policies.places import ENDS, Floats, Places
from policies.weight_vector import Segment, WeightFormat, Weights

WINDOWS = (2, 8)
"""Steps before and after an op over which means are taken."""
PARTS = 4 + len(WINDOWS)
"""Means that a tensor sees: of its op, producers, consumers, windows, and all ops."""
LEAST_SQUARE = 1e-8
"""Added to the mean square of scores by modules, so that gradients pass where all scores are 0."""


class ContextNetwork:
    """The network for F features, H decisions a node, and hidden layers of some width."""

    def __init__(self, features: int, heads: int, width: int, around: bool = True) -> None:
        """Raises ValueError unless all are positive."""
        if min(features, heads, width) < 1:
            raise ValueError(f"expected positive sizes, received {(features, heads, width)}")
        self.features, self.heads, self.width, self.around = features, heads, width, around
        shapes = {
            "encode.weight": (width, features + ENDS + heads),
            "encode.bias": (width,),
            "mix.weight": (width, width * (1 + PARTS * heads * around)),
            "mix.bias": (width,),
            "decide.weight": (1, width),
            "decide.bias": (1,),
            "free.weight": (1, heads * width),
        }
        segments, offset = [], 0
        for name, shape in shapes.items():
            segments.append(Segment(name, shape, offset))
            offset = segments[-1].end
        self.weight_format = WeightFormat(tuple(segments))

    def draw(self, rng: np.random.Generator, gain: float) -> Weights:
        """Initial weights float32 [P] that add about `gain` to scores: He's for the layers, 0 for `free`."""
        drawn = np.zeros(self.weight_format.size, np.float32)
        for s in self.weight_format.segments:
            if s.name.endswith("weight") and s.name != "free.weight":
                scale = gain / np.sqrt(self.width) if s.name == "decide.weight" else np.sqrt(2 / s.shape[1])
                drawn[s.offset : s.end] = rng.standard_normal(s.size, dtype=np.float32) * np.float32(scale)
        return drawn

    def scores(self, weights: Weights, places: Places) -> tuple[Floats, float]:
        """What weights [P] add to the scores of places, float32 [T, L], 0 in memory 0; and to the weight of `free`."""
        w, levels = self.weight_format.arrays(weights), places.features.shape[1]
        nodes = places.shape[0]
        z = np.maximum(places.rows @ w["encode.weight"].T + w["encode.bias"], 0)
        of_tensors = np.zeros((nodes, self.heads, self.width), np.float32)
        if levels > 1:
            of_tensors[places.node, places.head] = z.mean(axis=1)
        of_op: Floats = of_tensors.reshape(nodes, -1)
        own, mixing = np.split(w["mix.weight"], [self.width], axis=1)
        mixed = np.tile(w["mix.bias"], (nodes, 1))
        if self.around:
            for part, by in zip(means_around(of_op, places), np.split(mixing, PARTS, axis=1), strict=True):
                mixed += part @ by.T
        hidden = np.maximum(z @ own.T + mixed[places.node, None], 0)
        added = np.zeros((len(places.node), levels), np.float32)
        added[:, 1:] = hidden @ w["decide.weight"][0] + w["decide.bias"]
        return added, float(w["free.weight"][0] @ of_op.mean(axis=0))


def means_around(values: Floats, places: Places) -> list[Floats]:
    """The means that a node sees of values float32 [N, V], `PARTS` of float32 [N, V] (the last one is [1, V])."""
    nodes = len(values)
    producers, consumers = places.neighbours
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0, dtype=np.float64)])
    at, windows = np.arange(nodes), []
    for steps in WINDOWS:
        first, end = np.maximum(at - steps, 0), np.minimum(at + steps + 1, nodes)
        windows.append(((total[end] - total[first]) / (end - first)[:, None]).astype(np.float32))
    everywhere = (total[-1:] / nodes).astype(np.float32)
    return [values, producers(values), consumers(values), *windows, everywhere]


def of_unit_size(scores: Floats) -> Floats:
    """Scores float32 [T, L] over the root of their mean square: placing is the same, noise means the same for all."""
    size = float(np.sqrt(np.mean(np.square(scores[:, 1:], dtype=np.float64)))) if scores[:, 1:].size else 0.0
    return scores if size == 0 else (scores / np.float32(size)).astype(np.float32)
