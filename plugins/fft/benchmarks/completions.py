"""What completions that learn are worth: the tables of plugins/fft/log/fft.md.

    python plugins/fft/benchmarks/completions.py plans --seeds 6
    python plugins/fft/benchmarks/completions.py decisions --seeds 2

`plans`: FFT plans with modelled costs; a row is the best cost over that of dynamic programming's first pass, geometric
mean over sizes and seeds, after 25 to 800 evaluations. `decisions`: speedups over the baseline after 800 evaluations
from nothing, median over seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from egrl_fft.problem import FftConfig, FftProblem
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Problem, Status
from workloads.load import load

SIZES = (256, 1024, 4096, 16384, 65536, 1000, 5040)
MARKS = (25, 50, 100, 200, 400, 800)
PLANS: dict[str, dict[str, Any]] = {
    "learned": {},
    "learned, nothing closed by preference": {"close": 0.0},
    "uniform": {"completions": "uniform"},
    "one elite": {"elites": 1},
    "ten elites": {"elites": 10},
    "rate 0.1": {"rate": 0.1},
    "rate 1": {"rate": 1.0},
    "s = 20": {"s": 20},
    "delta = 0.9": {"delta": 0.9},
}
DECISIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "tag": ("tag", {}),
    "uniform": ("tag", {"completions": "uniform"}),
    "uct": ("uct", {}),
    "random": ("random", {}),
    "annealing": ("annealing", {}),
}


def costs(
    problem: Problem, name: str, settings: Mapping[str, Any], seed: int, marks: Sequence[int]
) -> list[float]:
    """The best cost of the whole after each number of evaluations."""
    definition = find_method(name)
    context = Context([problem], Archive([problem]), seed, [None])
    method = definition.build(context, typed_tables.build(definition.config, settings, name))
    best, told, found = math.inf, 0, []
    while told < marks[-1] and (batch := method.ask()) is not None:
        evaluation = problem.evaluate(batch.mapping, np.arange(told, told + len(batch)).astype(np.uint64) + 1)
        method.tell(batch, evaluation)
        ran = (evaluation.status == Status.OK) & ~evaluation.partial
        for cost in np.where(ran, evaluation.cost, np.inf).tolist():
            told += 1
            best = min(best, cost)
            if told in marks:
                found.append(best)
    return [*found, *[best] * (len(marks) - len(found))]


def first_pass(problem: FftProblem) -> float:
    """The best cost at the end of dynamic programming's first pass."""
    definition = find_method("greedy-dp")
    context = Context([problem], Archive([problem]), 0, [None])
    method = definition.build(context, typed_tables.build(definition.config, {"parallel": 1}, "greedy-dp"))
    best = math.inf
    while (batch := method.ask()) is not None and dict(method.metrics())["pass"] == 1.0:
        evaluation = problem.evaluate(batch.mapping, np.zeros(1, np.uint64))
        method.tell(batch, evaluation)
        if not evaluation.partial[0]:
            best = min(best, float(evaluation.cost[0]))
    return best


def plans(seeds: int) -> None:
    """Print the table of FFT plans."""
    problems = [FftProblem(size, FftConfig(cost="model")) for size in SIZES]
    targets = [first_pass(problem) for problem in problems]
    print("".join([f"{'best cost over dynamic programming':40}", *(f"{mark:>8}" for mark in MARKS)]))
    for label, settings in PLANS.items():
        rows = [
            np.log(np.array(costs(problem, "tag", settings, seed, MARKS)) / target)
            for problem, target in zip(problems, targets, strict=True)
            for seed in range(seeds)
        ]
        means = np.exp(np.mean(rows, axis=0))
        print("".join([f"{label:40}", *(f"{value:8.3f}" for value in means)]), flush=True)


def decisions(seeds: int) -> None:
    """Print the table of problems whose decisions are made one by one."""
    problems: list[Problem] = [
        McmProblem(load("mobilenet_v2"), load_package("edge4")),
        McmProblem(load("resnet50"), load_package("mcm36")),
        McmProblem(load("bert"), load_package("mcm36")),
        NnpiProblem(load("resnet50"), load_chip("nnpi"), NnpiConfig()),
        NnpiProblem(load("bert"), load_chip("nnpi"), NnpiConfig()),
    ]
    print("".join([f"{'speedup over the baseline':32}", *(f"{label:>10}" for label in DECISIONS)]))
    for problem in problems:
        cells = []
        for name, settings in DECISIONS.values():
            found = [costs(problem, name, settings, seed, (800,))[0] for seed in range(seeds)]
            cells.append(f"{problem.baseline.cost / median(found):10.2f}")
        about = problem.about
        print(f"{' '.join((about.name, about.workload, about.chip)):32}" + "".join(cells), flush=True)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=("plans", "decisions"))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    (plans if options.table == "plans" else decisions)(options.seeds)


if __name__ == "__main__":
    main()
