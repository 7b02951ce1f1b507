"""What a GPU changes: the learning side of each method on the processor and on the GPU.

    python -m benchmarks.device [--device cuda] [--threads 8] [--only parts,runs,games] [--repeat 5] [--gens 6]

`parts`: ten actors and one SAC update, on chains of the sizes of `benchmarks/learning.py` (whole graphs, no roles).
`runs`: seconds a generation of `egrl run`, read from metrics.csv without the first generation; each run is a process.
`games`: a slice of `muzero`, its moves and its gradient steps.

In `parts` and `games` the two devices take turns and times are medians. The last column is how many times as fast the
GPU is.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.learning import (
    CHOICES,
    FEATURES,
    HEADS,
    MEMBERS,
    chain,
    features,
    learner,
    minibatch,
    seconds,
)
from benchmarks.scale import workload
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods.egrl.config import SacConfig
from egrl_muzero.agent import Agent
from egrl_muzero.config import PlayConfig
from egrl_muzero.method import game_of
from hwsim.mmap.chip import load_chip
from hwsim.mmap.problem import MmapProblem
from policies.graph import Graph
from policies.graph_unet import draw_weights
from policies.network import NetworkConfig
from policies.stacked import StackedActor
from workloads.load import load_program

CPU = "cpu"
NODES = (376, 10_000, 100_000)
PAPER_PPO = ("--method", "ppo", "--preset", "paper")
RUNS: dict[str, tuple[str, ...]] = {
    "`egrl`, BERT": ("--workload", "bert"),
    "`egrl`, 10,000 ops": ("--workload", workload(10_000)),
    "`egrl`, 100,000 ops": ("--workload", workload(100_000)),
    "`ea`, 100,000 ops": ("--workload", workload(100_000), "--method", "ea"),
    "`ppo`, the paper's, inception_v3, 36 chips": (
        "--problem",
        "mcm",
        "--workload",
        "inception_v3",
        *PAPER_PPO,
    ),
}
PROGRAM = "alexnet_train_batch_32"
SLICES = 3


def print_row(name: str, on_cpu: float, on_device: float) -> None:
    """A row of the table."""
    print(f"| {name} | {on_cpu:.4f} | {on_device:.4f} | {on_cpu / on_device:.1f} |", flush=True)


def in_turn(name: str, actions: dict[str, Callable[[], object]], repeat: int) -> None:
    """Print medians of both devices, which take turns; the first turn does not count."""
    took: dict[str, list[float]] = {device: [] for device in actions}
    for _ in range(repeat + 1):
        for device, action in actions.items():
            took[device].append(seconds(action, device))
    print_row(name, *(statistics.median(times[1:]) for times in took.values()))


def actors_and_update(nodes: int, device: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Ten actors on a chain with skip edges, and one SAC update there."""
    rng = np.random.default_rng(0)
    graph = Graph.build(chain(nodes, rng), nodes).on(torch.device(device))
    memories = minibatch(nodes, SacConfig().batch, rng)
    counts = np.full((nodes, HEADS), CHOICES, dtype=np.int16)
    stacked = StackedActor(NetworkConfig(), FEATURES, HEADS, CHOICES, device)
    weights = np.stack([draw_weights(stacked.weight_format, stacked.config, rng) for _ in range(MEMBERS)])
    sac = learner(nodes, graph, rng, device)
    return (
        lambda: stacked.probabilities(weights, features(nodes), graph, counts),
        lambda: sac.update(memories, rng),
    )


def parts(options: argparse.Namespace) -> None:
    """What a generation of `egrl` is made of."""
    for nodes in NODES:
        made = {device: actors_and_update(nodes, device) for device in (CPU, options.device)}
        repeat = options.repeat if nodes < NODES[-1] else 1
        in_turn(f"ten actors, {nodes:,} nodes", {k: v[0] for k, v in made.items()}, repeat)
        in_turn(f"a SAC update, {nodes:,} nodes", {k: v[1] for k, v in made.items()}, repeat)


def generation_s(argv: tuple[str, ...], device: str, options: argparse.Namespace) -> float:
    """Seconds a generation of a run, the first generation aside."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "egrl", "run", *argv, "--gens", str(options.gens), "--quiet"]
        command += ["--device", device, "--threads", str(options.threads)]
        command += ["--bound-seconds", "0", "--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with (out / "metrics.csv").open() as file:
            at = [float(row["seconds"]) for row in csv.DictReader(file)]
    return (at[-1] - at[0]) / (len(at) - 1)


def runs(options: argparse.Namespace) -> None:
    """Whole searches."""
    for name, argv in RUNS.items():
        times = [generation_s(argv, device, options) for device in (CPU, options.device)]
        print_row(f"a generation of {name}", *times)


def games(options: argparse.Namespace) -> None:
    """What `muzero` does in a slice, with the default number of games and with 256."""
    problem = MmapProblem(load_program(PROGRAM), load_chip("tpuv4i"))
    for name, config in {"default": PlayConfig(), "256 games": PlayConfig(slots=256)}.items():
        made: dict[str, Agent] = {}
        for device in (CPU, options.device):
            context = Context([problem], Archive([problem]), 0, [None], None, 1, device)
            made[device] = Agent([game_of(problem, config)], config, context)
            torch.set_num_threads(options.threads)
        took: dict[str, list[float]] = {device: [] for device in made}
        for _ in range(SLICES):
            for device, agent in made.items():
                took[device].append(seconds(agent.work, device))
        print_row(f"a slice of `muzero`, {name}", *(statistics.median(times[1:]) for times in took.values()))


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--only", default="parts,runs,games")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--gens", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    name = torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else options.device
    print(f"{options.threads} threads; {name}; PyTorch {torch.__version__}\n")
    print(f"| what | cpu, s | {options.device}, s | times as fast |\n|---|---:|---:|---:|", flush=True)
    chosen: dict[str, Any] = {"parts": parts, "games": games, "runs": runs}
    for part in options.only.split(","):
        chosen[part](options)


if __name__ == "__main__":
    main()
