"""What a step of TAG costs, and how much memory its graph takes, as it grows: thinking alone, rewards made up.

    python plugins/fft/benchmarks/tag.py --evals 1000000

Prints, at every power of ten, evaluations, vertices, arrows, microseconds a step since the last line, and the peak of
this process's memory. `--problem tree` is 200 decisions of 8 choices; `dag` is a lattice in which vertices are reached
on many ways.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Hashable, Sequence

import numpy as np

from egrl_fft.graph_search import bandits
from egrl_fft.graph_search.descent import GraphSearch
from hwsim.problem import Mapping16


class Tree:
    """Decisions one by one; a vertex is what was decided."""

    root: Hashable = b""

    def __init__(self, depth: int, choices: int) -> None:
        self.depth, self.choices = depth, choices

    def successors(self, vertex: Hashable) -> Sequence[bytes]:
        assert isinstance(vertex, bytes)
        return [vertex + bytes([c]) for c in range(self.choices)] if len(vertex) < self.depth else []

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        assert isinstance(vertex, bytes)
        return np.frombuffer(vertex, np.int8).astype(np.int16)[:, None] if len(vertex) == self.depth else None

    def completion(self, vertex: Hashable, rng: np.random.Generator) -> Mapping16 | None:
        assert isinstance(vertex, bytes)
        return self.mapping(vertex + rng.bytes(self.depth - len(vertex)).translate(self._fold()))

    def _fold(self) -> bytes:
        return bytes(value % self.choices for value in range(256))


class Lattice(Tree):
    """Decisions in any order: a vertex is which were made, and how, so that many ways lead to it."""

    def successors(self, vertex: Hashable) -> Sequence[bytes]:
        assert isinstance(vertex, bytes)
        made = vertex or bytes([255]) * self.depth
        return [
            made[:at] + bytes([c]) + made[at + 1 :]
            for at in range(self.depth)
            if made[at] == 255
            for c in range(self.choices)
        ]

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        assert isinstance(vertex, bytes)
        done = vertex and 255 not in vertex
        return np.frombuffer(vertex, np.uint8).astype(np.int16)[:, None] if done else None

    def completion(self, vertex: Hashable, rng: np.random.Generator) -> Mapping16 | None:
        assert isinstance(vertex, bytes)
        made = np.frombuffer(vertex or bytes([255]) * self.depth, np.uint8)
        drawn = rng.integers(0, self.choices, self.depth)
        return np.where(made == 255, drawn, made).astype(np.int16)[:, None]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evals", type=int, default=100_000)
    parser.add_argument("--problem", choices=("tree", "dag"), default="tree")
    parser.add_argument("--s", type=int, default=5)
    options = parser.parse_args()
    derivation = Tree(200, 8) if options.problem == "tree" else Lattice(12, 4)
    worth = np.random.default_rng(1).normal(size=(derivation.depth, derivation.choices))
    search = GraphSearch(
        derivation, options.s, lambda _: bandits.threshold(options.s, 0.1), np.random.default_rng(0)
    )
    print(f"{'evaluations':>12} {'vertices':>10} {'arrows':>10} {'us a step':>10} {'MiB at most':>12}")
    begun, before, mark = time.perf_counter(), 0, 100
    for number in range(1, options.evals + 1):
        plan = search.propose()
        if plan is None:
            break
        search.tell(float(worth[np.arange(derivation.depth), plan[:, 0]].sum()))
        if number in (mark, options.evals):
            step = (time.perf_counter() - begun) / (number - before) * 1e6
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{number:12,} {len(search.graph):10,} {search.graph.arrows:10,} {step:10.1f} {peak:12.0f}")
            begun, before, mark = time.perf_counter(), number, mark * 10


if __name__ == "__main__":
    main()
