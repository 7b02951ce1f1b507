"""What egrl finds under the name `shard` (entry point `egrl.problems`)."""

from __future__ import annotations

from typing import Any

from egrl.core.registry import ProblemDefinition, ProblemEntry
from workloads.errors import InputError


def _load() -> ProblemDefinition:
    from egrl_shard.load import load_sharding
    from egrl_shard.problem import MESH, Shard, ShardConfig

    def build(workload: Any, chip: Any, config: Any) -> Shard:
        if chip != MESH:
            raise InputError(f"--chip: expected none, since the instance has the limit, found {chip!r}")
        return Shard(load_sharding(workload) if isinstance(workload, str) else workload, config)

    def described(name: str) -> dict[str, Any]:
        return {"summary": "problem shard: accelerators of which the instance knows the costs and the limit"}

    return ProblemDefinition(ShardConfig, build, lambda: [MESH], described, {})


SHARD = ProblemEntry(
    "how every op of a model is split over accelerators, in cost units of an instance (.json, .json.gz)",
    "workload.json.gz",
    "",
    _load,
    "exact",
    "a sharding instance (.json or .json.gz), in the format of the ASPLOS / EuroSys 2025 contest",
)
