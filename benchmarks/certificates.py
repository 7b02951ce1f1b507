"""Bounds, best mappings known and gaps over the zoo, as a Markdown table; with --record also a search for better ones.

    python benchmarks/certificates.py --workloads resnet50,bert --seconds 30 [--no-prefetch] [--chip nnpi]
    python benchmarks/certificates.py --record --polish-seconds 300
    python benchmarks/certificates.py --record --workloads bert --mapping runs/bert-egrl-s0-1/best_mapping.json

`--record` starts at the model's solution, at every rule of the compiler, at the mapping known so far and at those that
`--mapping` names (of one workload), anneals the best of them, and writes mapping and bound to the package's
`best_known/` where they are improvements.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from egrl.core import mapping_file
from hwsim.nnpi.annealing import anneal
from hwsim.nnpi.best_known import best_known, record, record_bound
from hwsim.nnpi.chip import Chip, load_chip
from hwsim.nnpi.exact.solve import ExactResult, solve
from hwsim.nnpi.latency import trace_latency
from hwsim.nnpi.placer import RULES, compile_map
from hwsim.nnpi.problem import NnpiProblem
from hwsim.nnpi.tables import Tables, build_tables
from hwsim.problem import Mapping16
from workloads.load import load
from workloads.workload import Workload

ZOO = "resnet50,resnet101,bert,resnet18,resnet34,resnet152,vgg16,alexnet,mobilenet_v2,gpt2,unet,bert_large"
TEMPERATURES = (2e-4, 1e-2, 5e-5, 2e-3)
STEPS_A_ROUND = 2_000_000


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chip", default="nnpi", help="name or TOML file")
    parser.add_argument("--workloads", default=ZOO, help="names or files, separated by commas")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each bound")
    parser.add_argument("--no-prefetch", action="store_true", help="the model that separates by op")
    parser.add_argument("--record", action="store_true", help="search, and keep improvements")
    parser.add_argument("--polish-seconds", type=float, default=120.0, help="of the search, a workload")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument("--mapping", action="append", default=[], help="also search from this mapping file")
    args = parser.parse_args(argv)
    chip = load_chip(args.chip)
    if args.no_prefetch:
        chip = replace(chip, effects=replace(chip.effects, prefetch=False))
    print("| workload | bound us | best known us | gap | model's solution us | its gap | status | bound s |")
    print("|---|---:|---:|---:|---:|---:|---|---:|")
    for name in args.workloads.split(","):
        workload = load(name)
        tables = build_tables(workload, chip)
        result = solve(tables, time_limit_s=args.seconds)
        if args.record:
            given = [mapping_file.read(file, NnpiProblem(workload, chip)) for file in args.mapping]
            mapping = search(
                tables, starts(workload, chip, tables, result, given), args.polish_seconds, args.seed
            )
            command = (
                f"python benchmarks/certificates.py --record --workloads {name} --seconds {args.seconds:g} "
                f"--polish-seconds {args.polish_seconds:g} --seed {args.seed}"
                + "".join(f" --mapping {Path(file).name}" for file in args.mapping)
            )
            record(workload, chip, mapping, command)
            record_bound(tables, f"{name} on {chip.name}", result.as_bound(), command)
        known = best_known(workload, chip)
        best_s = result.model_cost_s if known is None else min(known.cost_s, result.model_cost_s)
        print(
            f"| {name} | {result.bound_s * 1e6:.2f} | {best_s * 1e6:.2f} | {best_s / result.bound_s - 1:.2%} "
            f"| {result.model_cost_s * 1e6:.2f} | {result.gap:.2%} | {result.status} | {result.seconds:.1f} |",
            flush=True,
        )
    return 0


def starts(
    workload: Workload, chip: Chip, tables: Tables, result: ExactResult, given: Sequence[Mapping16]
) -> list[Mapping16]:
    """Mappings to search from, fastest first."""
    found = [*given, *(compile_map(tables, rule) for rule in RULES.values())]
    if result.mapping is not None:
        found.append(result.mapping)
    known = best_known(workload, chip)
    if known is not None:
        found.append(known.mapping)
    return sorted(found, key=lambda mapping: trace_latency(tables, mapping)[0])


def search(tables: Tables, mappings: Sequence[Mapping16], seconds: float, seed: int) -> Mapping16:
    """The fastest map found by annealing in turn from the best map and from the given ones, cooler and hotter."""
    until = time.monotonic() + seconds
    best, best_s = anneal(tables, mappings[0], steps=1, seconds=seconds)
    turn = 0
    while (left_s := until - time.monotonic()) > 0:
        start = best if turn % 2 == 0 else mappings[(turn // 2) % len(mappings)]
        hot = TEMPERATURES[(turn // 2) % len(TEMPERATURES)]
        found, found_s = anneal(
            tables,
            start,
            steps=STEPS_A_ROUND,
            seconds=min(left_s, seconds / 8),
            key=seed * 1_000_003 + turn,
            hot=hot,
        )
        if found_s < best_s:
            best, best_s = found, found_s
        turn += 1
    return best


if __name__ == "__main__":
    sys.exit(main())
