"""Who finds the best mapping of a large network in few evaluations: policies over graphs, chromosomes or annealing?

    python -m benchmarks.large --out large [--networks edge,nnpi] [--ops 10000] [--evals 1000] [--seeds 5]

The networks are decoders of small layers (on large layers of any chip that ships the compiler's map is within 0.2 % of
the best possible); the problem is `nnpi`; everyone starts at the compiler's map.
Each row has the mean best speedup over the compiler with its deviation, the mean difference to `REFERENCE`, seed by
seed, with its 95% interval by Student's t, seconds of the processor (mean; starting included), and how often each
source proposed the best mapping. Runs are kept in `--out` and not run again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from egrl.compare.statistics import paired_interval

SMALL = "heads=4:kv_heads=2:vocabulary=1000:length=512:hidden=128:intermediate=256"
WIDER = "heads=8:kv_heads=4:vocabulary=1000:length=128:hidden=512:intermediate=1024"
NETWORKS = {"edge": (SMALL, "edge"), "nnpi": (WIDER, "nnpi")}
"""Shape of a layer, and chip. By `egrl bound`, 10,000 ops may gain 70 % on the first, 0.9 % on the second."""
TOTALS = ["--set", "method.twin=off", "--set", "method.profile_model.use=off"]
NAMING = ["--set", "method.readout=greedy"]
NETWORKS_ALONE = ["--set", "method.boltzmann_fraction=0.0"]
CONTENDERS: dict[str, list[str]] = {
    "egrl": ["--method", "egrl"],
    "egrl, totals alone": ["--method", "egrl", *TOTALS],
    "egrl, totals alone, naming memories": ["--method", "egrl", *TOTALS, *NAMING],
    "ea": ["--method", "ea"],
    "ea, naming memories": ["--method", "ea", *NAMING],
    "ea, networks alone, naming memories": ["--method", "ea", *NETWORKS_ALONE, *NAMING],
    "ea, chromosomes alone": ["--method", "ea", "--set", "method.boltzmann_fraction=1.0", *NAMING],
    "annealing": ["--method", "annealing"],
}
"""Name -> options. Policies rank, unless they name memories."""
REFERENCE = "ea"


def run(folder: Path, argv: list[str]) -> dict[str, Any]:
    """The summary of one run in a process of its own, with `cpu_s`, made unless it is there."""
    kept = folder.with_suffix(".json")
    if not kept.exists():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "egrl", "run", "--quiet", "--out", str(folder), *argv]
        subprocess.run(command, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        summary = json.loads((folder / "summary.json").read_text())
        kept.write_text(json.dumps({"best": summary["best"], "cpu_s": cpu_s}))
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ops", type=int, default=10_000)
    parser.add_argument("--evals", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    options = parser.parse_args()
    for name in options.networks.split(","):
        layer, chip = NETWORKS[name]
        net = f"llama3_8b:layers={max(options.ops // 20 - 1, 1)}:{layer}"
        compare(net, chip, options.out / f"{name}-{options.ops}", options.evals, options.seeds)


def compare(net: str, chip: str, out: Path, evals: int, seeds: int) -> None:
    """Run what is missing of all contenders on one network, and print their table."""
    out.mkdir(parents=True, exist_ok=True)
    runs: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in CONTENDERS}
    for seed in range(seeds):
        for number, (name, argv) in enumerate(CONTENDERS.items()):
            common = ["--workload", net, "--chip", chip, "--evals", str(evals), "--seed", str(seed)]
            common += ["--threads", "1", "--bound-seconds", "0"]
            runs[name][seed] = run(out / f"{number}-s{seed}", [*common, *argv])
            print(
                f"{out.name}, {name}, seed {seed}: {runs[name][seed]['best']['speedup']:.5f}", file=sys.stderr
            )
    print(f"{net} on {chip}\n\n| method | speedup | difference | CPU s | best by |\n|---|---|---|---:|---|")
    speedups = {name: {s: float(r["best"]["speedup"]) for s, r in own.items()} for name, own in runs.items()}
    for name, own in runs.items():
        values = list(speedups[name].values())
        deviation = f" ± {stdev(values):.5f}" if len(values) > 1 else ""
        against = None if name == REFERENCE else paired_interval(speedups[name], speedups[REFERENCE])
        difference = (
            "" if against is None else f"{against.mean:+.5f} [{against.low:+.5f}, {against.high:+.5f}]"
        )
        cpu_s = fmean(r["cpu_s"] for r in own.values())
        sources = Counter(str(r["best"].get("source")) for r in own.values())
        by = ", ".join(f"{source} {count}" for source, count in sources.most_common())
        print(f"| {name} | {fmean(values):.5f}{deviation} | {difference} | {cpu_s:.0f} | {by} |")


if __name__ == "__main__":
    main()
