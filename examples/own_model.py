"""Map a network of your own onto a chip of your own, and say where its weights went.

    python examples/own_model.py [MODEL] [CHIP] [EVALUATIONS]

MODEL is an ONNX file, an exported PyTorch program (.pt2), a workload file or a name; CHIP a chip file or name.
The defaults (bert:layers=2, edge, 2100 evaluations of annealing) take some seconds. The run folder is made in `runs/`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import egrl
from egrl.runs import mapping_export


def main(argv: Sequence[str]) -> int:
    """Search, then print the speedup and the ops whose weights are held in the fastest memory."""
    model = argv[0] if argv else "bert:layers=2"
    chip = argv[1] if len(argv) > 1 else "edge"
    evaluations = int(argv[2]) if len(argv) > 2 else 2100
    result = egrl.search(workload=model, chip=chip, evals=evaluations, method="annealing", out=True)
    if result.mapping is None:
        print(f"{model}: no valid mapping found; run folder: {result.folder}")
        return 1
    fastest = result.problem.space.labels[0][-1]
    held = [
        row
        for row in mapping_export.rows(result.problem, result.mapping)
        if row["head"] == "weight" and row["choice"] == fastest
    ]
    print(f"{model} on {chip}: {result.speedup:.3f}x the compiler; run folder: {result.folder}")
    print(f"weights in {fastest}: {len(held)}, {sum(int(row['size_bytes']) for row in held) / 2**10:.1f} KiB")
    for row in sorted(held, key=lambda row: -int(row["size_bytes"]))[:5]:
        print(f"  {int(row['size_bytes']):>10,}  {row['op']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
