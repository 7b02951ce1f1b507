"""Train on one network, place the policies on others with no training there, and draw what became of it.

    python examples/transfer/transfer.py [SOURCE] [TARGETS] [GENERATIONS]

The defaults (resnet50; resnet18,resnet34,vgg16; 50 generations of method ea) take about 10 seconds. The run folder is
made in `runs/`; transfer.png is EGRL's Figure 4 for these networks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import egrl
from analysis import style
from analysis.transfer import geometric_mean
from egrl.figures.curves import Transferred, draw_transfer
from egrl.transfer import zero_shot as transfer


def main(argv: Sequence[str]) -> int:
    """Train, place, print a row a target, and draw."""
    source = argv[0] if argv else "resnet50"
    targets = (argv[1] if len(argv) > 1 else "resnet18,resnet34,vgg16").split(",")
    generations = int(argv[2]) if len(argv) > 2 else 50
    # a cold start, so that what is learned is the policy's and not the compiler's
    trained = egrl.search(source, method="ea", start="cold", gens=generations, seed=0, out=True)
    print(f"{source}: {trained.speedup:.3f}x the compiler; run folder: {trained.folder}")

    policies = transfer.read_policies(trained.folder)
    placed = transfer.zero_shot(policies, transfer.build_targets(policies, targets))
    print(f"\n{'no training on':<16}{'first policy':>14}{'best moment':>14}{'last policy':>14}")
    for target in placed:
        first, best, last = target.speedup[0], max(target.speedup), target.speedup[-1]
        print(f"{target.workload:<16}{first:>14.3f}{best:>14.3f}{last:>14.3f}")
    deployed = [target.speedup[-1] for target in placed]
    print(f"{'geometric mean':<44}{geometric_mean(deployed):>14.3f}")

    document = transfer.document(policies, placed, ())
    style.save(draw_transfer([Transferred(trained.folder, document)]).figure, Path("transfer.png"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
