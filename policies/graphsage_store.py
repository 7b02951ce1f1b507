"""GraphSAGE policies on disk: kind "graphsage", whose weights belong to no number of choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from policies.graphsage import GraphSage, GraphSageConfig
from policies.store import StoredPolicy, check_network, vector_of
from policies.weight_vector import Weights

KIND = "graphsage"


def graphsage_policy(
    weights: Weights, config: GraphSageConfig, *, features: int, heads: Sequence[str], **free: Any
) -> StoredPolicy:
    """A `GraphSage` with weights float32 [P]; `free` goes to the metadata (`choices` and `feature_schema` must)."""
    weight_format = GraphSage(config, features, len(heads)).weight_format
    weight_format.check(weights)
    arrays = weight_format.arrays(weights)
    metadata = {**free, "kind": KIND, "features": features, "heads": list(heads), "config": asdict(config)}
    return StoredPolicy(arrays, metadata)


def graphsage_weights(policy: StoredPolicy, config: GraphSageConfig, where: str) -> Weights:
    """The weights float32 [P] of a policy for this network. InputError naming `where` where it does not fit."""
    meta = policy.metadata
    check_network(policy, KIND, asdict(config), where)
    weight_format = GraphSage(config, meta["features"], len(meta["heads"])).weight_format
    return vector_of(policy, weight_format, where)
