"""Evolves a population with DEAP's operators instead of the paper's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from deap import tools

import egrl
from egrl.methods.named import with_operators
from population.operators import Operators

OPERATORS = {
    "the paper's": Operators(),
    "selection that spreads": Operators(select=tools.selStochasticUniversalSampling),
    "uniform mating": Operators(mate=partial(tools.cxUniform, indpb=0.5)),
    "Gaussian mutation": Operators(mutate=partial(tools.mutGaussian, mu=0, sigma=0.05, indpb=0.02)),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Arguments: a workload, evaluations."""
    workload, evals = (argv or sys.argv[1:] or ["resnet101", "1000"])[:2]
    settings = ["method.survival=generational", "method.boltzmann_fraction=0.2"]
    for name, operators in OPERATORS.items():
        method = with_operators(operators)
        result = egrl.search(
            workload, method=method, evals=int(evals), start="cold", settings=settings, quiet=True
        )
        print(f"{name}: {result.speedup:.3f}x the compiler")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
