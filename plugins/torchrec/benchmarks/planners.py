"""Plans of `egrl_torchrec` and of all of TorchRec's proposers, rated by TorchRec: `python planners.py OUT.jsonl`.

Prints and appends a line of JSON for each set of tables on each cluster: ratings of the plans, the proven bound, and
seconds, without the estimates of shards, which all share. `random`: random ways to shard, laid by TorchRec's
partitioner, for as many seconds as this proposer had. Left out is TorchRec's proposer of sizes of caches, which these
tables do not have. Sets: `mlperf`, 26 tables with the sizes of MLPerf's DLRM-v2;
`drawn`, tables drawn in that manner: 10^u rows (u uniform, 3 to 7.5), 32 to 256 columns, 1 to 100 values a sample.
`--sets mlperf,drawn80` `--clusters 8x80,16x40` (GPUs, GiB) `--seconds` `--seed`.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner import proposers as theirs
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.planner.types import PlannerError, ShardingOption
from torchrec.distributed.planner.types import Proposer as AnyProposer

from egrl_torchrec import Partitioner, Proposer
from egrl_torchrec.planner import by_table
from egrl_torchrec.tables import Table, constraints_of, module_of

ROWS = "40000000 39060 17295 7424 20265 3 7122 1543 63 40000000 3067956 405282 10 2209 11938 155 4 976 14 40000000"
ROWS += " 40000000 40000000 590152 12973 108 36"
POOLING = "3 2 1 2 6 1 1 1 1 7 3 8 1 6 9 5 1 1 1 12 100 27 10 3 1 1"
CLUSTERS = "4x80,8x80,8x40,16x40,16x24,32x24"
BATCH, RESERVE, TIMEOUT_S = 8192, 0.1, 120


class Random(AnyProposer):
    """Draws ways to shard until the time is up."""

    def __init__(self, seconds: float, seed: int) -> None:
        self._seconds, self._draw = seconds, random.Random(seed)

    def load(self, search_space: list[ShardingOption], enumerator: Any = None) -> None:
        self._tables, self._end = by_table(search_space), time.monotonic() + self._seconds

    def propose(self) -> list[ShardingOption] | None:
        if time.monotonic() > self._end:
            return None
        return [self._draw.choice(options) for options in self._tables]

    def feedback(self, *args: Any, **kwargs: Any) -> None:
        pass


def tables_of(name: str, seed: int) -> list[Table]:
    """A set of tables by its name."""
    if name == "mlperf":
        pairs = zip(ROWS.split(), POOLING.split(), strict=True)
        return [
            Table(name=f"t{n}", rows=int(r), dim=128, pooling=[float(p)]) for n, (r, p) in enumerate(pairs)
        ]
    draw = random.Random(seed)
    return [
        Table(
            name=f"t{n}",
            rows=int(10 ** draw.uniform(3, 7.5)),
            dim=draw.choice((32, 64, 128, 256)),
            pooling=[float(int(10 ** draw.uniform(0, 2)))],
        )
        for n in range(int(name.removeprefix("drawn")))
    ]


def measured(name: str, gpus: int, gib: int, seconds: float, seed: int) -> dict[str, Any]:
    """One row."""
    tables = tables_of(name, seed)
    module, sharders, constraints = (
        module_of(tables),
        [EmbeddingBagCollectionSharder()],
        constraints_of(tables),
    )
    topology = Topology(gpus, "cuda", hbm_cap=gib * 2**30, local_world_size=min(8, gpus))
    enumerator = EmbeddingEnumerator(topology, BATCH, constraints)
    start = time.monotonic()
    enumerator.enumerate(module, sharders)
    row: dict[str, Any] = {"tables": name, "gpus": gpus, "gib": gib, "estimates_s": time.monotonic() - start}

    def planned(**parts: Any) -> dict[str, Any]:
        planner = EmbeddingShardingPlanner(
            topology=topology,
            batch_size=BATCH,
            enumerator=enumerator,
            constraints=constraints,
            storage_reservation=FixedPercentageStorageReservation(RESERVE),
            stats=[],
            debug=False,
            timeout_seconds=TIMEOUT_S,
            **parts,
        )
        begin = time.monotonic()
        try:
            planner.plan(module, sharders)
        except PlannerError as error:
            return {"rating": None, "error": str(error).splitlines()[0]}
        rating = float(planner._perf_model.rate(planner._best_plan))
        return {"rating": rating, "plans": planner._num_plans, "seconds": time.monotonic() - begin}

    ours = Proposer(seconds, seed)
    row["egrl"] = planned(proposer=ours, partitioner=Partitioner())
    assert ours.solution is not None
    row["bound"] = ours.solution.bound
    row["default"] = planned()
    ways = {
        "greedy": theirs.GreedyProposer(),
        "greedy, wide": theirs.GreedyProposer(use_depth=False),
        "uniform": theirs.UniformProposer(),
        "grid": theirs.GridSearchProposer(),
        "dynamic programming": theirs.DynamicProgrammingProposer(),
        "random": Random(ours.solution.seconds, seed),
    }
    return row | {way: planned(proposer=proposer) for way, proposer in ways.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each set of tables on each cluster."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out")
    parser.add_argument("--sets", default="mlperf,drawn100")
    parser.add_argument("--clusters", default=CLUSTERS)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    logging.disable(logging.ERROR)
    for name in args.sets.split(","):
        for cluster in args.clusters.split(","):
            gpus, gib = map(int, cluster.split("x"))
            line = json.dumps(measured(name, gpus, gib, args.seconds, args.seed))
            print(line, flush=True)
            with Path(args.out).open("a", encoding="utf-8") as file:
                file.write(line + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
