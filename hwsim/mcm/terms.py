"""What the loads of chips and links are sums of: a term for each node, and one for each tensor that passes links.

Which terms a load has, a partition says. How large they are is not said here: measured loads teach it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hwsim.jit import kernel
from hwsim.mcm.cost import Tables, costs
from hwsim.mcm.cuts import best_cuts
from hwsim.mcm.family.cost import Terms as FamilyTerms
from hwsim.mcm.family.improve import COLD, MOST_CUT_WORK, anneal
from hwsim.problem import Floats, Mapping16
from hwsim.stages import Pipeline

MOST_WORK = 20_000_000
"""Steps of a search times nodes at most, some 0.3 s."""


@dataclass(frozen=True)
class ChipTerms:
    """See `hwsim.capabilities.Terms`: K = N + T terms, those of nodes first.

    Attributes:
        tables: who reads what, and the rules; its times are not used.
        made_bytes: int64 [N].
    """

    tables: Tables
    made_bytes: NDArray[np.int64]
    exact = True

    @cached_property
    def block(self) -> NDArray[np.int64]:
        """int64 [K]: one block."""
        return np.zeros(len(self.size), np.int64)

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """int64 [K]: 0 for nodes, 1 for tensors."""
        return np.repeat(np.arange(2), [len(self.tables.compute_s), len(self.tables.source)])

    @cached_property
    def size(self) -> Floats:
        """float64 [K]: 1 for nodes; bytes for tensors, in shares of their mean."""
        moved = self.tables.tensor_bytes.astype(np.float64)
        mean = moved.mean() if moved.any() else 1.0
        return np.concatenate([np.ones(len(self.tables.compute_s)), np.maximum(moved / mean, 1e-6)])

    def held(self, mapping: Mapping16) -> sparse.csr_array:
        """Float64 [B 2C, K], of partitions int16 [B, N, 1]."""
        found = [_entries(self.tables, np.ascontiguousarray(one[:, 0])) for one in mapping]
        loads = 2 * self.tables.chips
        rows = np.concatenate([row + b * loads for b, (row, _) in enumerate(found)])
        columns = np.concatenate([column for _, column in found])
        shape = (len(mapping) * loads, len(self.size))
        return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)

    def improve(self, seconds: Floats, start: Mapping16, *, steps: int, hot: float, key: int) -> Mapping16:
        """From the best cuts, where these terms like them better than `start`."""
        nodes = len(self.tables.compute_s)
        steps = min(steps, MOST_WORK // nodes)
        known = self.tables._replace(compute_s=seconds[:nodes], tensor_s=seconds[nodes:])
        begin = np.ascontiguousarray(start[:, 0])
        if known.chips * nodes**2 <= MOST_CUT_WORK:
            draft = best_cuts(known)
            if draft is not None and np.subtract(*costs(known, np.stack([draft, begin]))) < 0:
                begin = draft
        found: NDArray[np.int16] = anneal(
            known,
            analytical(known),
            self.made_bytes,
            np.zeros(2),  # the chips' memory holds weights alone
            self._neighbours,
            begin,
            steps,
            (hot, hot * COLD),
            np.uint64(key),
        )[0]
        return found[:, None]

    @cached_property
    def _neighbours(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return Pipeline(np.ones(len(self.tables.compute_s)), self.tables.edges.T).neighbours


def analytical(tables: Tables) -> FamilyTerms:
    """The analytical model as one of the family."""
    nodes = len(tables.compute_s)
    none = np.zeros(nodes)
    return FamilyTerms(
        node_s=tables.compute_s,
        by_compute=none,
        by_moving=none,
        by_serial=none,
        launch_s=0.0,
        tensor_s=tables.tensor_s,
        latency_s=0.0,
        busy_share=float(tables.transfers),
        copies=0,
        chip=np.ones(tables.chips),
        residual=np.zeros((1, tables.chips)),
        kind=np.zeros(nodes, np.int64),
    )


@kernel
def _entries(tables: Tables, place: NDArray[np.int16]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Loads and terms, each int64 [X], of which one is a part of the other under a partition [N].

    Loads are numbered as `hwsim.mcm.cost.loads` has them, terms as above; a pair that counts twice stands twice.
    """
    nodes, chips = len(place), tables.chips
    most = nodes + 2 * len(tables.reader) + len(tables.source) * (chips + 1)
    load, term = np.empty(most, np.int64), np.empty(most, np.int64)
    for n in range(nodes):
        load[n], term[n] = place[n], n
    count = nodes
    seen = np.full(chips, -1, np.int64)
    for k in range(len(tables.source)):
        home, far = int(place[tables.source[k]]), 0
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            chip = int(place[tables.reader[at]])
            hops = (chip - home) % chips
            if hops == 0 or seen[chip] == k:
                continue
            seen[chip] = k
            if tables.transfers:
                load[count], term[count] = chip, nodes + k
                count += 1
                if far == 0:
                    load[count], term[count] = home, nodes + k
                    count += 1
            far = max(far, hops)
        for hop in range(0 if tables.transfers else far):
            load[count], term[count] = chips + (home + hop) % chips, nodes + k
            count += 1
    return load[:count].copy(), term[:count].copy()
