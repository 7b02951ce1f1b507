"""Your network on a chip of your own: what would a larger SRAM gain?

    python examples/own_chip/own_chip.py [MODEL] [CHIP] [EVALUATIONS]

MODEL is an ONNX file, an exported PyTorch program (.pt2), a workload file or a name; CHIP a chip file or a name.
The defaults (resnet18, edge, 2100 evaluations of annealing) take about 10 seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import egrl
from hwsim.nnpi.chip import load_chip


def main(argv: Sequence[str]) -> int:
    """Search on the chip, and on the same with two and four times its fastest memory; print a row each."""
    model = argv[0] if argv else "resnet18"
    chip = load_chip(argv[1] if len(argv) > 1 else "edge")
    evaluations = int(argv[2]) if len(argv) > 2 else 2100
    *slower, fastest = chip.memories
    print(f"{fastest.name + ', KiB':<12}{'compiler, us':>14}{'best, us':>12}")
    for factor in (1, 2, 4):
        memory = replace(fastest, capacity_bytes=factor * fastest.capacity_bytes)
        larger = replace(chip, memories=(*slower, memory))
        result = egrl.search(model, chip=larger, evals=evaluations, method="annealing", seed=0)
        compiler = result.problem.baseline.cost
        best = min(compiler, result.cost or compiler)
        print(f"{memory.capacity_bytes / 2**10:<12.0f}{compiler * 1e6:>14.1f}{best * 1e6:>12.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
