"""Rankings that come with the package: they were trained on other networks and chips.

A file of rules is a table: a row per rule, the best alone first, each the best addition to those before it; a column
per coefficient (decision, end, feature) and one for the share that stays free. Numbers are float32. A network is a
policy file (`policies.store`) of the kind that needs no torch, "context".
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import blake2b
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from policies.network import LINEAR, NetworkConfig
from policies.places import Floats, Places
from policies.ranker import Rankers
from policies.weight_vector import Weights

FOLDER = "rules"
SHIPPED = "shipped"
"""In the place of a policy file: the network that ships."""
FIELD = "egrl_policy"
"""Where a policy file keeps its metadata, as JSON."""


class ShippedNetwork(NamedTuple):
    """A trained network and what evaluates it."""

    rankers: Rankers
    weights: Weights

    @property
    def name(self) -> str:
        """The name of its score as a feature: "network-" and a digest of the weights."""
        return f"network-{blake2b(self.weights.tobytes(), digest_size=4).hexdigest()}"


def policy_file(given: str) -> Path:
    """The policy file of a path, or of the word `SHIPPED`."""
    return (
        Path(str(resources.files("policies") / FOLDER / "nnpi.safetensors"))
        if given == SHIPPED
        else Path(given)
    )


def _files(ending: str) -> list[bytes]:
    files = [file for file in (resources.files("policies") / FOLDER).iterdir() if file.name.endswith(ending)]
    return [file.read_bytes() for file in sorted(files, key=lambda file: file.name)]


@cache
def _documents() -> list[dict[str, Any]]:
    return [json.loads(data) for data in _files(".json")]


def rules(names: tuple[str, ...], heads: int) -> list[Weights]:
    """The rules float32 [2 H F + 1] for features of these names and H decisions; empty if none are shipped."""
    for found in _documents():
        if tuple(found["features"]) == names and found["heads"] == heads:
            return [np.array(row, np.float32) for row in found["rules"]]
    return []


def scored_by_rules(names: tuple[str, ...], places: Places) -> tuple[Floats, NDArray[np.float64]] | None:
    """Scores float32 [K, T, L] and shares that stay free [K] of the rules for features of these names; None without."""
    found = rules(names, places.shape[1])
    if not found:
        return None
    return Rankers(NetworkConfig(name=LINEAR), names, places.shape[1]).scores(np.stack(found), places)


@cache
def network(names: tuple[str, ...], heads: int) -> ShippedNetwork | None:
    """The network for features of these names and H decisions; None if none is shipped."""
    for data in _files(".safetensors"):
        meta = metadata_of(data)
        if tuple(meta["feature_names"]) == names and len(meta["heads"]) == heads:
            arrays = load(data)
            rankers = Rankers(NetworkConfig(**meta["config"]), names, heads)
            parts = [arrays[segment.name].reshape(-1) for segment in rankers.weight_format.segments]
            return ShippedNetwork(rankers, np.concatenate(parts).astype(np.float32))
    return None


def metadata_of(data: bytes) -> Any:
    """The metadata of a policy file, whose head is JSON after its length in 8 bytes; needs no torch.

    Raises KeyError, TypeError or ValueError where there is none.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 + length:
        raise ValueError(f"expected a header of {length} bytes, found {max(0, len(data) - 8)}")
    return json.loads(json.loads(data[8 : 8 + length])["__metadata__"][FIELD])
