"""What a rough model is worth to a search on a real board: evaluations that `--start exact` saves.

    python benchmarks/exact_start.py --workloads resnet50,resnet101,bert --seeds 3 --evals 2100 --unknown prefetch

The *model* is the NNP-I chip file with one effect (`--unknown`) switched off: it does not know it. The *board* is the
same simulator with every effect, every bandwidth off by 20% (DRAM and SRAM slower, LLC faster) and 1% noise on each
measurement. A search on the board starts cold, at the compiler's map, or at the model's solution. Its champion by
measured reward is judged by its noise-free cost on the board; what counts is how many evaluations it takes until the
champion stays within `--within` of the best that any run found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import egrl
from egrl.core import mapping_file
from egrl.runs import chunks
from hwsim.nnpi.chip import Chip, chip_file, load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.problem import Status
from workloads.load import load

SCALES = (0.8, 1.2, 0.8)
NOISE = 0.01


def model_chip(unknown: str) -> Chip:
    """What the engineer knows."""
    chip = load_chip("nnpi")
    return replace(chip, effects=replace(chip.effects, **{unknown: False}))


def board_chip() -> Chip:
    """What the board does."""
    chip = load_chip("nnpi")
    memories = tuple(
        replace(memory, bandwidth_Bps=memory.bandwidth_Bps * scale)
        for memory, scale in zip(chip.memories, SCALES, strict=True)
    )
    effects = replace(chip.effects, noise=True)
    return replace(
        chip, name="board", memories=memories, effects=effects, noise=replace(chip.noise, sigma=NOISE)
    )


def champions(run: Path, quiet: NnpiProblem) -> np.ndarray:
    """Noise-free speedup [evaluations] of the champion so far, by measured reward."""
    columns = chunks.read([chunk.path for chunk in chunks.listing(run / "mappings")])
    reward = np.array(columns["reward"])
    reward[np.array(columns["status"]) != Status.OK] = -np.inf
    leads = np.maximum.accumulate(reward)
    holder = np.maximum.accumulate(np.where(reward == leads, np.arange(len(reward)), 0))
    distinct, where = np.unique(holder, return_inverse=True)
    mappings = np.stack([columns["mapping"][i] for i in distinct]).astype(np.int16)
    return quiet.evaluate(mappings, np.zeros(len(mappings), np.uint64)).speedup[where]


def needed(speedup: np.ndarray, target: float) -> float:
    """Evaluations after which the champion stays at or above the target; infinity where it never does."""
    below = np.flatnonzero(speedup < target)
    first = 0 if not len(below) else int(below[-1]) + 1
    return float(first + 1) if first < len(speedup) else float("inf")


def main(argv: Sequence[str] | None = None) -> int:
    """Print one table per workload."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", default="resnet50,resnet101,bert")
    parser.add_argument("--unknown", default="prefetch", choices=("prefetch", "moves", "contention", "cross"))
    parser.add_argument("--method", default="ea")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evals", type=int, default=2100)
    parser.add_argument("--within", type=float, default=0.01)
    parser.add_argument("--model-seconds", type=float, default=20.0)
    args = parser.parse_args(argv)
    print("| workload | start | first champion | final champion | evaluations to target | target |")
    print("|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as scratch:
        board = Path(scratch) / "board.toml"
        board.write_text(chip_file(board_chip()))
        for name in args.workloads.split(","):
            table(name, board, Path(scratch), args)
    return 0


def table(name: str, board: Path, scratch: Path, args: argparse.Namespace) -> None:
    """The rows of one workload: medians over seeds."""
    workload, chip = load(name), board_chip()
    quiet = NnpiProblem(workload, replace(chip, effects=replace(chip.effects, noise=False)))
    model = NnpiProblem(workload, model_chip(args.unknown))
    start = scratch / f"{name}-model.json"
    start.write_text(mapping_file.dumps(model, model.solve(args.model_seconds, 0).mapping))
    runs: dict[str, list[np.ndarray]] = {}
    for label, flag in (("cold", "cold"), ("compiler", "compiler"), ("exact (model)", str(start))):
        for seed in range(args.seeds):
            out = scratch / f"{name}-{label}-{seed}"
            options = {"method": args.method, "evals": args.evals, "seed": seed, "bound_seconds": 0.0}
            egrl.search(name, chip=str(board), start=flag, out=out, **options)
            runs.setdefault(label, []).append(champions(out, quiet))
    target = (1 - args.within) * max(curve[-1] for curves in runs.values() for curve in curves)
    for label, curves in runs.items():
        first, last = (float(np.median([curve[i] for curve in curves])) for i in (0, -1))
        count = float(np.median([needed(curve, target) for curve in curves]))
        shown = f"{count:.0f}" if np.isfinite(count) else f"> {args.evals}"
        print(f"| {name} | {label} | {first:.4f} | {last:.4f} | {shown} | {target:.4f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
