"""Search for a better memory placement of a network, and show where its weights went.

    python examples/quickstart/search.py [WORKLOAD] [GENERATIONS] [METHOD]

The defaults (bert, 400 generations, annealing) take about 6 seconds on one core, and as many more the first time,
when numba compiles. With METHOD egrl a generation of bert takes two seconds. The run folder is made in `runs/`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import egrl


def main(argv: Sequence[str]) -> int:
    """Search, then print the speedup and a table of the weights by memory, fastest memory first."""
    workload = argv[0] if argv else "bert"
    generations = int(argv[1]) if len(argv) > 1 else 400
    method = argv[2] if len(argv) > 2 else "annealing"
    result = egrl.search(workload, gens=generations, method=method, seed=0, out=True)

    if result.mapping is None:
        print(f"{workload}: no valid mapping found; run folder: {result.folder}")
        return 1
    best = result.summary["best"]
    print(f"{workload}: {result.speedup:.3f}x the compiler, {best['cost'] * 1e6:.1f} us, by {best['source']}")
    print(f"run folder: {result.folder}")

    problem = result.problem
    head = problem.space.heads.index("weight")
    memory, size_bytes = result.mapping[:, head], problem.space.size_bytes[:, head]
    before = problem.baseline.mapping[:, head]
    print(f"\n{'memory':<8}{'weights':>8}{'MiB':>10}{'compiler MiB':>14}")
    for number, name in reversed(list(enumerate(problem.space.labels[head]))):
        here = memory == number
        mib, compiled = (size_bytes[where].sum() / 2**20 for where in (here, before == number))
        print(f"{name:<8}{here.sum():>8}{mib:>10.2f}{compiled:>14.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
