"""A file of embedding tables, the planner that TorchRec makes of it, and a plan as a document.

The file: {"tables": [{"name": "t0", "rows": 40000000, "dim": 128, "pooling": [3]}, …]}; `pooling` is the mean number of
values of each feature of the table in a sample. Optional: "type" (of the weights: "fp32", "fp16", …), "weighted", and
the fields of TorchRec's `ParameterConstraints` "sharding_types", "compute_kernels", "min_partition".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.planner.types import ShardingOption
from torchrec.distributed.types import ShardingType
from torchrec.modules.embedding_configs import DataType

from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_object

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Table(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: Annotated[str, Field(min_length=1, pattern=r"^[^.]*$")]
    rows: Annotated[int, Field(gt=0, lt=2**48)]
    dim: Annotated[int, Field(gt=0, le=2**16, multiple_of=4)]
    pooling: Annotated[list[Positive], Field(min_length=1)]
    type: str = "fp32"
    weighted: bool = False
    sharding_types: list[str] | None = None
    compute_kernels: list[str] | None = None
    min_partition: Annotated[int, Field(gt=0)] | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    tables: Annotated[list[Table], Field(min_length=1)]


def read(path: Path) -> list[Table]:
    """The tables of a file. InputError if it is none, or TorchRec does not know a word in it."""
    document = parse_object(read_text(path, "a file of tables"), str(path), "file of tables")
    try:
        tables = _File.model_validate(document).tables
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {at}: {first['msg']}, found {first['input']!r:.60}") from None
    twice = [name for name, count in Counter(table.name for table in tables).items() if count > 1]
    if twice:
        raise InputError(f"{path}: expected different names, found two tables {twice[0]!r}")
    for table in tables:
        _known(path, table, "type", [table.type], [kind.name.lower() for kind in DataType])
        _known(
            path, table, "sharding_types", table.sharding_types or (), [kind.value for kind in ShardingType]
        )
        kernels = [kind.value for kind in EmbeddingComputeKernel]
        _known(path, table, "compute_kernels", table.compute_kernels or (), kernels)
    return tables


def _known(path: Path, table: Table, field: str, given: Sequence[str], known: Sequence[str]) -> None:
    for word in given:
        if word not in known:
            raise InputError(
                f"{path}: table {table.name!r}, {field}: expected one of {', '.join(known)}, found {word!r}"
            )


def module_of(tables: Sequence[Table]) -> EmbeddingBagCollection:
    """The module that TorchRec shards, without memory for its tables."""
    configs = [
        EmbeddingBagConfig(
            name=table.name,
            num_embeddings=table.rows,
            embedding_dim=table.dim,
            feature_names=[f"{table.name}-{number}" for number in range(len(table.pooling))],
            data_type=DataType[table.type.upper()],
        )
        for table in tables
    ]
    weighted = {table.weighted for table in tables}
    if len(weighted) > 1:
        raise InputError("tables: expected all weighted or none, found both: TorchRec has a module for each")
    try:
        return EmbeddingBagCollection(tables=configs, is_weighted=weighted.pop(), device=torch.device("meta"))
    except KeyError as error:  # names of tables are names of modules
        raise InputError(f"tables: expected other names; TorchRec says: {error.args[0]}") from None


def constraints_of(tables: Sequence[Table]) -> dict[str, ParameterConstraints]:
    """What TorchRec is told of each table."""
    return {
        table.name: ParameterConstraints(
            sharding_types=table.sharding_types,
            compute_kernels=table.compute_kernels,
            min_partition=table.min_partition,
            pooling_factors=table.pooling,
            is_weighted=table.weighted,
        )
        for table in tables
    }


def planner_of(
    tables: Sequence[Table], topology: Topology, batch: int, reserve: float, **parts: Any
) -> EmbeddingShardingPlanner:
    """TorchRec's planner for these tables; `parts` are its proposer and partitioner."""
    return EmbeddingShardingPlanner(
        topology=topology,
        batch_size=batch,
        constraints=constraints_of(tables),
        storage_reservation=FixedPercentageStorageReservation(reserve),
        stats=[],
        debug=False,
        **parts,
    )


def planned(planner: EmbeddingShardingPlanner, tables: Sequence[Table]) -> tuple[list[ShardingOption], float]:
    """The planner's best plan, and TorchRec's rating of it. PlannerError where there is none."""
    planner.plan(module_of(tables), [EmbeddingBagCollectionSharder()])
    plan = planner._best_plan
    return plan, float(planner._perf_model.rate(plan))


def document(plan: Sequence[ShardingOption], world: int) -> dict[str, Any]:
    """The plan: for each table its sharding and its shards; and cost and bytes of each rank."""
    tables = {}
    ranks = [{"cost": 0.0, "hbm_bytes": 0, "ddr_bytes": 0} for _ in range(world)]
    for option in plan:
        shards = [
            {"rank": shard.rank, "size": list(shard.size), "offset": list(shard.offset)}
            for shard in option.shards
        ]
        tables[option.name] = {
            "sharding_type": option.sharding_type,
            "compute_kernel": option.compute_kernel,
            "shards": shards,
        }
        for shard in option.shards:
            on = ranks[shard.rank]
            on["cost"] += shard.perf.total
            on["hbm_bytes"] += shard.storage.hbm
            on["ddr_bytes"] += shard.storage.ddr
    return {"kind": "torchrec-plan", "version": 1, "tables": tables, "ranks": ranks}
