"""A lower bound on the cost of every valid partition, and a good partition beside it.

The bound is the greatest of these, proved in docs/explanations/mcm.md and docs/log/mcm.md:

- the largest node; all work over all chips; and, for j = 2, 3, ..., the j smallest of the (j - 1) C + 1 largest
  nodes, of which some chip of C has j;
- where the weights do not fit on one chip and the graph hangs together, the cheapest tensor to send;
- under the acyclic rule the cheapest split without the triangle rule (`hwsim/mcm/bounds/ideals.py`), copies of
  widely read nodes left out; where the graph has too many ideals, its smallest nodes too (`hwsim/mcm/bounds/thin.py`).

It holds for the device model, which never costs less. The partition is the cheapest of that split, of the best cuts
(`hwsim/mcm/cuts.py`) and of the baseline, those that break a rule repair by FIX.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import Solution
from hwsim.mcm.bounds.ideals import MOST, cheapest_chain, ideals
from hwsim.mcm.bounds.thin import fill, smaller_selections, thin
from hwsim.mcm.cost import Tables, costs
from hwsim.mcm.cuts import best_cuts
from hwsim.mcm.network import Network
from hwsim.problem import Bound

ROUNDING = 1e-9
"""What a bound gives away for sums in another order."""
MOST_CUT_WORK = 2e9
"""Steps of `best_cuts` that are worth while: C N^2 of C chips and N nodes."""


def closed_bound(tables: Tables) -> tuple[float, str]:
    """Seconds that no valid partition costs less than, and why, without a search."""
    work = np.sort(tables.compute_s)[::-1]
    found = [
        (float(work[0]), "largest node"),
        (float(work.sum()) / tables.chips, f"all work over {tables.chips} chips"),
    ]
    together = np.concatenate([[0.0], np.cumsum(work)])
    for j in range(2, (len(work) - 1) // tables.chips + 2):
        last = (j - 1) * tables.chips
        found.append(
            (
                float(together[last + 1] - together[last - j + 1]),
                f"{j} of the {last + 1} largest nodes meet",
            )
        )
    if 0 <= tables.capacity < int(tables.weight_bytes.sum()) and _hangs_together(tables):
        alone = tables.compute_s[tables.source] if tables.transfers else 0.0
        found.append((float((alone + tables.tensor_s).min()), "weights on two chips or more"))
    return max(found, key=lambda entry: entry[0])


def bound_of(network: Network, known_s: float, time_limit_s: float) -> tuple[Bound, NDArray[np.int16] | None]:
    """The bound, and the split int16 [N] behind it where there is one that is cheaper than `known_s`.

    `known_s` is the analytical cost of a valid partition. The split keeps every rule but the triangle's.
    """
    begun = time.monotonic()
    tables = network.tables
    cost, why = closed_bound(tables)
    split = None
    for kept in smaller_selections(tables, ~network.copy) if tables.acyclic else ():
        if len(kept) >= MOST:
            continue
        left = begun + time_limit_s - time.monotonic()
        small = thin(tables, kept)
        listed = ideals(small, left)
        if listed is None:
            continue
        chain = cheapest_chain(small, listed, known_s, begun + time_limit_s)
        if chain is not None:
            if chain[0] > cost:
                cost, why = chain[0], f"dynamic programming over {len(listed.cut_s):,} ideals"
                rest = int((~network.copy).sum() - len(kept))
                why += f", without the {rest:,} smallest nodes" if rest else ""
                why += ", without the triangle rule" if tables.triangle else ""
            if chain[1] is not None:
                split = fill(tables, kept, chain[1])
        break
    return Bound(cost * (1 - ROUNDING), math.inf, why, time.monotonic() - begun), split


def solve(
    network: Network,
    baseline: NDArray[np.int16],
    repair: Callable[[NDArray[np.int16]], NDArray[np.int16]],
    cost_of: Callable[[NDArray[np.int16]], NDArray[np.float64]],
    time_limit_s: float,
) -> Solution:
    """The best partition that this file finds, with its cost, and the bound.

    Args:
        network: what is split.
        baseline: int16 [N], a valid partition.
        repair: valid partitions [B, N] near partitions [B, N].
        cost_of: costs [B] of valid partitions [B, N], infinite where one does not run.
        time_limit_s: for the bound.
    """
    tables = network.tables
    bound, split = bound_of(network, float(costs(tables, baseline[None])[0]), time_limit_s)
    candidates = [baseline]
    if tables.chips * len(baseline) ** 2 <= MOST_CUT_WORK:
        cut = best_cuts(tables)
        candidates += [] if cut is None else [cut]
    candidates += [] if split is None else [split]
    valid = repair(np.stack(candidates))
    price = cost_of(valid)
    best = int(np.argmin(price))
    return Solution(valid[best][:, None], float(price[best]), bound)


def _hangs_together(tables: Tables) -> bool:
    """Whether every node is connected with every other by edges that tensors cross, whatever their direction."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(tables.compute_s)
    source = np.repeat(tables.source, np.diff(tables.read_start))
    matrix = coo_array((np.ones(len(source), np.int8), (source, tables.reader)), shape=(n, n))
    return bool(connected_components(matrix, directed=False)[0] == 1)
