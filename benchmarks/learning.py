"""Time what EGRL's learning side spends a generation on, beside a straightforward form of each.

    python -m benchmarks.learning [--nodes 376] [--threads 2] [--repeat 15] [--device cpu]
    python -m benchmarks.learning --scale

The graph is a chain with a fifth as many skip edges (376 nodes: the size of BERT). Times are the minimum and the
median over the repetitions, both forms interleaved; a ratio is of the medians. `--scale` prints instead what a
generation costs against the number of nodes.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.plain_pyg import PlainSac
from egrl.methods.egrl.config import SacConfig
from egrl.methods.egrl.sac import Sac, Task, Transitions
from policies.critic import CriticConfig
from policies.graph import Graph
from policies.graph_unet import GraphUNet, draw_weights
from policies.network import NetworkConfig
from policies.stacked import StackedActor
from policies.weight_vector import assign

FEATURES, HEADS, CHOICES, MEMBERS = 21, 2, 3, 10
SCALE = (100, 376, 1000, 10_000, 30_000)


def seconds(action: Callable[[], object], device: str) -> float:
    """Wall-clock seconds of one call, the device's work included."""
    begin = time.perf_counter()
    action()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def compare(
    name: str,
    fast: Callable[[], object],
    naive: Callable[[], object] | None,
    options: argparse.Namespace,
) -> float:
    """Print times of `fast` and how many times longer `naive` takes. Returns the median seconds of `fast`."""
    times: dict[str, list[float]] = {"fast": [], "naive": []}
    for _ in range(options.repeat + 1):
        times["fast"].append(seconds(fast, options.device))
        if naive is not None:
            times["naive"].append(seconds(naive, options.device))
    low, middle = min(times["fast"][1:]), statistics.median(times["fast"][1:])
    ratio = (
        "" if naive is None else f"   straightforward: {statistics.median(times['naive'][1:]) / middle:.1f}x"
    )
    print(f"{name:<40} min {low * 1e3:7.1f} ms   median {middle * 1e3:7.1f} ms{ratio}", flush=True)
    return middle


def chain(nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Edges [2, E] of a chain with a fifth as many skip edges."""
    line = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    return np.concatenate([line, rng.integers(0, nodes, (2, nodes // 5))], axis=1)


def minibatch(nodes: int, batch: int, rng: np.random.Generator) -> Transitions:
    """Random episodes."""
    action = rng.integers(0, CHOICES, (batch, nodes, HEADS)).astype(np.int16)
    return Transitions(action, rng.random(batch, dtype=np.float32))


def features(nodes: int) -> np.ndarray:
    """The state float32 [N, F] of all episodes."""
    return np.random.default_rng(nodes).random((nodes, FEATURES), dtype=np.float32)


def learner(nodes: int, graph: Graph, rng: np.random.Generator, device: str) -> Sac:
    """A SAC learner of the paper's sizes."""
    counts = np.full((nodes, HEADS), CHOICES, dtype=np.int16)
    task = Task(graph, features(nodes), counts, np.ones((nodes, HEADS), dtype=bool))
    return Sac(NetworkConfig(), CriticConfig(), SacConfig(), task, rng, device=device)


def stages(options: argparse.Namespace) -> None:
    """What a generation is made of."""
    rng, nodes, device = np.random.default_rng(0), options.nodes, options.device
    edges = chain(nodes, rng)
    graph = Graph.build(edges, nodes).on(torch.device(device))
    config = NetworkConfig()
    net = GraphUNet(config, FEATURES, HEADS, CHOICES, rng).to(device)
    print(
        f"{nodes} nodes, {edges.shape[1]} edges, {net.weight_format.size} weights, {options.threads} threads, {device}"
    )
    batch, seen = minibatch(nodes, SacConfig().batch, rng), features(nodes)
    x = torch.from_numpy(seen).to(device)
    compare("actor, forward", lambda: net(x, graph).detach(), None, options)
    compare("actor, forward and backward", lambda: net(x, graph).sum().backward(), None, options)

    stacked = StackedActor(config, FEATURES, HEADS, CHOICES, device)
    weights = np.stack([draw_weights(stacked.weight_format, config, rng) for _ in range(MEMBERS)])
    counts = np.full((nodes, HEADS), CHOICES, dtype=np.int16)

    def one_by_one() -> None:
        with torch.inference_mode():
            for vector in weights:
                assign(net, vector)
                net(x, graph).softmax(-1).cpu()

    compare(
        f"{MEMBERS} actors, forward",
        lambda: stacked.probabilities(weights, seen, graph, counts),
        one_by_one,
        options,
    )
    rows = torch.randn(2 * nodes, SacConfig().batch * CriticConfig().width, device=device)
    sparse, dense = graph.adjacency(2), graph.adjacency(1).to_dense()
    compare(
        "neighbours in the critic (beside: dense)",
        lambda: torch.sparse.mm(sparse, rows),
        lambda: torch.matmul(dense, rows.view(2, nodes, -1)),
        options,
    )
    sac = learner(nodes, graph, rng, device)
    plain = PlainSac(config, CriticConfig(), SacConfig(), FEATURES, HEADS, CHOICES, device)
    ends = torch.from_numpy(edges).to(device)
    action = torch.from_numpy(batch.action.astype(np.int64)).to(device)
    reward = torch.from_numpy(batch.reward).to(device)
    compare(
        f"SAC update, batch {len(action)} of one state",
        lambda: sac.update(batch, rng),
        lambda: plain.update(x, ends, action, reward),
        options,
    )


def scale(options: argparse.Namespace) -> None:
    """Seconds against nodes."""
    print(f"{options.threads} threads, {options.device}; a generation: {MEMBERS} actors and 21 SAC updates")
    print("|  nodes | actors, s | SAC update, s | generation, s | peak memory, GiB |")
    print("|-------:|----------:|--------------:|--------------:|-----------------:|")
    for nodes in SCALE:
        rng = np.random.default_rng(0)
        graph = Graph.build(chain(nodes, rng), nodes).on(torch.device(options.device))
        batch, seen = minibatch(nodes, SacConfig().batch, rng), features(nodes)
        stacked = StackedActor(NetworkConfig(), FEATURES, HEADS, CHOICES, options.device)
        weights = np.stack([draw_weights(stacked.weight_format, stacked.config, rng) for _ in range(MEMBERS)])
        counts = np.full((nodes, HEADS), CHOICES, dtype=np.int16)
        sac = learner(nodes, graph, rng, options.device)
        repeat = max(1, min(5, 20_000 // nodes))
        times = []
        for action in (
            lambda s=stacked, w=weights, x=seen, g=graph, c=counts: s.probabilities(w, x, g, c),
            lambda s=sac, b=batch, r=rng: s.update(b, r),
        ):
            runs = [seconds(action, options.device) for _ in range(repeat + 1)]
            times.append(statistics.median(runs[1:]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"| {nodes:>6} | {times[0]:>9.3f} | {times[1]:>13.3f} | {times[0] + 21 * times[1]:>13.2f} |"
            f" {peak:>16.2f} |",
            flush=True,
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=376)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scale", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.scale:
        scale(options)
    else:
        stages(options)


if __name__ == "__main__":
    main()
