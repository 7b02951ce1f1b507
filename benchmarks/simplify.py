"""How few changes of a rule's mapping keep the gain: what `egrl simplify` makes of mappings that a local search found.

    python -m benchmarks.simplify -o FILE [--workloads bert,gpt2] [--rules execution-order] [--chip nnpi]
    python -m benchmarks.simplify -o FILE --table

The mapping that is simplified is the best of `hwsim.nnpi.annealing.anneal` from the rule's mapping, STEPS proposals in
three annealings, as at the end of `--method exact`. Counted are its changes, those of the equally fast mapping nearest
to the rule's (which a run keeps), the fewest that keep 95 % and 100 % of the gain, and the share of the gain that a
third of the changes keeps. Each line of FILE is a network over a rule; what is there is not run again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lines import Lines
from egrl.runs.simplified import KEEP
from hwsim.fewest import evaluations, front
from hwsim.nearest import nearest
from hwsim.nnpi.annealing import anneal
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.placer import DEFAULT_RULE
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from workloads.load import load

NINE = "bert,gpt2,resnet101,resnet152,densenet121,inception_v3,efficientnet_b4,mixer_b16,quartznet15x5"
STEPS = 300_000
KEYS = ("workload", "chip", "rule")
THIRD = 1 / 3


def measure(workload: str, chip: str, rule: str) -> dict[str, Any]:
    """Changes and gains of one network over one rule, and the seconds of one core that counting them took."""
    problem = NnpiProblem(load(workload), load_chip(chip), NnpiConfig(baseline=rule))
    base = problem.baseline.mapping
    mapping, cost = anneal(problem.tables, base, steps=STEPS, restarts=3)
    begun = time.process_time()
    near = nearest(problem, mapping)
    undone = time.process_time()
    found = front(problem, mapping, evaluations(problem))
    seconds = time.process_time() - undone
    invalid = sum(bool(problem.judge(each)) for each in found.mapping)
    at = {share: found.fewest(share) for share in (0.5, KEEP, 1.0)}
    few = found.changes <= found.goal[0] * THIRD
    return {
        "speedup": problem.baseline.cost / cost,
        "decisions": int(problem.space.live.sum()),
        "changes": found.goal[0],
        "nearest": int((near != base).sum()),
        "half": int(found.changes[at[0.5]]),
        "keeps": int(found.changes[at[KEEP]]),
        "all": int(found.changes[at[1.0]]),
        "third": round(float(np.minimum(found.kept[few].max(), 1.0)), 4),
        "invalid": invalid,
        "nearest_seconds": round(undone - begun, 2),
        "seconds": round(seconds, 1),
        "front": [[int(c), round(float(k), 4)] for c, k in zip(found.changes, found.kept, strict=True)],
    }


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """A row per line, in Markdown."""
    rows = [
        "| network | rule | speedup | changes | nearest | keep 50 % | keep 95 % | keep all | a third keeps | s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    rows += [
        f"| {line['workload']} | {line['rule']} | {line['speedup']:.4f} | {line['changes']} | {line['nearest']}"
        f" | {line['half']} | {line['keeps']} | {line['all']} | {line['third']:.1%} | {line['seconds']:.1f} |"
        for line in lines
    ]
    reached = sum(line["keeps"] <= line["changes"] * THIRD for line in lines)
    invalid = sum(line["invalid"] for line in lines)
    said = f"\n{reached} of {len(lines)} keep {KEEP:.0%} with a third of the changes; {invalid} mappings are not valid"
    return "\n".join([*rows, said])


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="out", type=Path, required=True)
    parser.add_argument("--workloads", default=NINE)
    parser.add_argument("--rules", default=f"{DEFAULT_RULE},execution-order")
    parser.add_argument("--chip", default="nnpi")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args(argv)
    lines = Lines(args.out, KEYS)
    for rule in [] if args.table else args.rules.split(","):
        for workload in args.workloads.split(","):
            case = (workload, args.chip, rule)
            if case not in lines:
                lines.add(case, measure(*case))
    print(table(lines.all))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
