"""Small networks to be split, at random and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwsim.mcm.network import Network, network
from hwsim.mcm.package import Constraints, Package, load_package
from workloads.importers.placement_json import PlacementGraph

MIB = 2**20


def package(load: str = "compute", chips: int = 3, sram_bytes: int = 10 * MIB, **rules: bool) -> Package:
    """Chips with links of 1 MiB a second, so that bytes are easily seconds."""
    paper = load_package("mcm36")
    return replace(
        paper,
        name="small",
        chips=chips,
        load=load,
        chip=replace(paper.chip, sram_bytes=sram_bytes),
        link=replace(paper.link, bandwidth_Bps=float(MIB), hop_s=0.0),
        device=replace(paper.device, launch_s=0.0, sram_Bps=1e18),
        constraints=Constraints(**rules),
    )


def instance(
    latency: list[float],
    edges: list[tuple[int, int]],
    transfer: list[float],
    size: list[int] | None = None,
    group: list[int] | None = None,
) -> PlacementGraph:
    """An instance whose transfers take `transfer` seconds a node that is read and as many MiB."""
    count = len(latency)
    return PlacementGraph(
        "small",
        tuple(f"n{v}" for v in range(count)),
        np.array(edges, np.int64).reshape(-1, 2),
        np.array(latency, np.float64),
        np.array([MIB] * count if size is None else size, np.int64),
        np.arange(count) if group is None else np.array(group),
        np.array([transfer[u] for u, _ in edges], np.float64),
        np.array([int(transfer[u] * MIB) for u, _ in edges], np.int64),
        3,
        3 * MIB,
    )


def drawn(seed: int, nodes: int, given: Package) -> Network:
    """A random network of up to `nodes` nodes with two inputs at most."""
    rng = np.random.default_rng(seed)
    edges = sorted({(int(rng.integers(max(0, v - 4), v)), v) for v in range(1, nodes) for _ in range(2)})
    latency = rng.integers(1, 9, nodes).astype(float).tolist()
    transfer = (rng.integers(1, 9, nodes) / 4).tolist()
    return network(instance(latency, edges, transfer, rng.integers(0, 4 * MIB, nodes).tolist()), given)
