"""Time what EGRL's learning side spends a generation on, beside the naive form of each.

    python benchmarks/learning.py [--nodes 376] [--threads 2] [--repeat 15]

The graph is a chain with a fifth as many skip edges (376 nodes: the size of BERT). Times are the minimum and the
median over the repetitions, naive and fast interleaved.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from egrl.learners.sac import Sac, SacConfig, Task, Transitions
from policies.critic import CriticConfig
from policies.graph import Graph
from policies.graph_unet import GraphUNet, GraphUNetConfig, draw_weights
from policies.stacked import StackedActor
from policies.weights import assign

FEATURES, HEADS, CHOICES, MEMBERS = 21, 2, 3, 16


def seconds(action: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def compare(name: str, fast: Callable[[], object], naive: Callable[[], object] | None, repeat: int) -> None:
    """Print times of `fast` and how many times longer `naive` takes."""
    times: dict[str, list[float]] = {"fast": [], "naive": []}
    for _ in range(repeat + 1):
        times["fast"].append(seconds(fast))
        if naive is not None:
            times["naive"].append(seconds(naive))
    low, middle = min(times["fast"][1:]), statistics.median(times["fast"][1:])
    ratio = "" if naive is None else f"   naive form: {statistics.median(times['naive'][1:]) / middle:.1f}x"
    print(f"{name:<44} min {low * 1e3:7.1f} ms   median {middle * 1e3:7.1f} ms{ratio}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=376)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rng, nodes = np.random.default_rng(0), options.nodes
    chain = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    edges = np.concatenate([chain, rng.integers(0, nodes, (2, nodes // 5))], axis=1)
    graph = Graph.build(edges, nodes)
    x = rng.random((nodes, FEATURES), dtype=np.float32)
    counts = np.full((nodes, HEADS), CHOICES, dtype=np.int16)
    config = GraphUNetConfig()
    net = GraphUNet(config, FEATURES, HEADS, CHOICES, rng)
    print(f"{nodes} nodes, {edges.shape[1]} edges, {net.layout.size} weights, {options.threads} threads")

    tensor = torch.from_numpy(x)
    compare("actor, forward", lambda: net(tensor, graph).detach(), None, options.repeat)
    compare("actor, forward and backward", lambda: net(tensor, graph).sum().backward(), None, options.repeat)

    stacked = StackedActor(config, FEATURES, HEADS, CHOICES)
    weights = np.stack([draw_weights(stacked.layout, config, rng) for _ in range(MEMBERS)])

    def one_by_one() -> None:
        with torch.inference_mode():
            for vector in weights:
                assign(net, vector)
                net(tensor, graph).softmax(-1)

    compare(
        f"population of {MEMBERS}, forward",
        lambda: stacked.probabilities(weights, x, graph, counts),
        one_by_one,
        options.repeat,
    )

    task = Task(graph, counts, np.ones((nodes, HEADS), dtype=bool))
    settings = SacConfig()
    action = rng.integers(0, CHOICES, (settings.batch, nodes, HEADS)).astype(np.int16)
    reward, done = rng.random(settings.batch, dtype=np.float32), np.ones(settings.batch, dtype=bool)
    shared = Transitions(x, action, reward, x, done)
    copies = np.repeat(x[None], settings.batch, axis=0)
    repeated = replace(shared, x=copies, next_x=copies)
    sac = Sac(config, CriticConfig(), settings, task, FEATURES, rng)
    compare(
        f"SAC update, batch {settings.batch} of one state",
        lambda: sac.update(shared, rng),
        lambda: sac.update(repeated, rng),
        options.repeat,
    )
    bootstrapping = replace(shared, done=~done)
    compare("SAC update, bootstrapping", lambda: sac.update(bootstrapping, rng), None, options.repeat)


if __name__ == "__main__":
    main()
