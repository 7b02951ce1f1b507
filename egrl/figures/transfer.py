"""egrl plot transfer: policies along training, on workloads without training (EGRL, Figure 4).

A panel for each folder that `egrl transfer` was given, a line a target, the compiler at 1. Thick is what the policies
were trained on; the dotted line is the deployed policy. Lines that fall to the right are overfitting.
"""

from __future__ import annotations

from collections.abc import Sequence

from egrl.figures.drawing import Drawing, plain
from egrl.figures.transfer_folders import Transferred, arrays, read, rival_of

__all__ = ["draw", "read"]


def draw(runs: Sequence[Transferred]) -> Drawing:
    """A panel a folder. InputError where their targets are not the same problems."""
    from analysis.transfer import transfer_curves

    found = arrays(runs)
    title = "Zero-shot transfer: policies placed on workloads without training"
    return Drawing(transfer_curves(found, title, rival_of(runs)), {"transfers": plain(found)})
