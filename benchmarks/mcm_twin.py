"""How many samples the twin needs on the device model, of which it knows the analytical model: against `ppo`.

    python -m benchmarks.mcm_twin -o FILE [--workload bert_large] [--methods twin,ppo] [--seeds 5] [--evals 120]

Nobody begins at the heuristic's partition (`--start cold`), and each sample counts, those that do not run, too. The
levels are 90, 95 and 100 % of what `ppo` reached in docs/results/mcm.md. Each line of FILE is one method with one seed;
what is there is not run again. A method has reached a level where the mean over seeds of the best so far has.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

import egrl
from benchmarks.lines import Lines
from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from workloads.load import load

LEVELS = (0.9883, 1.0433, 1.0982)
MARKS = (1, 2, 3, 4, 5, 8, 11, 12, 20, 28, 44, 60, 92, 120, 200, 400, 708)


def measure(problem: McmProblem, method: str, seed: int, evals: int) -> dict[str, object]:
    """Best speedups so far after each sample, who proposed each, and seconds of thought a sample."""
    search = egrl.Search(problem, method=method, seed=seed, start="cold")
    begun, told_s = time.monotonic(), 0.0
    speedup: list[float] = []
    source: list[str] = []
    while len(speedup) < evals and (batch := search.ask(limit=evals - len(speedup))) is not None:
        before = time.monotonic()
        evaluation = problem.evaluate(batch.proposals.mapping, batch.key)
        told_s += time.monotonic() - before
        search.tell(batch, evaluation)
        speedup += evaluation.speedup.tolist()
        source += batch.source
    best = np.maximum.accumulate(speedup).tolist()
    think_s = (time.monotonic() - begun - told_s) / len(speedup)
    ran = float(np.mean(np.array(speedup) > 0))
    return {"best": best, "source": source, "ran": ran, "think_s": think_s}


def table(lines: list[dict[str, Any]]) -> None:
    """Means with 95 % intervals at the marks, and samples to the levels."""
    for method in dict.fromkeys(line["method"] for line in lines):
        own = [line for line in lines if line["method"] == method]
        length = min(len(line["best"]) for line in own)
        best = np.array([line["best"][:length] for line in own])
        mean = best.mean(axis=0)
        print(f"\n{method}, {len(own)} seeds, {np.mean([line['think_s'] for line in own]):.2f} s a sample")
        for mark in (m for m in MARKS if m <= length):
            column = best[:, mark - 1]
            half = (
                student.ppf(0.975, len(own) - 1) * column.std(ddof=1) / len(own) ** 0.5 if len(own) > 1 else 0
            )
            print(f"  {mark:4}  {column.mean():.4f} [{column.mean() - half:.4f}, {column.mean() + half:.4f}]")
        for level in LEVELS:
            mean_at = int(np.argmax(mean >= level)) + 1 if (mean >= level).any() else None
            each = [int(np.argmax(row >= level)) + 1 if (row >= level).any() else None for row in best]
            print(f"  to {level}: the mean after {mean_at}, the seeds after {each}")


def main() -> None:
    """Run what is not in the file yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--workload", default="bert_large")
    parser.add_argument("--methods", default="twin,ppo")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--evals", type=int, default=120)
    options = parser.parse_args()
    lines = Lines(options.output, ("method", "seed"))
    problem = McmProblem(load(options.workload), load_package("mcm36"), McmConfig(model="device"))
    for seed in range(options.seeds):
        for method in options.methods.split(","):
            if (method, seed) not in lines:
                lines.add((method, seed), measure(problem, method, seed, options.evals))
    table(lines.all)


if __name__ == "__main__":
    main()
