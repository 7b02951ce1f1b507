"""What profiles would be worth on multi-chip modules: loads of chips and links teach the times of ops and tensors.

    python -m benchmarks.mcm_profiles -o FILE [--graphs resnext101,...] [--evals 126] [--noise 0.05]
    python -m benchmarks.mcm_profiles -o FILE --table docs/results/data/mcm-samples.jsonl

A prototype, not a method of egrl. It is told which nodes read which, and what each partition that it measures loads
each chip and link with, `--noise` off; it is told no time of a node and no rate. Loads are sums of what nodes take and
tensors take, so that a ridge regression learns both. Each batch of four is what annealing finds on what was learned,
with the moves of egrl's own `annealing`, from the best partition measured. It begins, as `annealing` and `ppo` do, with
the heuristic's partition, and with four at random.

Each line of FILE is a run on one of the 16 test graphs: the best throughput over the heuristic's after so many samples,
without noise. The table has it beside the runs of `benchmarks.mcm_samples`, with graphs as units; the heuristic's own
partition, 1, counts for all.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import egrl
from benchmarks.lines import Lines
from benchmarks.mcm_samples import SAMPLES
from hwsim.mcm.config import McmConfig
from hwsim.mcm.cost import Tables, loads
from hwsim.mcm.package import load_package
from hwsim.mcm.pipeline import pipeline_of
from hwsim.mcm.problem import McmProblem
from hwsim.problem import Baseline, Floats
from papers.shared import interval_text, paired
from workloads.load import load
from workloads.zoo.mcm87 import split

MARKS = (9, 21, 50, 126)
BATCH, RANDOM = 4, 4
MODEL_EVALS = 2000
RIDGE = 1e-3
"""How much the prior weighs, beside the sums of squares of what each time is part of."""
KEYS = ("graph", "noise", "seed", "evals")


class Learned:
    """Times of nodes float64 [N] and of tensors on a link float64 [T], from loads of partitions."""

    def __init__(self, tables: Tables) -> None:
        """Of `tables` only who reads whom is used."""
        self._tables = tables._replace(
            compute_s=np.zeros(len(tables.compute_s)), tensor_s=np.zeros(len(tables.tensor_s))
        )
        self._rows: tuple[list[Floats], list[Floats]] = ([], [])
        self._seen: tuple[list[Floats], list[Floats]] = ([], [])

    def add(self, places: NDArray[np.int16], seconds: Floats) -> None:
        """Partitions [B, N] and the loads float64 [B, 2 C] of their chips, then links."""
        chips = self._tables.chips
        for place, load_s in zip(places, seconds, strict=True):
            self._rows[0].append((place == np.arange(chips)[:, None]).astype(float))
            passed = np.zeros((chips, len(self._tables.tensor_s)))
            for tensor in range(passed.shape[1]):
                one = np.zeros(passed.shape[1])
                one[tensor] = 1.0
                passed[:, tensor] = loads(self._tables._replace(tensor_s=one), place[None])[0, chips:]
            self._rows[1].append(passed)
            for seen, part in zip(self._seen, (load_s[:chips], load_s[chips:]), strict=True):
                seen.append(part)

    def tables(self) -> Tables:
        """The tables with the times that are most likely."""
        times = [
            _ridge(np.concatenate(rows), np.concatenate(seen))
            for rows, seen in zip(self._rows, self._seen, strict=True)
        ]
        return self._tables._replace(compute_s=times[0], tensor_s=times[1])


def _ridge(rows: Floats, seen: Floats) -> Floats:
    """Times whose sums are what was seen, near their common mean where that leaves them open; none below 0."""
    mean = seen.sum() / max(rows.sum(), 1.0)
    square = rows.T @ rows
    weight = RIDGE * max(np.trace(square) / max(len(square), 1), 1.0)
    return np.maximum(
        mean + np.linalg.solve(square + weight * np.eye(len(square)), rows.T @ (seen - mean * rows.sum(1))),
        0.0,
    )


def believed(problem: McmProblem, tables: Tables, best: NDArray[np.int16]) -> McmProblem:
    """The problem with learned times; its baseline is the best partition measured."""
    found = copy.copy(problem)
    found.network = replace(problem.network, tables=tables)
    found.tables = tables
    cost = float(loads(tables, best[None]).max())
    found.space = replace(problem.space, pipeline=pipeline_of(tables, problem.package, None))
    found.baseline = Baseline(best[:, None], cost, problem.baseline.name)
    return found


def run(graph: str, noise: float, seed: int, evals: int) -> dict[str, Any]:
    """The best speedup after each of MARKS."""
    problem = McmProblem(load(graph), load_package("mcm36"), McmConfig())
    rng, learned = np.random.default_rng(seed), Learned(problem.tables)
    measured: dict[bytes, float] = {}
    curve: list[float] = []

    def measure(places: NDArray[np.int16]) -> None:
        true_s = loads(problem.tables, places)
        seconds = true_s * np.exp(rng.normal(0.0, noise, true_s.shape)) if noise else true_s
        learned.add(places, seconds)
        for place, cost in zip(places, true_s.max(axis=1), strict=True):
            measured[place.tobytes()] = float(cost)
            curve.append(problem.baseline.cost / min(measured.values()))

    first = problem.sample(None, rng.integers(2**63, size=RANDOM, dtype=np.uint64))
    measure(np.concatenate([problem.baseline.mapping[None], first])[:, :, 0])
    while len(curve) < evals:
        tables = learned.tables()
        best = np.frombuffer(min(measured, key=measured.__getitem__), np.int16)
        model, new = believed(problem, tables, best), dict[bytes, NDArray[np.int16]]()
        for attempt in range(4 * BATCH):
            found = egrl.search(
                model,
                method="annealing",
                evals=MODEL_EVALS,
                seed=seed + len(curve) + 1000 * attempt,
                bound_seconds=0.0,
                quiet=True,
            ).mapping
            place = np.ascontiguousarray(found[:, 0])
            if place.tobytes() not in measured:
                new[place.tobytes()] = place
            if len(new) == min(BATCH, evals - len(curve)):
                break
        if not new:  # what was learned likes nothing better than what was measured
            break
        measure(np.stack(list(new.values())))
    curve += curve[-1:] * (evals - len(curve))
    return {"best": [round(curve[mark - 1], 6) for mark in MARKS if mark <= evals]}


def table(lines: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> str:
    """Differences of logarithms with graphs as units, in Markdown."""
    rivals = [("annealing", 504), ("annealing", 2000), ("ppo", 504), ("ppo", 2000), ("ppo-frozen", 2000)]
    theirs = {(line["variant"], line["graph"]): line["best"] for line in others if line["seed"] == 0}
    rows = ["| noise | after | " + " | ".join(f"over `{m}`, {n}" for m, n in rivals) + " |", "|---|" * 1]
    rows[1] = "|---:" * 2 + "|---" * len(rivals) + "|"
    for noise in sorted({line["noise"] for line in lines}):
        own = {line["graph"]: line["best"] for line in lines if line["noise"] == noise}
        for k, mark in enumerate(MARKS[: min(map(len, own.values()))]):
            cells = []
            for method, samples in rivals:
                pairs = [
                    (np.log(best[k]), np.log(max(1.0, theirs[method, graph][SAMPLES.index(samples)])))
                    for graph, best in own.items()
                ]
                cells.append(
                    interval_text(paired(*(list(each) for each in zip(*pairs, strict=True)))).strip(" ()")
                )
            rows.append(f"| {noise:.0%} | {mark} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="out", type=Path, required=True)
    parser.add_argument("--graphs", default=",".join(split().test))
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--evals", type=int, default=MARKS[-1])
    parser.add_argument("--table", type=Path, help="the runs of benchmarks.mcm_samples")
    args = parser.parse_args(argv)
    lines = Lines(args.out, KEYS)
    if args.table is not None:
        others = [json.loads(line) for line in args.table.read_text().splitlines()]
        print(table(lines.all, others))
        return 0
    for graph in args.graphs.split(","):
        case = (graph, args.noise, 0, args.evals)
        if case not in lines:
            lines.add(case, run(*case))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
