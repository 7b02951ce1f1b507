"""A lower bound on the cost of every valid partition, and a good partition beside it.

The bound is the greatest of these, proved in docs/explanations/mcm.md and papers/mcm/log/mcm.md:

- the largest node; all work over all chips; and, for j = 2, 3, ..., the j smallest of the (j - 1) C + 1 largest
  nodes, of which some chip of C has j;
- if the weights do not fit on one chip and the graph hangs together, the cheapest tensor to send;
- under the acyclic rule the cheapest split without the triangle rule, copies of widely read nodes left out; if the
  graph has too many ideals, its smallest nodes are left out, too.

It holds for the device model, which never costs less. The partition is the cheapest of that split, of the best cuts
(`hwsim/mcm/cuts.py`) and of the baseline; one that breaks a rule is repaired by FIX.

The cheapest split: a split along which no edge leads back is a chain of *ideals* (sets of nodes with all that they
read), a chip between each and the next; the best chain is found over the ideals in the order of their size. Source:
Tarnawski et al., "Efficient algorithms for device placement of DNN graph operators" (NeurIPS 2020), section 4.

Smaller graphs: a split of all nodes, read on those that are left, keeps acyclicity, since a node left out stands
between what it reads and what reads it; no chip has more work or weights there, and no link carries more. So the
cheapest split of what is left is a lower bound.

Deviations:

- A chip whose nodes alone take longer than a known partition costs is not looked at.
- With `load = "compute"` the links are busy with what their cut carries, which is the same dynamic program: a cut is an
  ideal.
- The triangle rule is not expressed. Without it the result is the optimum; with it a lower bound, and the optimum if
  the split keeps the rule.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import Solution
from hwsim.jit import kernel
from hwsim.mcm.cost import Tables, costs
from hwsim.mcm.cuts import best_cuts
from hwsim.mcm.network import Network
from hwsim.problem import Bound

SHARES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares of all work, or of one chip's memory, that nodes left out have together at most; equals go together."""


def smaller_selections(tables: Tables, needed: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """Nodes that are left, int64 [K] ascending: all that are `needed` (bool [N]) first, then fewer and fewer."""
    whole = np.flatnonzero(needed)
    yield whole
    size = tables.compute_s / tables.compute_s.sum()
    if tables.capacity > 0:
        size = np.maximum(size, tables.weight_bytes / tables.capacity)
    sizes = np.sort(size[whole])
    together = np.cumsum(sizes)[np.searchsorted(sizes, size[whole] * (1 + 1e-9), side="right") - 1]
    before = len(whole)
    for share in SHARES:
        kept = whole[together > share]
        if 0 < len(kept) < before:
            before = len(kept)
            yield kept


def thin(tables: Tables, kept: NDArray[np.int64]) -> Tables:
    """The tables of some nodes, int64 [K] ascending, and of the tensors between them; edges point forward in number."""
    position = np.full(len(tables.compute_s), -1, np.int64)
    position[kept] = np.arange(len(kept))
    reads: list[set[int]] = [set() for _ in position]  # of kept nodes, by way of nodes left out
    for u, v in tables.edges[np.argsort(tables.edges[:, 1], kind="stable")].tolist():
        reads[v] |= {u} if position[u] >= 0 else reads[u]
    edges = [(int(position[u]), k) for k, v in enumerate(kept.tolist()) for u in sorted(reads[v])]
    rows = [
        (
            k,
            [
                position[v]
                for v in tables.reader[tables.read_start[k] : tables.read_start[k + 1]]
                if position[v] >= 0
            ],
        )
        for k in range(len(tables.source))
        if position[tables.source[k]] >= 0
    ]
    rows = [(k, readers) for k, readers in rows if readers]
    tensors = np.array([k for k, _ in rows], np.int64)
    return tables._replace(
        compute_s=tables.compute_s[kept],
        size_bytes=tables.size_bytes[kept],
        weight_bytes=tables.weight_bytes[kept],
        edges=np.array(edges, np.int64).reshape(-1, 2),
        source=position[tables.source[tensors]],
        read_start=np.concatenate([[0], np.cumsum([len(r) for _, r in rows])]).astype(np.int64),
        reader=np.array([v for _, r in rows for v in r], np.int64),
        tensor_s=tables.tensor_s[tensors],
        tensor_bytes=tables.tensor_bytes[tensors],
    )


def fill(tables: Tables, kept: NDArray[np.int64], split: NDArray[np.int16]) -> NDArray[np.int16]:
    """A split int16 [K] of some nodes as one of all, int16 [N].

    A node left out goes with the last that it reads, and where it reads nothing that is placed, with its first reader.
    """
    none = np.iinfo(np.int16).max
    place = np.full(len(tables.compute_s), -1, np.int16)
    place[kept] = split
    given = place >= 0
    for u, v in tables.edges[np.argsort(tables.edges[:, 1], kind="stable")].tolist():
        if not given[v]:
            place[v] = max(place[v], place[u])
    first = np.where(place < 0, none, place)
    free = place < 0
    for u, v in tables.edges[np.argsort(-tables.edges[:, 0], kind="stable")].tolist():
        if free[u]:
            first[u] = min(first[u], first[v])
    return np.where(first == none, 0, first).astype(np.int16)


MAX_IDEALS = 20_000
"""Ideals that are listed; the work grows with their square. A graph has more of them than nodes."""


class Ideals(NamedTuple):
    """I ideals of N nodes and T tensors, small ones first.

    Attributes:
        nodes: uint64 [I, ceil(N / 64)], as bits.
        compute_s, weight_bytes: of all nodes, [I].
        cut_s: float64 [I], seconds on a link of the tensors that leave.
        out_start, out: the tensors that leave each, [I + 1] and their numbers.
    """

    nodes: NDArray[np.uint64]
    compute_s: NDArray[np.float64]
    weight_bytes: NDArray[np.int64]
    cut_s: NDArray[np.float64]
    out_start: NDArray[np.int64]
    out: NDArray[np.int64]


def ideals(tables: Tables, time_limit_s: float) -> Ideals | None:
    """All ideals of a graph; None if there are more than `MAX_IDEALS` or listing them takes longer."""
    n, end = len(tables.compute_s), time.monotonic() + time_limit_s
    need = [0] * n
    readers: list[list[int]] = [[] for _ in range(n)]
    for u, v in tables.edges.tolist():
        need[v] |= 1 << u
        readers[u].append(v)
    layer = {0: [v for v in range(n) if not need[v]]}
    found: list[int] = []
    while layer:
        found += layer
        if len(found) > MAX_IDEALS or time.monotonic() > end:
            return None
        following: dict[int, list[int]] = {}
        for ideal, ready in layer.items():
            for v in ready:
                larger = ideal | 1 << v
                if larger not in following:
                    freed = [w for w in readers[v] if need[w] & larger == need[w]]
                    following[larger] = [u for u in ready if u != v] + freed
        layer = following
    return _tabulate(tables, found)


def _tabulate(tables: Tables, found: list[int]) -> Ideals:
    n, words = len(tables.compute_s), (len(tables.compute_s) + 63) // 64
    raw = b"".join(ideal.to_bytes(8 * words, "little") for ideal in found)
    nodes = np.frombuffer(raw, np.uint64).reshape(len(found), words).copy()
    inside = np.unpackbits(nodes.view(np.uint8), axis=1, bitorder="little")[:, :n].astype(np.bool_)
    out, start, cut = [], [0], np.zeros(len(found))
    readers = np.split(tables.reader, tables.read_start[1:-1]) if len(tables.source) else []
    complete = np.array([inside[:, r].all(axis=1) for r in readers], np.bool_).reshape(-1, len(found))
    for i in range(len(found)):
        leaving = np.flatnonzero(inside[i, tables.source] & ~complete[:, i])
        out.append(leaving)
        start.append(start[-1] + len(leaving))
        cut[i] = tables.tensor_s[leaving].sum()
    return Ideals(
        nodes,
        inside @ tables.compute_s,
        np.array([tables.weight_bytes[nodes].sum() for nodes in inside], np.int64),
        cut,
        np.array(start, np.int64),
        np.concatenate(out).astype(np.int64),
    )


def cheapest_chain(
    tables: Tables, found: Ideals, known_s: float, end: float
) -> tuple[float, NDArray[np.int16] | None] | None:
    """The cost of the cheapest split and the split int16 [N], by the rules acyclic, no skipping and memory.

    The split is None if nothing is cheaper than `known_s`. None alone: there was not enough time.

    Args:
        tables: of the graph.
        found: its ideals.
        known_s: cost of a partition that is known.
        end: the time of `time.monotonic()` by which it must be done.
    """
    count, chips = len(found.cut_s), min(tables.chips, len(tables.compute_s))
    value = np.full((count, chips + 1), np.inf)
    back = np.full((count, chips + 1), -1, np.int64)
    value[0, 0] = 0.0
    for first in range(1, count, 256):
        if time.monotonic() > end:
            return None
        _extend(tables, found, value, back, first, min(count, first + 256), known_s)
    used = int(np.argmin(value[-1]))
    if not value[-1, used] < known_s:
        return known_s, None
    place = np.zeros(len(tables.compute_s), np.int16)
    at = count - 1
    for chip in range(used - 1, -1, -1):
        before = int(back[at, chip + 1])
        bits = (found.nodes[at] & ~found.nodes[before]).view(np.uint8)
        place[np.flatnonzero(np.unpackbits(bits, bitorder="little")[: len(place)])] = chip
        at = before
    return float(value[-1, used]), place


@kernel
def _extend(
    tables: Tables,
    found: Ideals,
    value: NDArray[np.float64],
    back: NDArray[np.int64],
    first: int,
    last: int,
    known_s: float,
) -> None:
    """Fill value[i, j], the cheapest chain of j chips that ends at ideal i, and its last ideal but one, for some i."""
    words, chips = found.nodes.shape[1], value.shape[1] - 1
    # Ideals are sorted by size, so that those inside ideal i have smaller numbers and final values.
    for i in range(first, last):
        for before in range(i):
            # What is cheap to ask comes first. A chip as slow as the best split known improves nothing; the slack is
            # for rounding, so that no better split is lost.
            load = found.compute_s[i] - found.compute_s[before]
            if load * (1 - 1e-12) >= known_s:
                continue
            if tables.capacity >= 0 and found.weight_bytes[i] - found.weight_bytes[before] > tables.capacity:
                continue
            # The nodes between the two ideals make a chip only if the one contains the other.
            inside = True
            for w in range(words):
                if found.nodes[before, w] & ~found.nodes[i, w]:
                    inside = False
                    break
            if not inside:
                continue
            cost = load
            if tables.transfers:
                cost += _transfers(tables, found, before, i)
            else:
                cost = max(cost, found.cut_s[before])
            if cost >= known_s:
                continue
            # One chip more than the best chain to `before`: its pace is that of the slower of both.
            for j in range(chips):
                total = max(value[before, j], cost)
                if total < value[i, j + 1]:
                    value[i, j + 1] = total
                    back[i, j + 1] = before


@kernel
def _transfers(tables: Tables, found: Ideals, before: int, i: int) -> float:
    """Seconds that the chip between two ideals sends and receives."""
    seconds = 0.0
    # Sent: what leaves the larger ideal and is made on this chip.
    for at in range(found.out_start[i], found.out_start[i + 1]):
        k = found.out[at]
        if not _has(found, before, tables.source[k]):
            seconds += tables.tensor_s[k]
    # Received: what leaves the smaller ideal and has a reader here; once, however many readers it has.
    for at in range(found.out_start[before], found.out_start[before + 1]):
        k = found.out[at]
        for to in range(tables.read_start[k], tables.read_start[k + 1]):
            v = tables.reader[to]
            if _has(found, i, v) and not _has(found, before, v):
                seconds += tables.tensor_s[k]
                break
    return seconds


@kernel
def _has(found: Ideals, ideal: int, node: int) -> bool:
    return (found.nodes[ideal, node >> 6] >> np.uint64(node & 63)) & np.uint64(1) != 0


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
    """The bound, and the split int16 [N] behind it if there is one that is cheaper than `known_s`.

    `known_s` is the analytical cost of a valid partition. The split keeps every rule but the triangle's.
    """
    begun = time.monotonic()
    tables = network.tables
    cost, why = closed_bound(tables)
    split = None
    for kept in smaller_selections(tables, ~network.copy) if tables.acyclic else ():
        if len(kept) >= MAX_IDEALS:
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
        cost_of: costs [B] of valid partitions [B, N], infinite if one does not run.
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
    return Solution(valid[best][:, None], float(price[best]), bound, bound.seconds < time_limit_s)


def _hangs_together(tables: Tables) -> bool:
    """Whether every node is connected with every other by edges that tensors cross, whatever their direction."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(tables.compute_s)
    source = np.repeat(tables.source, np.diff(tables.read_start))
    matrix = coo_array((np.ones(len(source), np.int8), (source, tables.reader)), shape=(n, n))
    return bool(connected_components(matrix, directed=False)[0] == 1)
