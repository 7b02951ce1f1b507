"""Fifty measurements of a board: what the twin makes of them, and what evolution does.

    python examples/twin/save_measurements.py [WORKLOAD] [REQUESTS] [SEED]

The board is made up (pretend_board.py): like the chip file, but every bandwidth and every op is off. The defaults
(resnet101, 50 requests, board 0) take about half a minute. A board of yours: replace the command in `evaluator`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import egrl

BOARD = Path(__file__).with_name("pretend_board.py")
warnings.simplefilter("ignore")  # how the requests are shared out is a warning


def main(argv: Sequence[str]) -> int:
    """Search with the twin and with evolution, each with so many requests to the board."""
    workload = argv[0] if argv else "resnet101"
    requests = int(argv[1]) if len(argv) > 1 else 50
    seed = argv[2] if len(argv) > 2 else "0"
    for method in ("twin", "ea"):
        result = egrl.search(
            workload,
            method=method,
            requests=requests,
            evaluator=f"{sys.executable} {BOARD} {workload} {seed}",
            bound_seconds=0,
        )
        measured = result.summary["evaluator"]
        low, high = measured["speedup_interval"]
        print(
            f"{method}: {result.speedup:.3f}x the compiler, 95% interval {low:.3f}x to {high:.3f}x,"
            f" {measured['requests']} requests"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
