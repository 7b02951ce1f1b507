"""Networks as policies: equal evaluations with each, beside networks that are never trained.

    python -m benchmarks.networks -o FILE [--workloads resnet101,bert] [--networks gcn,gat] [--methods es,egrl]
                                  [--seeds 2] [--evals 1000]
    python -m benchmarks.networks -o FILE --table

Three rows per network: `es`, which trains one network by evolution strategies and proposes nothing else; `untrained`,
the best of as many networks drawn at random as there are evaluations; `egrl` with its defaults but without the twin.
`random` draws mappings without a network. All begin cold. Each line of FILE is a run; what is there is not run again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import egrl
from analysis.transfer import geometric_mean
from benchmarks.lines import Lines

SETTINGS = {
    "es": [],
    "untrained": ["method.scouts={evals}"],
    "egrl": ["method.twin=off", "method.profile_model.use=off"],
}
METHODS = {"es": "es", "untrained": "es", "egrl": "egrl"}
RANDOM = "random"
KEYS = ("workload", "method", "network", "seed", "evals")


def measure(workload: str, method: str, network: str, seed: int, evals: int) -> dict[str, float]:
    """The best speedup over the compiler of one search, 0 if nothing ran, and its seconds."""
    settings = [each.format(evals=evals) for each in SETTINGS.get(method, [])]
    if network:
        settings.append(f"method.network={network}")
    begun = time.perf_counter()
    found = egrl.search(
        workload,
        method=METHODS.get(method, method),
        evals=evals,
        seed=seed,
        settings=settings,
        start="cold",
        bound_seconds=0.0,
        quiet=True,
    )
    best = found.summary["best"]
    return {
        "speedup": best["speedup"] if best else 0.0,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Geometric means over the seeds of each network, a column per workload and method, in Markdown."""
    columns = list(dict.fromkeys((line["workload"], line["method"]) for line in lines if line["network"]))
    head = "| network | " + " | ".join(f"{workload}, {method}" for workload, method in columns) + " |"
    rows = [head, "|---|" + "---:|" * len(columns)]
    for network in dict.fromkeys(line["network"] for line in lines):
        cells = []
        for workload, method in columns:
            chosen = [line for line in lines if (line["workload"], line["network"]) == (workload, network)]
            own = [line["speedup"] for line in chosen if line["method"] in (method, RANDOM)]
            ran = [speedup for speedup in own if speedup > 0]
            text = (
                f"{geometric_mean([[speedup] for speedup in ran])[0]:.3f} ({min(ran):.3f} to {max(ran):.3f})"
                if ran
                else "nothing ran"
            )
            cells.append(text if len(ran) in (0, len(own)) else f"{text}, {len(own) - len(ran)} without any")
        rows.append(f"| {network or 'none: random mappings'} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="out", type=Path, required=True)
    parser.add_argument("--workloads", default="resnet101,bert")
    parser.add_argument("--networks", default="graph_unet,gcn,sage,gin,gat,graph_gps")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--evals", type=int, default=1000)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    lines = Lines(args.out, KEYS)
    for seed in range(0 if args.table else args.seeds):
        for workload in args.workloads.split(","):
            runs = [(RANDOM, "")]
            runs += [
                (method, name) for name in args.networks.split(",") for method in args.methods.split(",")
            ]
            for method, network in runs:
                case = (workload, method, network, seed, args.evals)
                if case not in lines:
                    lines.add(case, measure(*case))
    print(table(lines.all))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
