"""Partitions that cut the order of the nodes into one run per chip: the compiler's heuristics and the best of them.

Sources: the MCM paper compares with a greedy heuristic of a production compiler and a random partition, both linear
in the nodes (section 5.1), and gives neither. The best cut is the textbook dynamic program over positions.

Under the triangle rule a run must not be jumped: no node before it is read behind it. Then chips lead to their
neighbours only and there is no triangle; the rule allows more than these.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.cost import Tables


def greedy(tables: Tables, fill: float = 1.0) -> NDArray[np.int16]:
    """Int16 [N]: chip after chip takes nodes up to its fair share of the work that is left, as memory and rules allow.

    Args:
        tables: with the nodes in an order in which edges point forward.
        fill: the share of a chip's memory that weights may take, 0..1.

    Nodes that no chip may take (there are too few chips) stay on the last one: what then breaks a rule is for the
    solver.
    """
    room = tables.capacity * fill if tables.capacity >= 0 else np.inf
    reach = _reach(tables)
    place = np.zeros(len(tables.compute_s), np.int16)
    chip, first, load, held, left = 0, 0, 0.0, 0, float(tables.compute_s.sum())
    for n in range(len(place)):
        seconds, size = float(tables.compute_s[n]), int(tables.weight_bytes[n])
        fair = left / (tables.chips - chip)
        full = held + size > room or load + seconds / 2 > fair
        if n > first and full and chip + 1 < tables.chips and (not tables.triangle or n > reach[first]):
            left -= load
            chip, first, load, held = chip + 1, n, 0.0, 0
        place[n] = chip
        load, held = load + seconds, held + size
    return place


def random_cuts(tables: Tables, rng: np.random.Generator) -> NDArray[np.int16]:
    """Int16 [N]: a number of runs and then cuts drawn uniformly."""
    n = len(tables.compute_s)
    runs = int(rng.integers(1, min(tables.chips, n) + 1))
    cuts = np.sort(rng.choice(np.arange(1, n), runs - 1, replace=False))
    return np.searchsorted(cuts, np.arange(n), side="right").astype(np.int16)


def best_cuts(tables: Tables) -> NDArray[np.int16] | None:
    """Int16 [N]: the cheapest by the analytical model of all cuts that keep every rule; None if there is none.

    Valid under the acyclic rule and without it. O(C N^2) time for C chips and N nodes, times readers a node.
    """
    value, back = _best_cuts(tables, _reach(tables))
    n = len(tables.compute_s)
    used = int(np.argmin(value[:, n]))
    if not np.isfinite(value[used, n]):
        return None
    place = np.zeros(n, np.int16)
    end = n
    for chip in range(used - 1, -1, -1):
        first = int(back[chip + 1, end])
        place[first:end] = chip
        end = first
    return place


def _reach(tables: Tables) -> NDArray[np.int64]:
    """Int64 [N + 1]: the last node that reads a node before position p; -1 if there is none from p on."""
    n = len(tables.compute_s)
    farthest = np.full(n + 1, -1, np.int64)
    if len(tables.edges):
        np.maximum.at(farthest, tables.edges[:, 0] + 1, tables.edges[:, 1])
    reach = np.maximum.accumulate(farthest)
    return np.where(reach >= np.arange(n + 1), reach, -1)


@kernel
def _best_cuts(tables: Tables, reach: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """value[j, q], the cost of the cheapest j runs over the nodes before q (inf: none); where the last run begins."""
    n, tensors = len(tables.compute_s), len(tables.source)
    chips = min(tables.chips, n)
    value = np.full((chips + 1, n + 1), np.inf)
    back = np.zeros((chips + 1, n + 1), np.int64)
    value[0, 0] = 0.0
    last = _last_readers(tables)
    made_at = np.argsort(tables.source)
    # A run is the nodes p to q - 1. For each p it grows by a node at a time, and its costs with it.
    for p in range(n):
        incoming = 0.0 if tables.transfers else _incoming_s(tables, last, p)
        first_read = _first_read_s(tables, p) if tables.transfers else np.zeros(n)
        load, held, received, sent = 0.0, 0, 0.0, 0.0
        at, leaving = 0, np.zeros(n + 1)
        while at < tensors and tables.source[made_at[at]] < p:
            at += 1
        for q in range(p + 1, n + 1):
            v = q - 1
            load += tables.compute_s[v]
            held += tables.weight_bytes[v]
            if tables.capacity >= 0 and held > tables.capacity:
                break
            if tables.transfers:
                received += first_read[v]
                # What is made in the run is sent as long as a reader lies behind it: until v is its last reader.
                sent -= leaving[v]
                while at < tensors and tables.source[made_at[at]] == v:
                    k = made_at[at]
                    sent += tables.tensor_s[k]
                    leaving[last[k]] += tables.tensor_s[k]
                    at += 1
            # A run that an edge would jump over is none, but a longer one may be.
            if tables.triangle and q < n and q <= reach[p]:
                continue
            # The dearest of the runs counts, and the link into this one, where links have times of their own.
            cost = max(load + received + sent, incoming)
            for j in range(chips):
                found = max(value[j, p], cost)
                if found < value[j + 1, q]:
                    value[j + 1, q] = found
                    back[j + 1, q] = p
    return value, back


@kernel
def _last_readers(tables: Tables) -> NDArray[np.int64]:
    """The last reader of each tensor, int64 [T]."""
    last = np.full(len(tables.source), -1, np.int64)
    for k in range(len(tables.source)):
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            last[k] = max(last[k], tables.reader[at])
    return last


@kernel
def _incoming_s(tables: Tables, last: NDArray[np.int64], p: int) -> float:
    """Seconds that the link into a run from node p on is busy: with each tensor from before p that p or later reads."""
    seconds = 0.0
    if p > 0:
        for k in range(len(tables.source)):
            if tables.source[k] < p and last[k] >= p:
                seconds += tables.tensor_s[k]
    return seconds


@kernel
def _first_read_s(tables: Tables, p: int) -> NDArray[np.float64]:
    """Float64 [N]: seconds of the tensors from before node p whose first reader from p on a node is."""
    seconds = np.zeros(len(tables.compute_s), np.float64)
    for k in range(len(tables.source)):
        if tables.source[k] < p:
            # A chip receives a tensor once, however many of its nodes read it.
            first = len(seconds)
            for at in range(tables.read_start[k], tables.read_start[k + 1]):
                if tables.reader[at] >= p:
                    first = min(first, tables.reader[at])
            if first < len(seconds):
                seconds[first] += tables.tensor_s[k]
    return seconds
