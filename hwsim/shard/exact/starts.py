"""Solutions to begin with: read off messages, at prices that are shaken."""

from __future__ import annotations

import numpy as np

from hwsim.shard.exact.dive import dive
from hwsim.shard.exact.graph import Floats, Graph, Int32s, profile
from hwsim.shard.exact.messages import Messages, decode, node_prices, sweep

MOST_STEP = 0.5
"""Of the logarithm of a price, in one step."""


def dearer(graph: Graph, price: Floats, choice: Int32s, limit: float, rate: float) -> Floats:
    """Prices float64 [T] after a step: they rise where choices pass the limit, and fall where there is room."""
    over = (profile(graph, choice) - graph.room) / limit
    moved: Floats = price * np.exp(np.clip(rate * over, -MOST_STEP, MOST_STEP))
    return moved


def shaken_start(
    graph: Graph, messages: Messages, price: Floats, limit: float, rng: np.random.Generator
) -> Int32s:
    """A solution from messages at shaken prices, int32 [n], by a dive or by decoding; the messages are changed."""
    read = dive if rng.random() < 0.5 else decode
    noise = rng.normal(0.0, rng.choice([0.0, 0.2, 0.7]), 1 + rng.integers(0, 12))
    windows = np.sort(rng.integers(0, len(price) + 1, len(noise) - 1))
    price = price * np.exp(np.repeat(noise, np.diff([0, *windows, len(price)])))
    rate = float(rng.choice([0.3, 1.0, 3.0]))
    for _ in range(int(rng.integers(1, 8))):
        byte = node_prices(graph, price)
        sweep(graph, messages, byte, True)
        choice = read(graph, messages, byte)
        price = dearer(graph, price, choice, limit, rate)
        sweep(graph, messages, byte, False)
    return choice
