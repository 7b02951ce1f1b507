"""What a partition costs: the judge of the suite's `mcm` instances, chips on a ring that work as a pipeline.

A graph is a list of nodes (seconds on a chip, bytes of weights) and of tensors (the node that makes it, seconds on a
link, the nodes that read it). A partition names the chip of each node: int [N, 1]. The cost is the busy time of the
busiest chip or link. A chip is busy with its nodes, a link with every tensor that passes it, once: link i leads from
chip i to the next. Four rules must hold: no node is on an earlier chip than one that it reads; with a chip in use all
earlier ones are; where a tensor goes straight from one chip to another, no chain of tensors goes there by others; the
weights of a chip fit into its memory. Nothing is repaired: a partition that breaks a rule is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl_suite.judge import Wrong


class ModuleJudge:
    """A graph on a package.

    Attributes:
        sizes: int64 [N, 1], bytes of weights of each node; `first`, `last`: the step of the node itself.
        capacity: int64 [C], bytes of weights that each chip holds.
        names: of the chips.
    """

    def __init__(self, graph: dict[str, Any], package: dict[str, Any]) -> None:
        self.node_s, self.tensors = graph["seconds"], graph["tensors"]
        self.sizes = np.array(graph["weight_bytes"], np.int64)[:, None]
        self.first = self.last = np.arange(len(self.sizes))[:, None]
        self.names = [str(chip) for chip in range(package["chips"])]
        self.capacity = np.full(package["chips"], package["sram_bytes"], np.int64)

    def checked(self, mapping: Any) -> NDArray[np.int16]:
        """The partition as int16 [N, 1]. Raises Wrong if it is none, or breaks a rule."""
        given = np.asarray(mapping)
        if given.shape != self.sizes.shape or given.dtype.kind not in "iuf":
            raise Wrong(f"expected numbers [{len(self.sizes)}, 1], found {given.dtype} {list(given.shape)}")
        chips = len(self.names)
        if not np.all((given == np.floor(given)) & (given >= 0) & (given < chips)):
            raise Wrong(f"expected chips 0 to {chips - 1}, found others")
        found = given.astype(np.int16)
        place = found[:, 0].tolist()
        held = np.bincount(place, self.sizes[:, 0], minlength=chips)
        arrows = {
            (place[u], place[v]) for u, _, readers in self.tensors for v in readers if place[u] != place[v]
        }
        if any(first > last for first, last in arrows):
            raise Wrong("a node is on an earlier chip than one that it reads")
        if set(place) != set(range(max(place) + 1)):
            raise Wrong("a chip is empty before one in use")
        if any(held > self.capacity):
            raise Wrong("the weights of a chip do not fit")
        if any(_longest(arrows, first, last) > 1 for first, last in arrows):
            raise Wrong("a tensor goes straight to a chip that others reach by a chain of chips")
        return found

    fitted = checked

    def profile(self, mapping: Any) -> list[float]:
        """Busy seconds of each chip, then of each link."""
        place, chips = self.checked(mapping)[:, 0].tolist(), len(self.names)
        busy = [0.0] * (2 * chips)
        for node, chip in enumerate(place):
            busy[chip] += self.node_s[node]
        for source, seconds, readers in self.tensors:
            for link in range(place[source], max(place[reader] for reader in readers)):
                busy[chips + link] += seconds
        return busy

    def cost(self, mapping: Any) -> float:
        """Seconds a sample."""
        return max(self.profile(mapping))


def _longest(arrows: set[tuple[int, int]], first: int, last: int) -> int:
    """Arrows on the longest way between two chips; every arrow leads to a later chip."""
    best = {first: 0}
    for chip in range(first + 1, last + 1):
        ways = [best[u] + 1 for u, v in arrows if v == chip and u in best]
        if ways:
            best[chip] = max(ways)
    return best.get(last, 0)
