"""Switch each departure from the paper off alone, and print what is left.

    python benchmarks/ablation.py --out ablation [--method ea] [--workloads resnet101,bert,resnet50] [--seeds 10]

A row is a change of the method's settings; the figures are mean best speedups over the compiler and, in brackets, the
mean difference to the first row, seed by seed, with its 95% interval. Runs are kept in `--out` and not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from egrl.compare.statistics import paired_interval

Row = tuple[str, str, list[str]]
EVOLUTION: list[Row] = [
    ("as it is", "as-it-is", []),
    ("no networks: chromosomes alone", "no-networks", ["--set", "method.boltzmann_fraction=1.0"]),
    ("no chromosomes: the walk alone", "no-chromosomes", ["--set", "method.boltzmann_fraction=0.0"]),
    ("20% chromosomes, as in Table 2", "fifth", ["--set", "method.boltzmann_fraction=0.2"]),
    ("one walk, never given up", "one-walk", ["--set", "method.patience=1000000"]),
    ("children of the best island only", "best-only", ["--set", "method.exploit=1.0"]),
    (
        "flips and swaps only",
        "flips-swaps",
        [
            *("--set", "method.block=0.0", "--set", "method.kin_swap=0.0", "--set", "method.kin_block=0.0"),
            *("--set", "method.kin_shift=0.0", "--set", "method.repack=0.0"),
        ],
    ),
    ("sampled readout", "sampled", ["--set", "method.readout=sample"]),
    (
        "generational survival (Algorithm 2), greedy",
        "generational",
        ["--set", "method.survival=generational"],
    ),
    ("-epsilon for invalid maps (line 12)", "penalise", ["--set", "problem.invalid=penalise"]),
    ("cold start", "cold", ["--start", "cold"]),
    ("--preset paper (the paper's values together)", "paper", ["--preset", "paper"]),
]
SAC = ["--set", "method.readout=greedy"]
"""Networks that a placer reads have another learner."""
LEARNER: list[Row] = [
    ("SAC, as it is", "sac", SAC),
    ("no gradient steps", "no-steps", [*SAC, "--set", "method.gradient_steps=0"]),
    ("a gradient step in 16 evaluations", "steps-16th", [*SAC, "--set", "method.gradient_steps=0.0625"]),
    ("… in 4", "steps-4th", [*SAC, "--set", "method.gradient_steps=0.25"]),
    ("a gradient step an evaluation (Table 2)", "steps-1", [*SAC, "--set", "method.gradient_steps=1"]),
    ("no imitation", "no-imitation", [*SAC, "--set", "method.imitation=0.0"]),
    ("--preset paper", "paper", ["--preset", "paper"]),
]


def speedup(folder: Path) -> float | None:
    """The best speedup of a finished run; None where it is not finished."""
    try:
        summary = json.loads((folder / "summary.json").read_text())
    except OSError:
        return None
    return float(summary["best"]["speedup"] if summary["best"] else 0.0) if summary["complete"] else None


def run(folder: Path, argv: list[str]) -> None:
    """One run in a process of its own, unless it is there."""
    if speedup(folder) is not None:
        return
    command = [sys.executable, "-m", "egrl", "run", "--quiet", "--out", str(folder), *argv]
    if folder.exists():
        command = [sys.executable, "-m", "egrl", "run", "--quiet", "--resume", str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    print(f"{folder}: {speedup(folder):.4f}", file=sys.stderr, flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--method", choices=("ea", "egrl"), default="ea")
    parser.add_argument("--workloads", default="resnet101,bert,resnet50")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evals", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    rows = EVOLUTION if options.method == "ea" else LEARNER
    workloads = options.workloads.split(",")
    with ThreadPoolExecutor(options.workers) as pool:
        waiting = []
        for workload in workloads:
            for _, name, changes in rows:
                for seed in range(options.seeds):
                    argv = ["--workload", workload, "--method", options.method, "--seed", str(seed)]
                    argv += ["--evals", str(options.evals), *changes]
                    folder = options.out / options.method / workload / f"{name}-s{seed}"
                    waiting.append(pool.submit(run, folder, argv))
        for job in waiting:
            job.result()
    print(f"| {options.method} | {' | '.join(workloads)} |")
    print("|---|" + "---|" * len(workloads))
    for title, name, _ in rows:
        cells = []
        for workload in workloads:
            found = {}
            for which in (name, rows[0][1]):
                runs = options.out / options.method / workload
                values = [speedup(runs / f"{which}-s{seed}") for seed in range(options.seeds)]
                found[which] = {seed: value for seed, value in enumerate(values) if value is not None}
            own = found[name]
            against = None if name == rows[0][1] else paired_interval(own, found[rows[0][1]])
            difference = (
                "" if against is None else f" ({against.mean:+.4f} [{against.low:+.4f}, {against.high:+.4f}])"
            )
            cells.append(f"{sum(own.values()) / len(own):.4f}{difference}")
        print(f"| {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
