"""Policies on disk: named arrays and JSON, in one safetensors file that runs no code on loading.

The metadata of every policy says what it can be used for:

    kind            "gnn" (a network of `policies.network`), "boltzmann" (prior, temperature) or a method's own
    version         of this file format
    feature_schema  version of the node features (whatever the writer compares it with)
    features        number of features, F
    heads           names of the H decisions of a node
    choices         most choices a decision has, C
    config          the network's settings; a `name` unless it is the package's own Graph U-Net

and anything else that JSON can hold (workload, generation, seed …).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from policies.graph_unet import GraphUNet
from policies.graphsage import GraphSage, GraphSageConfig
from policies.network import GRAPH_UNET, LINEAR, NetworkConfig, refers, saved_settings
from policies.pyg import PygActor, make_actor
from policies.ranker import Rankers
from policies.shipped import FIELD, metadata_of
from policies.weight_vector import WeightFormat, Weights, assign
from workloads.errors import InputError
from workloads.files import read_bytes, replace_file

KIND, RANKER = "graphsage", "ranker"
"""Kinds of policies beside graph networks that name choices ("gnn")."""
VERSION = 1
_REQUIRED: dict[str, type] = {
    "kind": str,
    "feature_schema": int,
    "features": int,
    "heads": list,
    "choices": int,
    "config": dict,
}


@dataclass(frozen=True)
class StoredPolicy:
    """A policy on disk: named arrays and metadata."""

    weights: Mapping[str, NDArray[Any]]
    metadata: Mapping[str, Any]


def save_policy(path: Path, weights: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> None:
    """Write a policy; the file appears whole or not at all. `version` is added to the metadata.

    Raises ValueError where metadata lacks a required field or JSON cannot hold it.
    """
    whole = {**metadata, "version": VERSION}
    whole["heads"] = list(whole.get("heads", ()))
    problem = _defect(whole)
    if problem:
        raise ValueError(f"metadata: {problem}")
    text = json.dumps(whole, sort_keys=True, allow_nan=False)
    data = save({name: np.ascontiguousarray(a) for name, a in weights.items()}, metadata={FIELD: text})
    replace_file(path, data)


def load_policy(path: Path) -> StoredPolicy:
    """Read a policy. InputError if the file is missing, damaged, of another version or a folder (names its files)."""
    if path.is_dir():
        inside = sorted(str(file.relative_to(path)) for file in path.rglob("*.safetensors"))
        named = f"policy files in it: {', '.join(inside[-3:])}" if inside else "no policy file is in it"
        raise InputError(f"{path}: expected a policy file, found a folder; {named}")
    data = read_bytes(path, "a policy file")
    try:
        metadata = metadata_of(data)
        weights = load(data)
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected a policy file, found something else or a damaged one") from error
    if not isinstance(metadata, dict) or metadata.get("version") != VERSION:
        found = metadata.get("version") if isinstance(metadata, dict) else metadata
        raise InputError(f"{path}: version: expected {VERSION}, found {found!r}")
    problem = _defect(metadata)
    if problem:
        raise InputError(f"{path}: {problem}")
    broken = [name for name, a in weights.items() if a.dtype.kind == "f" and not (np.abs(a) < 1e12).all()]
    if broken:
        raise InputError(f"{path}: {broken[0]}: expected finite values, found others")
    return StoredPolicy(weights, metadata)


def check_network(policy: StoredPolicy, kind: str, config: Mapping[str, Any], where: str) -> None:
    """InputError naming `where` and the first thing in which a policy is not of this kind and network."""
    found = policy.metadata["kind"]
    if found != kind:
        raise InputError(
            f"{where}: expected a policy of kind {kind!r}, found one of another method, of kind {found!r}"
        )
    given = policy.metadata["config"]
    if "name" in config:
        given = {"name": GRAPH_UNET, **given}
    if config.get("name") == given.get("name") == LINEAR:
        return  # the other settings are those of networks over the graph
    for name in sorted({*config, *given}, key=lambda name: (name != "name", name)):
        if config.get(name) != given.get(name):
            raise InputError(
                f"{where}: network.{name}: expected {config.get(name)!r} as it is set here, found {given.get(name)!r}"
            )


def vector_of(policy: StoredPolicy, weight_format: WeightFormat, where: str) -> Weights:
    """The weights float32 [P] of a policy. InputError naming `where` where its arrays are not those of its format."""
    shapes = {segment.name: segment.shape for segment in weight_format.segments}
    found = {name: array.shape for name, array in policy.weights.items()}
    if shapes != found:
        name = next(n for n in sorted({*shapes, *found}) if shapes.get(n) != found.get(n))
        raise InputError(f"{where}: {name}: expected shape {shapes.get(name)}, found {found.get(name)}")
    return np.concatenate([np.asarray(policy.weights[n], np.float32).reshape(-1) for n in shapes])


# ---- kinds of policies


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


def ranker_policy(
    weights: Weights, rankers: Rankers, *, heads: Sequence[str], choices: int, **free: Any
) -> StoredPolicy:
    """A ranking network with weights float32 [P] as a policy; `free` goes to the metadata.

    The names of its features stand in the metadata: a policy fits a placer with the same ones.
    """
    rankers.weight_format.check(weights)
    metadata = {
        **free,
        "kind": RANKER,
        "feature_schema": 0,
        "features": len(rankers.names),
        "feature_names": list(rankers.names),
        "heads": list(heads),
        "choices": choices,
        "config": saved_settings(rankers.config),
    }
    return StoredPolicy(rankers.weight_format.arrays(weights), metadata)


def rankers_of(policy: StoredPolicy, where: str = "policy") -> Rankers:
    """What evaluates a ranking policy. InputError naming `where` if its settings are none of ours."""
    meta = policy.metadata
    names = meta.get("feature_names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{where}: feature_names: expected names, found {names!r}")
    return Rankers(_network_config(policy, where), tuple(names), len(meta["heads"]))


def ranker_weights(policy: StoredPolicy, rankers: Rankers, where: str = "policy") -> Weights:
    """The weights float32 [P] of a ranking policy. InputError naming `where` if arrays and settings disagree."""
    return vector_of(policy, rankers.weight_format, where)


def actor_policy(
    weights: Weights,
    config: NetworkConfig,
    *,
    features: int,
    heads: Sequence[str],
    choices: int,
    feature_schema: int,
    **free: Any,
) -> StoredPolicy:
    """A network with weights float32 [P] as a policy of kind "gnn"; `free` goes to the metadata."""
    weight_format = _weight_format(config, features, len(heads), choices)
    weight_format.check(weights)
    arrays = weight_format.arrays(weights)
    metadata = {
        **free,
        "kind": "gnn",
        "feature_schema": feature_schema,
        "features": features,
        "heads": list(heads),
        "choices": choices,
        "config": saved_settings(config),
    }
    return StoredPolicy(arrays, metadata)


def config_of(policy: StoredPolicy, where: str = "policy") -> NetworkConfig:
    """The settings of the network of a policy of kind "gnn". InputError naming `where` where it is another kind."""
    kind = policy.metadata["kind"]
    if kind != "gnn":
        raise InputError(f"{where}: kind: expected 'gnn', found {kind!r}")
    return _network_config(policy, where)


def _network_config(policy: StoredPolicy, where: str) -> NetworkConfig:
    """The settings of a policy's network."""
    meta = policy.metadata
    known = {f.name for f in fields(NetworkConfig)}
    if set(meta["config"]) | {"name"} != known:
        raise InputError(f"{where}: config: expected fields {sorted(known)}, found {sorted(meta['config'])}")
    try:
        return NetworkConfig(**meta["config"])
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: config: {error}") from error


def foreign_network(policy: StoredPolicy) -> str | None:
    """The network of a policy where it is code from outside the package and its dependencies; else None."""
    name = policy.metadata["config"].get("name", "")
    return name if policy.metadata["kind"] in ("gnn", RANKER) and refers(str(name)) else None


def flat_weights(policy: StoredPolicy, where: str = "policy") -> Weights:
    """The weights float32 [P] of a policy of kind "gnn", in the order of its format.

    Raises InputError naming `where` where it is of another kind or arrays and config disagree.
    """
    meta = policy.metadata
    try:
        weight_format = _weight_format(
            config_of(policy, where), meta["features"], len(meta["heads"]), meta["choices"]
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{where}: config: {error}") from error
    return vector_of(policy, weight_format, where)


def actor_of(policy: StoredPolicy, where: str = "policy") -> GraphUNet | PygActor:
    """The network of a policy of kind "gnn". InputError as `flat_weights`."""
    flat, meta = flat_weights(policy, where), policy.metadata
    actor = make_actor(config_of(policy, where), meta["features"], len(meta["heads"]), meta["choices"])
    assign(actor, flat)
    return actor


@lru_cache(maxsize=8)
def _weight_format(config: NetworkConfig, features: int, heads: int, choices: int) -> WeightFormat:
    return make_actor(config, features, heads, choices).weight_format


def _defect(metadata: Mapping[str, Any]) -> str | None:
    """What is wrong with metadata, or None."""
    for name, kind in _REQUIRED.items():
        value = metadata.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"{name}: expected {kind.__name__}, found {value!r}"
    if not all(isinstance(h, str) for h in metadata["heads"]):
        return f"heads: expected names, found {metadata['heads']!r}"
    for name in ("features", "choices"):
        if metadata[name] < 1:
            return f"{name}: expected at least 1, found {metadata[name]}"
    return None
