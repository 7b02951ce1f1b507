"""The cheapest split of a graph with few ideals, by dynamic programming, and with it a bound for larger sets of rules.

Source: Tarnawski et al., "Efficient algorithms for device placement of DNN graph operators" (NeurIPS 2020), section
4: a split along which no edge leads back is a chain of *ideals* (sets of nodes with all that they read), a chip
between each and the next; the best chain is found over the ideals in the order of their size.

Deviations:
- A chip whose nodes alone take longer than a known partition costs is not looked at.
- With `load = "compute"` the links are busy with what their cut carries, which is the same dynamic program: a cut is an
  ideal.
- The triangle rule is not expressed. Without it the result is the optimum; with it a lower bound, and the optimum where
  the split keeps the rule.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.cost import Tables

MOST = 20_000
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


def ideals(tables: Tables, time_limit_s: float, most: int = MOST) -> Ideals | None:
    """All ideals of a graph; None where there are more than `most` or listing them takes longer."""
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
        if len(found) > most or time.monotonic() > end:
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

    Args:
        t: of the graph.
        found: its ideals.
        known_s: cost of a partition that is known; (known_s, None) if nothing is cheaper.
        end: `time.monotonic()` by which it must be done; None where it is not.
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
