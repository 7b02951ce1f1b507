"""What merging, regions and crossover are worth to `exact` on sharding instances: costs with and without them.

    python benchmarks/shard_steps.py FILE.json.gz … [--seconds 25] [--seeds 3] [--variants all,…]

A row a file and variant: costs over the least of all variants' runs, seed by seed, and the highest bound over it. Two
threads each, one run after the other. 0: no valid mapping was found.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from egrl_shard.exact import searcher
from egrl_shard.exact.draft import Draft
from egrl_shard.exact.searcher import Earned, Step
from egrl_shard.exact.solve import Solver
from egrl_shard.load import load_sharding

HEAD = "file                 variant          a column per seed, then the bound"
NO_REGIONS = mock.patch.object(Earned, "choose", return_value=Step.TREES)
NO_CROSSOVER = mock.patch.object(searcher, "crossed", return_value=None)
NO_MERGING = mock.patch.object(Draft, "merge", return_value=None)
VARIANTS: dict[str, tuple[Any, ...]] = {
    "all": (),
    "no crossover": (NO_CROSSOVER,),
    "no regions": (NO_REGIONS,),
    "neither": (NO_CROSSOVER, NO_REGIONS),
    "nor merging": (NO_CROSSOVER, NO_REGIONS, NO_MERGING),
}


@contextlib.contextmanager
def without(variant: str) -> Iterator[None]:
    """The solver without some of its parts."""
    with contextlib.ExitStack() as stack:
        for patch in VARIANTS[variant]:
            stack.enter_context(patch)
        yield


def solve(file: str, seconds: float, seed: int) -> tuple[int | None, float]:
    """Cost and bound after so many seconds of work, the reductions not among them."""
    solver = Solver(load_sharding(file), seed, 2)
    solver.work(seconds)
    return solver.best_cost, solver.bound


def rows(file: str, seconds: float, seeds: int, variants: Sequence[str] = tuple(VARIANTS)) -> list[str]:
    """The rows of a file."""
    found = {}
    for variant in variants:
        with without(variant):
            found[variant] = [solve(file, seconds, seed) for seed in range(seeds)]
    least = min(cost for runs in found.values() for cost, _ in runs if cost is not None)
    made = []
    for variant, runs in found.items():
        costs = "  ".join(f"{0.0 if cost is None else cost / least:7.4f}" for cost, _ in runs)
        made.append(f"{Path(file).name:20} {variant:16} {costs}  {max(b for _, b in runs) / least:7.4f}")
    return made


def main() -> None:
    """A row a file and variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    given = parser.parse_args()
    solve(given.files[0], 2.0, 0)  # compiles
    print(HEAD)
    for file in given.files:
        print("\n".join(rows(file, given.seconds, given.seeds, given.variants.split(","))), flush=True)


if __name__ == "__main__":
    main()
