"""Make a sharding instance in the format of the ASPLOS / EuroSys 2025 contest, with a seed.

    python plugins/shard/tests/make_sharding.py small.json.gz --nodes 12 --strategies 3 --seed 0

It has what the contest's own have: parallel edges, empty intervals, hubs, forbidden strategies and pairs (10^18),
and a limit of about 1.1 times the peak of the least usages. At least one choice is valid: a hidden one, which is kept
allowed and within the limit.

    python plugins/shard/tests/make_sharding.py dense.json.gz --like N.json.gz --ties 27000 --reach 3

Another instance with more edges, each of which ties two nodes of as many strategies together: only equal ones are
allowed. `--reach` is how far apart the two may be among nodes of as many strategies. The limit is at least `--slack`
times the peak of a choice that keeps the ties. Without ties it is `--slack` times the limit.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

FORBIDDEN = 10**18


def make(
    seed: int,
    nodes: int = 8,
    strategies: int = 3,
    forbidden: float = 0.15,
    slack: float = 1.1,
    alike: float = 0.0,
    name: str = "",
) -> dict[str, Any]:
    """The JSON object of an instance.

    `strategies` is the most that a node has, `forbidden` the share of strategies and pairs that are, `slack` the
    limit over the peak of the least usages, `alike` the share of nodes whose strategy an earlier node decides: an edge
    allows one for each of the other's.
    """
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, strategies + 1, nodes)
    decided = {b: int(rng.integers(b)) for b in range(1, nodes) if alike and rng.random() < alike}
    for b, a in decided.items():
        counts[b] = counts[a]
    order = {b: rng.permutation(counts[b]) for b in decided}
    start = np.sort(rng.integers(0, 2 * nodes, nodes))
    end = start + rng.integers(0, nodes // 2 + 2, nodes)
    usages = [rng.integers(0, 100, k) for k in counts]
    hidden = [int(u.argmin()) if rng.random() < 0.7 else int(rng.integers(len(u))) for u in usages]
    for b, a in decided.items():
        hidden[b] = int(order[b][hidden[a]])
    costs = [rng.integers(0, 50, k) for k in counts]
    for node, row in enumerate(costs):
        row[(rng.random(len(row)) < forbidden / 2) & (np.arange(len(row)) != hidden[node])] = FORBIDDEN
    ends = [(int(rng.integers(max(0, b - 4), b)), b) for b in range(1, nodes)]
    ends += [(0, b) for b in range(2, nodes, 3)]
    ends += [pair[::-1] for pair in ends[:: max(1, nodes // 3)]]
    tables = []
    for a, b in ends:
        table = rng.integers(0, 100, (counts[a], counts[b])) * (rng.random((counts[a], counts[b])) < 0.6)
        banned = rng.random(table.shape) < forbidden
        banned[hidden[a], hidden[b]] = False
        tables.append(np.where(banned, FORBIDDEN, table).ravel().tolist())
    for b, a in decided.items():
        table = np.full((counts[a], counts[b]), FORBIDDEN)
        table[np.arange(counts[a]), order[b]] = rng.integers(0, 9, counts[a])
        ends.append((a, b))
        tables.append(table.ravel().tolist())
    kept = _peak(start, end, np.array([u[h] for u, h in zip(usages, hidden, strict=True)]))
    least = _peak(start, end, np.array([u.min() for u in usages]))
    return {
        "problem": {
            "name": name or f"made-{seed}",
            "nodes": {
                "intervals": np.stack([start, end], axis=1).tolist(),
                "costs": [row.tolist() for row in costs],
                "usages": [row.tolist() for row in usages],
            },
            "edges": {"nodes": [list(pair) for pair in ends], "costs": tables},
            "usage_limit": max(kept, int(slack * least)),
        }
    }


def like(document: dict[str, Any], ties: int, reach: int, slack: float, seed: int) -> dict[str, Any]:
    """The JSON object of an instance with more ties, or with another limit; see above."""
    rng = np.random.default_rng(seed)
    problem = document["problem"]
    nodes, edges = problem["nodes"], problem["edges"]
    if not ties:
        return {"problem": {**problem, "usage_limit": int(slack * problem["usage_limit"])}}
    counts = np.array([len(row) for row in nodes["costs"]])
    alike = {
        k: np.flatnonzero(counts == k) for k in set(counts.tolist()) if k > 1 and (counts == k).sum() > 1
    }
    widths, weights = list(alike), np.array([len(each) for each in alike.values()], float)
    ends: list[tuple[int, int]] = []
    while len(ends) < ties:
        of = alike[widths[rng.choice(len(widths), p=weights / weights.sum())]]
        at = int(rng.integers(len(of) - 1))
        ends.append((int(of[at]), int(of[min(at + int(rng.integers(1, reach + 1)), len(of) - 1)])))
    allowed = {k: np.where(np.eye(k, dtype=bool), 0, FORBIDDEN).ravel().tolist() for k in widths}
    parent = list(range(len(counts)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in ends:
        parent[root(a)] = root(b)
    start, end = np.array(nodes["intervals"]).T
    held = np.zeros((len(counts), counts.max()))
    usages = [np.array(row, float) for row in nodes["usages"]]
    for node, usage in enumerate(usages):
        held[root(node), : len(usage)] += usage * (end[node] - start[node])
    chosen = [int(held[root(node), : len(usage)].argmin()) for node, usage in enumerate(usages)]
    steps = np.zeros(int(end.max()) + 1)
    used = np.array([usage[c] for usage, c in zip(usages, chosen, strict=True)])
    np.add.at(steps, start, used)
    np.subtract.at(steps, end, used)
    return {
        "problem": {
            **problem,
            "edges": {
                "nodes": edges["nodes"] + [list(pair) for pair in ends],
                "costs": edges["costs"] + [allowed[counts[a]] for a, _ in ends],
            },
            "usage_limit": max(problem["usage_limit"], int(slack * np.cumsum(steps).max())),
        }
    }


def _peak(start: np.ndarray, end: np.ndarray, usage: np.ndarray) -> int:
    """The most that is used at any time."""
    return max(int(usage[(start <= time) & (time < end)].sum()) for time in range(int(end.max()) + 1))


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help="ends in .json or .json.gz")
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--strategies", type=int, default=3, help="the most that a node has")
    parser.add_argument("--forbidden", type=float, default=0.15, help="share of strategies and pairs")
    parser.add_argument("--slack", type=float, default=1.1, help="limit over the peak of the least usages")
    parser.add_argument(
        "--alike", type=float, default=0.0, help="the share of nodes whose strategy another decides"
    )
    parser.add_argument("--like", type=Path, help="an instance to begin with, instead")
    parser.add_argument("--ties", type=int, default=0, help="more edges of it")
    parser.add_argument("--reach", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.like is None:
        document = make(given.seed, given.nodes, given.strategies, given.forbidden, given.slack, given.alike)
    else:
        read = given.like.read_bytes()
        read = gzip.decompress(read) if given.like.suffix == ".gz" else read
        document = like(json.loads(read), given.ties, given.reach, given.slack, given.seed)
    data = json.dumps(document).encode()
    given.file.write_bytes(gzip.compress(data, mtime=0) if given.file.suffix == ".gz" else data)


if __name__ == "__main__":
    main()
