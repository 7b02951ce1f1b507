"""Write the table that docs/reference/mcm87.md shows: what the 87 graphs are, and how the package mcm36 takes them.

python tools/mcm87_table.py [--keys 200]
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from workloads.load import load
from workloads.zoo.mcm87 import MCM87, SIZES, members

TABLE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "data" / "mcm87.csv"
HEAD = ("name", "family", "part", "nodes", "edges", "parameters", "MiB", "GMAC", "chips", "found", "run")
PACKAGE = "mcm36"


def stated(name: str) -> list[str]:
    """The columns that say what a network is: name to GMAC."""
    net = load(name)
    part = next(part for part in SIZES if name in members(f"mcm87:{part}"))
    held = sum(op.weight_bytes for op in net) / 2**20
    return [
        f"`{name}`",
        MCM87[name].family,
        part,
        str(len(net)),
        str(len(net.edges())),
        f"{net.parameters:,}",
        f"{held:.1f}",
        f"{net.macs / 1e9:.3f}",
    ]


def problems(name: str) -> tuple[McmProblem, McmProblem]:
    """A network on the package, under the analytical and under the device model; both have a baseline."""
    net, package = load(name), load_package(PACKAGE)
    return McmProblem(net, package, McmConfig()), McmProblem(net, package, McmConfig(model="device"))


def sampled(analytical: McmProblem, device: McmProblem, keys: int) -> tuple[int, int]:
    """How many of the first `keys` keys SAMPLE finds a partition for, probabilities being uniform, and how many of
    these run on the device model."""
    even = np.ones((len(analytical.space.nodes), analytical.package.chips), np.float32)
    numbers = np.arange(keys, dtype=np.uint64)
    answer = analytical.solver.sample(even, numbers, None, analytical.config.backtracks)
    places = answer.assignment[answer.valid][:, :, None]
    ran = device.evaluate(places, numbers[: len(places)])
    return len(places), int(np.isfinite(ran.cost).sum())


def row(name: str, keys: int) -> list[str]:
    """All columns: also the chips of the baseline, and the shares of keys with a partition and of these that run."""
    analytical, device = problems(name)
    found, ran = sampled(analytical, device, keys)
    chips = int(analytical.baseline.mapping.max()) + 1
    shares = [f"{found / keys:.1%}", f"{ran / max(found, 1):.1%}"]
    return [*stated(name), str(chips), *(share.replace(".0%", "%") for share in shares)]


def main() -> None:
    """Replace the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=200)
    keys = parser.parse_args().keys
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *(row(name, keys) for name in MCM87)])


if __name__ == "__main__":
    main()
