"""Learners on a GPU: they run there, are resumed exactly, and compute what they compute on the processor.

Skipped where PyTorch sees no GPU.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import TINY

from egrl.cli.main import main
from policies.graph import Graph, prepare
from policies.graph_unet import GraphUNet
from policies.graphsage import GraphSage, GraphSageConfig
from policies.network import NetworkConfig

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")

MUZERO = ["--set", "method.slots=4", "--set", "method.simulations=4", "--set", "method.chunk=8"]
LEARNERS = {
    "egrl": ["--workload", "alexnet", "--method", "egrl", *TINY],
    "pg": ["--workload", "alexnet", "--method", "pg", *TINY[:8]],
    "es": ["--workload", "alexnet", "--method", "es"],
    "ppo": ["--problem", "mcm", "--workload", "resnet50", "--method", "ppo"],
    "ppo-paper": ["--problem", "mcm", "--workload", "resnet50", "--method", "ppo", "--preset", "paper"],
    "muzero": ["--problem", "mmap", "--workload", "dlrm_inference", "--method", "muzero", *MUZERO],
}


def run(out: Path, *argv: str) -> None:
    """`egrl run` on the GPU."""
    assert main(["run", *argv, "--quiet", "--checkpoint-seconds", "0"]) == 0
    assert (out / "summary.json").exists()


def found(out: Path) -> tuple[dict[str, Any], list[list[str]]]:
    """The best mapping of a run, and its metrics without those of time."""
    best = json.loads((out / "best_mapping.json").read_text())
    with (out / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    timed = {name for name in rows[0] if "seconds" in name or name.endswith("_s")}
    return best, [[value for name, value in row.items() if name not in timed] for row in rows]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_run_on_a_gpu_is_resumed_exactly(name: str, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    argv = [*LEARNERS[name], "--device", "cuda", "--seed", "3", "--bound-seconds", "0"]
    run(whole, *argv, "--gens", "4", "--out", str(whole))
    run(parts, *argv, "--gens", "2", "--out", str(parts))
    run(parts, "--resume", str(parts), "--gens", "4")
    assert found(parts) == found(whole)


@pytest.mark.parametrize("nodes", [7, 300])
def test_networks_of_graphs_compute_the_same_on_both(nodes: int) -> None:
    rng = np.random.default_rng(nodes)
    edges = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    x = torch.from_numpy(rng.random((nodes, 5), dtype=np.float32))
    net = GraphUNet(NetworkConfig(), 5, 2, 3, rng)
    graph = Graph.build(edges, nodes)
    on_cpu = net(x, graph).detach()
    on_gpu = net.to("cuda")(x.to("cuda"), graph.on(torch.device("cuda"))).detach().cpu()
    torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-3, atol=1e-4)


def test_the_networks_of_ppo_compute_the_same_on_both() -> None:
    rng = np.random.default_rng(0)
    nodes, chips = 40, 6
    edges = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    x = torch.from_numpy(rng.random((nodes, 5), dtype=np.float32))
    earlier = torch.from_numpy(rng.integers(-1, chips, (3, nodes, 1)))
    counts = torch.full((nodes, 1), chips, dtype=torch.int64)
    net = GraphSage(GraphSageConfig(), 5, 1, rng)
    graph = prepare(edges, nodes)
    results = []
    for device in ("cpu", "cuda"):
        there = torch.device(device)
        out = net.to(there)(x.to(there), earlier.to(there), graph.on(there), counts.to(there))
        results.append([part.detach().cpu() for part in out])
    for on_cpu, on_gpu in zip(*results, strict=True):
        torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-3, atol=1e-4)
