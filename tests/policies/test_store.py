"""Policies on disk."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from policies_toys import CHOICES, FEATURES, HEADS, SMALL, actor

from policies.network import NetworkConfig
from policies.ranker import Rankers
from policies.store import (
    RANKER,
    actor_of,
    actor_policy,
    check_network,
    load_policy,
    ranker_policy,
    save_policy,
)
from policies.weight_vector import flatten
from workloads.errors import InputError

NAMES = ("weight", "activation")
FIELDS: dict[str, Any] = {
    "kind": "gnn",
    "feature_schema": 1,
    "features": FEATURES,
    "heads": NAMES,
    "choices": CHOICES,
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    policy = actor_policy(
        flatten(actor(3)),
        SMALL,
        features=FEATURES,
        heads=NAMES,
        choices=CHOICES,
        feature_schema=1,
        workload="bert",
        generation=7,
    )
    path = tmp_path / "policy.safetensors"
    save_policy(path, policy.weights, policy.metadata)
    return path


def test_an_actor_comes_back_with_its_weights_and_its_story(saved):
    policy = load_policy(saved)
    assert {name: policy.metadata[name] for name in FIELDS} == FIELDS | {"heads": list(NAMES)}
    assert np.array_equal(flatten(actor_of(policy)), flatten(actor(3)))
    assert (policy.metadata["workload"], policy.metadata["generation"]) == ("bert", 7)
    assert actor_of(policy).heads == HEADS


def rewrite(path: Path, change) -> None:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = json.loads(header["__metadata__"]["egrl_policy"])
    header["__metadata__"]["egrl_policy"] = json.dumps(change(metadata))
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def test_another_version_is_refused(saved):
    rewrite(saved, lambda m: {**m, "version": 99})
    with pytest.raises(InputError, match="version: expected 1, found 99"):
        load_policy(saved)


@pytest.mark.parametrize("change", [{"heads": 3}, {"config": None}, {"features": True}, {"choices": 0}])
def test_metadata_of_the_wrong_type_is_refused(saved, change):
    rewrite(saved, lambda m: {**m, **change})
    with pytest.raises(InputError, match=f"{next(iter(change))}: expected"):
        load_policy(saved)


def test_metadata_that_is_no_object_is_refused(saved):
    rewrite(saved, lambda m: [m])
    with pytest.raises(InputError, match="version: expected 1"):
        load_policy(saved)


@pytest.mark.parametrize("length", [0, 4, 8, 100, -1])
def test_a_truncated_file_is_refused(saved, length):
    saved.write_bytes(saved.read_bytes()[:length])
    with pytest.raises(InputError, match="expected a policy file, found something else or a damaged one"):
        load_policy(saved)


def test_a_file_of_something_else_and_a_missing_file_are_refused(tmp_path):
    other = tmp_path / "other.safetensors"
    other.write_bytes(b"PK\x03\x04" + bytes(200))
    with pytest.raises(InputError, match="expected a policy file, found something else or a damaged one"):
        load_policy(other)
    with pytest.raises(InputError, match="expected a policy file: No such file"):
        load_policy(tmp_path / "missing")


def test_of_a_folder_the_policy_files_in_it_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found a folder; no policy file is in it"):
        load_policy(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "gen-7.safetensors").touch()
    with pytest.raises(InputError, match=r"policy files in it: policies/gen-7\.safetensors"):
        load_policy(tmp_path)


def test_weights_that_are_not_finite_are_refused(saved):
    policy = load_policy(saved)
    broken = {**policy.weights, "decide.bias": np.full(6, np.nan, dtype=np.float32)}
    save_policy(saved, broken, policy.metadata)
    with pytest.raises(InputError, match=r"decide\.bias: expected finite values"):
        load_policy(saved)


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({"depth": 1}, "config: expected fields"),
        ({"width": -8}, "config: width: expected"),
        ({"width": 32}, "shape"),
    ],
)
def test_weights_and_settings_that_disagree_are_refused(saved, config, names):
    policy = load_policy(saved)
    whole = dict(policy.metadata["config"])
    merged = config if "depth" in config else {**whole, **config}
    save_policy(saved, policy.weights, {**policy.metadata, "config": merged})
    with pytest.raises(InputError, match=names):
        actor_of(load_policy(saved), str(saved))


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(saved):
    before = saved.read_bytes()
    policy = load_policy(saved)
    with pytest.raises(ValueError):
        save_policy(saved, policy.weights, {**policy.metadata, "note": float("nan")})
    with pytest.raises(ValueError, match="metadata: features"):
        save_policy(saved, policy.weights, {**policy.metadata, "features": None})
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_policy_of_a_methods_own_kind_keeps_its_arrays(tmp_path):
    path = tmp_path / "own.safetensors"
    prior = np.random.default_rng(0).random((4, 2, 3), dtype=np.float32)
    meta = {**FIELDS, "kind": "boltzmann", "config": {}, "seed": 3}
    save_policy(path, {"prior": prior}, meta)
    policy = load_policy(path)
    assert np.array_equal(policy.weights["prior"], prior)
    with pytest.raises(InputError, match="kind: expected 'gnn', found 'boltzmann'"):
        actor_of(policy)


def test_of_a_linear_rule_the_settings_of_networks_over_the_graph_do_not_matter():
    rankers = Rankers(NetworkConfig(name="linear", depth=1, width=16, attention_heads=2), ("one", "size"), 2)
    weights = np.zeros(rankers.weight_format.size, np.float32)
    policy = ranker_policy(weights, rankers, heads=("weight", "activation"), choices=CHOICES)
    check_network(policy, RANKER, vars(NetworkConfig(name="linear")), "--init")
    with pytest.raises(InputError, match=r"--init: network\.name: expected 'context'"):
        check_network(policy, RANKER, vars(NetworkConfig(name="context")), "--init")
