"""Evolves a population with DEAP's operators instead of the paper's."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import egrl

OPERATORS = {
    "the paper's": [],
    "selection that spreads": ["method.selection=deap.tools:selStochasticUniversalSampling"],
    "uniform mating": ["method.mating=deap.tools:cxUniform(indpb=0.5)"],
    "Gaussian mutation": ["method.mutation=deap.tools:mutGaussian(mu=0, sigma=0.05, indpb=0.02)"],
}


def main(argv: Sequence[str] | None = None) -> int:
    """Arguments: a workload, evaluations."""
    workload, evals = (argv or sys.argv[1:] or ["resnet101", "1000"])[:2]
    for name, named in OPERATORS.items():
        settings = ["method.survival=generational", "method.boltzmann_fraction=0.2", *named]
        result = egrl.search(
            workload, method="ea", evals=int(evals), start="cold", settings=settings, quiet=True
        )
        print(f"{name}: {result.speedup:.3f}x the compiler")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
