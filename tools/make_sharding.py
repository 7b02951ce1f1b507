"""Make a sharding instance in the format of the ASPLOS / EuroSys 2025 contest, with a seed.

    python tools/make_sharding.py small.json.gz --nodes 12 --strategies 3 --seed 0

It has what the contest's own have: parallel edges, empty intervals, hubs, forbidden strategies and pairs (10^18),
and a limit of about 1.1 times the peak of the least usages. At least one choice is valid: a hidden one, which is kept
allowed and within the limit.
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
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    document = make(given.seed, given.nodes, given.strategies, given.forbidden, given.slack, given.alike)
    data = json.dumps(document).encode()
    given.file.write_bytes(gzip.compress(data, mtime=0) if given.file.suffix == ".gz" else data)


if __name__ == "__main__":
    main()
