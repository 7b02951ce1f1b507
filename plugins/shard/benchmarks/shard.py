"""How fast sharding instances are read and evaluated, on one core.

    python benchmarks/shard.py FILE.json.gz …

A row a file: seconds to read it, seconds to build tables and baseline, the most memory so far in MiB; full
evaluations a second (choices drawn at random, all costs and all points of time added up); microseconds of a change of
one node (its cost with its edges for another strategy, and its usage taken out of the tree and put back), the mean
over all nodes; milliseconds of a move with what follows it, and of the repair of a choice drawn at random.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egrl_shard.cost import cost_of, totals, usage_of
from egrl_shard.load import load_sharding
from egrl_shard.problem import Shard
from egrl_shard.tables import Tables
from hwsim.jit import kernel
from hwsim.nnpi.placer import add, most

DRAWN, MOVES, REPAIRS = 50, 50, 3
HEAD = "file      read s  build s     MiB  evaluations/s  change us  move ms  repair ms"


@kernel
def change_each(
    t: Tables, choice: NDArray[np.int16], tree: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> int:
    """Price another strategy of every node, and take what it uses out of the tree and put it back."""
    total = 0
    for n in range(len(choice)):
        other = (choice[n] + 1) % (t.first[n + 1] - t.first[n])
        cost, _ = cost_of(t, choice, n, other)
        more = t.usage[t.first[n] + other] - t.usage[t.first[n] + choice[n]]
        add(tree, t.lower[n], t.upper[n], more)
        total += cost + most(tree, t.lower[n], t.upper[n])
        add(tree, t.lower[n], t.upper[n], -more)
    return total


def seconds(act: Callable[[], object]) -> float:
    """What one call takes, after one that compiles."""
    act()
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def measure(file: str) -> str:
    """The row of a file."""
    begun = time.perf_counter()
    sharding = load_sharding(file)
    read_s = time.perf_counter() - begun
    Shard(sharding)  # compiles
    begun = time.perf_counter()
    problem = Shard(sharding)
    build_s = time.perf_counter() - begun
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rng, t = np.random.default_rng(0), problem.tables
    drawn = (rng.random((DRAWN, len(sharding))) * sharding.strategies).astype(np.int16)
    first = problem.baseline.mapping[:, 0].copy()
    tree = usage_of(t, first)
    keys = rng.integers(2**64, size=MOVES, dtype=np.uint64)
    evaluated = DRAWN / seconds(lambda: totals(t, drawn))
    changed = seconds(lambda: change_each(t, first, tree)) / len(first)
    moved = seconds(lambda: [problem.move(problem.baseline.mapping, key) for key in keys]) / MOVES
    some = drawn[:REPAIRS, :, None]
    repaired = seconds(lambda: problem.repair(some, np.zeros(REPAIRS, np.uint64))) / REPAIRS
    return (
        f"{Path(file).name[:9]:<9} {read_s:6.1f} {build_s:8.1f} {held:7.0f} {evaluated:14,.0f}"
        f" {changed * 1e6:10.2f} {moved * 1e3:8.2f} {repaired * 1e3:10.1f}"
    )


def main() -> None:
    """A row a file."""
    print(HEAD)
    for file in sys.argv[1:]:
        print(measure(file), flush=True)


if __name__ == "__main__":
    main()
