"""Placements of programs that XLA compiled for a TPU: XLA's own, the production heuristic's, and what searches find.

    python plugins/hlo/benchmarks/tpu_placements.py TEXT … [--methods revise egrl] [--evals 105] [--bound-seconds 60]
    python plugins/hlo/benchmarks/tpu_placements.py TEXT … --kinds

prints a Markdown table of the texts (.hlo, .hlo.gz, .hlo.xz): microseconds of a run by the rules of the MMapGame on its
simulated device, and in brackets of the same placement with the compiler's cycles instead of the prices of
arithmetic. XLA's and the heuristic's placements are their own layouts, whose copies overlap; "played" is what the game
makes of XLA's, where copies may not overlap, and where searches begin. Searches are for the time by the game's prices.
A search that is slower than XLA's own layout is marked with a "below". The bound holds for all plays.

With `--kinds`: the compiler's cycles beside the prices, by kind of instruction, with every buffer where XLA put it; and
the peak of the matrix units at which products would take as many cycles.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

import egrl
import egrl_hlo
from egrl_hlo.parse import Computation, Module, Node, parse
from egrl_hlo.parse import names as names_in
from hwsim.mmap.chip import load_chip
from hwsim.mmap.device import RUN_S, latency_parts_s, latency_s
from hwsim.mmap.layout import Layout
from hwsim.mmap.problem import MmapConfig, MmapProblem
from hwsim.mmap.tables import Tables, instruction_s
from workloads.files import MAX_BYTES, read_bytes, unpack
from workloads.programs.program import Program

CALLED = ("calls", "to_apply", "body", "branch_computations")


def label(file: str) -> str:
    """A text's name in tables."""
    return PurePath(file).name.partition(".hlo")[0]


def in_us(seconds: float, by_cycles: float) -> str:
    return f"{seconds * 1e6:,.1f} ({by_cycles * 1e6:,.1f})"


def row(file: str, chip: str, methods: Sequence[str], evals: int, seed: int, bound_s: float) -> list[str]:
    """A line of the table of placements."""
    program, on = egrl_hlo.read(file), load_chip(chip)
    problem = MmapProblem(program, on, MmapConfig(reward="latency"))
    other = MmapProblem(program, on, MmapConfig(price="compiler"))
    heuristic = MmapProblem(program, on, MmapConfig(baseline="heuristic")).own_layout
    broken = problem.baseline_broken()
    played = problem.layout(problem.baseline.mapping)
    found = {
        "xla": (problem.baseline.cost, latency_s(other.tables, problem.own_layout)),
        "played": (latency_s(problem.tables, played), latency_s(other.tables, played)),
        "heuristic": (latency_s(problem.tables, heuristic), latency_s(other.tables, heuristic)),
    }
    for method in methods:
        result = egrl.search(problem, method=method, evals=evals, seed=seed)
        assert result.mapping is not None
        assert not problem.judge(result.mapping)
        found[method] = (
            float(result.cost or np.inf),
            latency_s(other.tables, problem.layout(result.mapping)),
        )
    cells = []
    for name, times in found.items():
        slower = name in methods and times[0] > problem.baseline.cost
        cells.append(in_us(*times) + (" below" if slower else ""))
    bound = problem.bound(bound_s)
    most_s = problem.tables.none_s - bound.reward * problem.tables.most_s
    least = max(bound.cost, most_s if np.isfinite(bound.reward) else 0.0)
    rules = sorted({each.what for each in broken})
    return [label(file), f"{len(program):,}", *cells, f"{least * 1e6:,.1f}", "; ".join(rules) or "none"]


def placements(files: Sequence[str], given: argparse.Namespace) -> None:
    """Print the table of placements."""
    columns = [
        "program",
        "buffers",
        "XLA",
        "played",
        "heuristic",
        *given.methods,
        "bound",
        "rules that XLA breaks",
    ]
    print(f"| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 2)}---|")
    for file in files:
        cells = row(file, given.chip, given.methods, given.evals, given.seed, given.bound_seconds)
        print(f"| {' | '.join(cells)} |", flush=True)


def inside(node: Node, module: Module) -> set[str]:
    """Opcodes of a node and of all that it calls."""
    found = {node.opcode}
    for key in CALLED:
        for name in names_in(node, key):
            called: Computation | None = module.computations.get(name)
            for inner in called.nodes if called else ():
                found |= inside(inner, module)
    return found


def kind_of(node: Node, module: Module) -> str:
    """What people would call an instruction."""
    opcodes = inside(node, module)
    if node.opcode not in ("fusion", "convolution", "dot"):
        return node.opcode
    if opcodes & {"convolution", "dot"}:
        return "product"
    return "reduction" if opcodes & {"reduce", "reduce-window"} else "element-wise"


def alone_s(tables: Tables, layout: Layout) -> np.ndarray:
    """Seconds of each instruction under a layout, without copies."""
    fast = layout.action > 0
    read, write = (
        np.bincount(tables.buffer["step"][fast], tables.buffer[column][fast], len(tables.step)).astype(
            np.int64
        )
        for column in ("read_bytes", "write_bytes")
    )
    found = [instruction_s(tables, t, int(read[t]), int(write[t])) for t in range(len(tables.step))]
    assert abs(sum(found) - latency_parts_s(tables, layout)[RUN_S]) < 1e-9
    return np.array(found)


def kinds(files: Sequence[str], chip: str) -> None:
    """Print the table of kinds."""
    on = load_chip(chip)
    assert on.compute.clock_Hz is not None
    rows: dict[str, list[tuple[float, float, int, int]]] = defaultdict(list)
    for file in files:
        program: Program = egrl_hlo.read(file)
        text = unpack(read_bytes(file, "HLO text"), file, MAX_BYTES).decode()
        module = parse(text, file)
        problem = MmapProblem(program, on)
        ours = alone_s(problem.tables, problem.own_layout)
        traffic = problem.tables.step["traffic_bytes"]
        assert program.compiled is not None
        for t, said in enumerate(program.compiled.instructions):
            if said.cycles:
                node = module.entry.by_name[program.instructions[t].name]
                seconds = said.cycles / on.compute.clock_Hz
                rows[kind_of(node, module)].append(
                    (float(ours[t]), seconds, program.instructions[t].flops, int(traffic[t]))
                )
    print("| kind | instructions | price, us | compiler, us | ratio | median | TFLOP/s | GB/s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for kind, each in sorted(rows.items(), key=lambda item: -sum(row[1] for row in item[1])):
        price, cycles, flops, moved = np.array(each, float).T
        print(
            f"| {kind} | {len(each):,} | {price.sum() * 1e6:,.1f} | {cycles.sum() * 1e6:,.1f} |"
            f" {cycles.sum() / price.sum():.2f} | {np.median(cycles / np.maximum(price, 1e-12)):.2f} |"
            f" {flops.sum() / cycles.sum() / 1e12:.1f} | {moved.sum() / cycles.sum() / 1e9:,.0f} |"
        )


def main(argv: Sequence[str]) -> int:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="TEXT")
    parser.add_argument("--chip", default="tpuv5e")
    parser.add_argument("--methods", nargs="*", default=["revise", "egrl"])
    parser.add_argument("--evals", type=int, default=105)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bound-seconds", type=float, default=60.0)
    parser.add_argument("--kinds", action="store_true")
    given = parser.parse_args(argv)
    if given.kinds:
        kinds(given.files, given.chip)
    else:
        placements(given.files, given)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
