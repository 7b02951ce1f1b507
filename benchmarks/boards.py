"""How well boards are kept busy: sleeping boards of one speed, and what is lost between their measurements.

    python benchmarks/boards.py [--workload bert] [--gens 8] [--seconds 0.3] [--boards 1,2,8] [--methods random,ea,egrl]

For each method and number of boards: evaluations a second as a multiple of what one board that never waits would do,
the share of the time in which boards were busy, and what an evaluation takes beyond the board's own time. Ratios of
one run; every row is a run of its own with the same seed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from egrl.api import search

BOARD = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    time.sleep({seconds})
    fast = sum(row.get(head) == "sram" for row in request["mapping"] for head in row)
    print(json.dumps({{"id": request["id"], "latency_s": 1e-3 / (1 + fast)}}), flush=True)
"""


def main() -> None:
    """Print one line per method and number of boards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="bert")
    parser.add_argument("--gens", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long a board sleeps")
    parser.add_argument("--boards", default="1,2,8")
    parser.add_argument("--methods", default="random,annealing,es,ea,egrl")
    options = parser.parse_args()
    print(f"{options.workload}, {options.gens} generations, boards of {1e3 * options.seconds:g} ms")
    print(f"{'method':12} {'boards':>6} {'throughput':>11} {'busy':>6} {'overhead':>9}")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "board.py"
        script.write_text(BOARD.format(seconds=options.seconds))
        for method in options.methods.split(","):
            for boards in map(int, options.boards.split(",")):
                _measure(options, method, boards, script)


def _measure(options: argparse.Namespace, method: str, boards: int, script: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        summary = search(
            options.workload,
            method=method,
            gens=options.gens,
            workers=boards,
            evaluator=f"{sys.executable} {script}",
            settings=("method.chains=64",) if method == "annealing" else (),
            out=Path(folder) / "run",
        ).summary
    usage = summary["evaluator"]
    measured = usage["requests"] - 6  # the baseline: a warm-up and five samples
    each_s = summary["seconds"] * boards / measured
    throughput = measured * options.seconds / summary["seconds"]
    print(
        f"{method:12} {boards:6} {throughput:10.2f}x {usage['busy']:6.1%} {1e3 * (each_s - options.seconds):6.1f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
