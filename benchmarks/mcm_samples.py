"""The paper's agent on multi-chip modules, trained and frozen, and its rivals, to as many samples as the paper's table.

    python -m benchmarks.mcm_samples -o FILE [--variants rl,rl-frozen] [--seeds 1] [--evals 2000] [--policy POLICY]
    python -m benchmarks.mcm_samples -o FILE --table

Each line of FILE is a run on one of the 16 test graphs, with the best throughput over the greedy heuristic's that the
method had itself proposed after so many samples; what is there is not run again. `rl` is the paper's agent
(`--preset paper`, which begins with no partition), `rl-frozen` the same with weights as they are drawn, `rl-finetuned`
the same from POLICY, pre-trained on the other graphs; `ppo` is ours. `ppo` and `annealing` go on from the heuristic's
partition. Graphs are what intervals are over.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import egrl
from analysis.transfer import geometric_mean
from benchmarks.lines import Lines
from egrl.core.archive import START
from egrl.reproduction import interval_text, paired
from egrl.runs.past_run import PastRun
from workloads.zoo.mcm87 import split

SAMPLES = (21, 126, 252, 504, 1000, 1500, 2000)
FROZEN = ["method.learner.epochs=0"]
PAPER = {"method": "ppo", "preset": "paper"}
VARIANTS: dict[str, dict[str, Any]] = {
    "rl": PAPER,
    "rl-frozen": {**PAPER, "settings": FROZEN},
    "rl-finetuned": PAPER,
    "random": {"method": "random"},
    "annealing": {"method": "annealing"},
    "ppo": {"method": "ppo"},
    "ppo-frozen": {"method": "ppo", "settings": FROZEN},
}
PAIRS = (
    ("rl", "rl-frozen"),
    ("rl-finetuned", "rl"),
    ("rl", "random"),
    ("rl", "annealing"),
    ("ppo", "ppo-frozen"),
    ("ppo", "random"),
    ("ppo", "annealing"),
)
KEYS = ("graph", "variant", "seed", "evals")


def best_of(folder: Path) -> list[float]:
    """The best speedup that the method of a run had itself proposed after each of SAMPLES that it reached; 0: none."""
    run = PastRun.read(folder).evaluations()
    best = np.maximum.accumulate(np.where(run.source != START, run.speedup, 0.0))
    return [round(float(best[samples - 1]), 6) for samples in SAMPLES if samples <= len(best)]


def measure(graph: str, variant: str, seed: int, evals: int, policy: str) -> dict[str, Any]:
    """One run, in a folder that is let go."""
    options = dict(VARIANTS[variant])
    if variant == "rl-finetuned":
        options["init"] = policy
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        egrl.search(graph, problem="mcm", evals=evals, seed=seed, bound_seconds=0.0, out=out, **options)
        return {"best": best_of(out)}


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Geometric means over graphs by samples, and differences of logarithms with graphs as units, in Markdown."""
    runs = {(line["variant"], line["graph"]): line["best"] for line in lines if line["seed"] == 0}
    reached = [variant for variant in VARIANTS if all((variant, graph) in runs for graph in split().test)]
    curves = {variant: np.array([runs[variant, graph] for graph in split().test]) for variant in reached}
    rows = ["| samples | " + " | ".join(map(str, SAMPLES)) + " |", "|---|" + "---:|" * len(SAMPLES)]
    rows += [
        f"| `{variant}` | "
        + " | ".join(f"{geometric_mean(curve[:, [k]].tolist())[0]:.4f}" for k in range(curve.shape[1]))
        + " |"
        for variant, curve in curves.items()
    ]
    rows += ["", "| pair | 504 | 2,000 | graphs that differ at 2,000 |", "|---|---|---|---:|"]
    for ours, theirs in PAIRS:
        if ours in curves and theirs in curves:
            cells = []
            for samples in (504, 2000):
                k = SAMPLES.index(samples)
                logs = [np.log(curves[each][:, k]).tolist() for each in (ours, theirs)]
                cells.append(interval_text(paired(*logs)).strip(" ()"))
            differ = int((curves[ours][:, -1] != curves[theirs][:, -1]).sum())
            rows.append(f"| `{ours}` over `{theirs}` | {' | '.join(cells)} | {differ} |")
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="out", type=Path, required=True)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--policy", default="", help="policy file of rl-finetuned")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--evals", type=int, default=SAMPLES[-1])
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args(argv)
    variants = args.variants.split(",")
    if not args.table and "rl-finetuned" in variants and not args.policy:
        parser.error("--policy: expected the policy file of rl-finetuned, found none")
    torch.set_num_threads(1)
    lines = Lines(args.out, KEYS)
    for seed in range(0 if args.table else args.seeds):
        for variant in variants:
            for graph in split().test:
                case = (graph, variant, seed, args.evals)
                if case not in lines:
                    lines.add(case, measure(*case, args.policy))
    print(table(lines.all))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
