"""Which rule of the native compiler is the best baseline: latency of every rule on every workload.

    python benchmarks/baseline_rules.py [--chip nnpi] [--workloads resnet50,bert]

Prints a Markdown table of latencies in microseconds, their geometric mean last, and the best rule.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import exp, log

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.latency import trace_latency
from hwsim.nnpi.placer import RULES, compile_map
from hwsim.nnpi.tables import build_tables
from workloads.load import load

ZOO = "resnet50,resnet101,bert,resnet18,resnet34,resnet152,vgg16,alexnet,mobilenet_v2,gpt2,unet"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chip", default="nnpi", help="name or TOML file")
    parser.add_argument("--workloads", default=ZOO, help="names or files, separated by commas")
    args = parser.parse_args(argv)
    chip = load_chip(args.chip)
    names = args.workloads.split(",")
    tables = [build_tables(load(name), chip) for name in names]
    means = {}
    rows = []
    for rule in RULES.values():
        seconds = [trace_latency(t, compile_map(t, rule))[0] for t in tables]
        means[rule.name] = exp(sum(map(log, seconds)) / len(seconds))
        rows.append([rule.name, *(f"{s * 1e6:.1f}" for s in seconds), f"{means[rule.name] * 1e6:.1f}"])
    print("| " + " | ".join(["rule", *names, "geometric mean"]) + " |")
    print("|---" + "|---:" * (len(names) + 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(f"\nbest by geometric mean: {min(means, key=means.__getitem__)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
