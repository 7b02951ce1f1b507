"""egrl plot zeroshot: the deployed policies of several trainings on workloads that none of them was trained on.

The deployed policy of each folder, a row each, the best above: one marker per target, and a black bar for the geometric
mean. Only targets count that all folders were placed on and no folder was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence

from egrl.figures.drawing import Drawing, plain
from egrl.figures.transfer import Transferred, arrays, baseline_name_of, held_out, read

__all__ = ["draw", "read"]


def draw(runs: Sequence[Transferred]) -> Drawing:
    """One row per folder. InputError where nothing is held out from all."""
    from analysis.transfer import means, zero_shot

    found = arrays(runs)
    names = held_out(found)
    trained = {name for each in found for name in each.trained_on}
    left_out = [name for name in found[0].targets if name in trained]
    rows = [
        {
            "policies": each.policies,
            "speedup": [each.speedup[each.targets.index(name), each.deployed] for name in names],
            "mean": means(each, names)[each.deployed],
        }
        for each in found
    ]
    return Drawing(
        zero_shot(
            found, names, f"Deployed policies on {len(names)} held-out workloads", baseline_name_of(runs)
        ),
        plain({"targets": list(names), "rows": rows}),
        [f"{', '.join(left_out)}: left out, a policy was trained there"] if left_out else [],
    )
