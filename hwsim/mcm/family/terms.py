"""The parameters of the family: what each multiplies, and how far a package may be off.

All terms that packages lack are generic: any chip has them. Nothing of the device model is read, neither the `[device]`
table of the package nor the simulator; where these terms begin is a share of what the analytical model knows.

Source: the prior is a choice of ours, written down here and in benchmarks/log/twin.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hwsim.family import Effects, Parameter
from hwsim.mcm.family.cost import Terms
from hwsim.mcm.network import Network, distinct_names
from hwsim.problem import Floats

EFFECTS = ("overhead", "moving", "serial", "latency", "copies", "handling")
"""Effects that chips have and the analytical model lacks: a launch before each node; a node's bytes have to pass
through its chip's memory, beside computing; the two do not overlap altogether; a message takes a latency on each link;
each reader gets a message of its own; and chips are busy with messages, too."""

CONSTANT, KIND, SHAPE, OWN, GENERIC_SPREAD = 0.4, 0.15, 0.15, 0.15, 1.0
CHIP = 0.03
KIND_MOVING = 0.1
LAUNCH_SHARE = 0.1
"""Where the effect is on: a launch, as a share of what computing a node takes in the mean …"""
MOVING_SHARE = 0.5
"""… what all moving takes together, as a share of what all computing takes …"""
WAITING = 0.1
"""… the shares of `serial` and `handling` …"""
LATENCY_SHARE = 0.1
"""… and of what a tensor takes on a link in the mean, where the package has no latency."""


class Layout:
    """Which rows of the raw terms each parameter moves: R raw terms, P parameters.

    The raw terms are, as `gradients` has them: compute [N], moving [N], launch, serial, rate, latency, handling, chips
    [C].

    Attributes:
        parameters: P of them.
        matrix: sparse float64 [R, P]: logarithm of each raw term's factor = matrix @ theta.
        kind: int64 [N], the kind of each node as a number in 0..K - 1.
        kinds: how many there are, K.
    """

    def __init__(self, network: Network, kinds: Sequence[str], hop_s: float) -> None:
        """`kinds` are the nodes', N of them; `hop_s` is the latency that the package has."""
        tables = network.tables
        self._network = network
        total_s, nodes = float(tables.compute_s.sum()), len(tables.compute_s)
        self._launch_s = LAUNCH_SHARE * total_s / nodes
        moved = float(network.moved_bytes.sum())
        self._moving_s = network.moved_bytes * (MOVING_SHARE * total_s / moved if moved > 0 else 0.0)
        self._latency_s = hop_s or (
            LATENCY_SHARE * float(tables.tensor_s.mean()) if len(tables.tensor_s) else 0.0
        )
        self.parameters: list[Parameter] = []
        self._rows: list[NDArray[np.int64]] = []
        names, self.kind = np.unique(np.array(kinds), return_inverse=True)
        self.kinds = len(names)
        self._add_constants(tables.chips, moved)
        self._add_kinds(names.tolist())
        self._add_nodes()
        sizes = [len(rows) for rows in self._rows]
        spread = np.repeat([p.spread for p in self.parameters], sizes)
        at = (np.concatenate(self._rows), np.repeat(np.arange(len(sizes)), sizes))
        self.matrix = sparse.csr_matrix((spread, at), shape=(2 * nodes + 5 + tables.chips, len(sizes)))

    def _add(self, rows: NDArray[np.int64] | list[int], parameter: Parameter) -> None:
        self._rows.append(np.asarray(rows, np.int64))
        self.parameters.append(parameter)

    def _add_constants(self, chips: int, moved: float) -> None:
        tables, nodes = self._network.tables, len(self.kind)
        self._add(np.arange(nodes), Parameter("compute", CONSTANT, 1.0, shared=True))
        rate = float(tables.tensor_bytes.sum() / max(float(tables.tensor_s.sum()), 1e-300))
        # More bandwidth is less time: the raw term is the time.
        inner = moved / max(float(self._moving_s.sum()), 1e-300)
        moving = Parameter(
            "moving", GENERIC_SPREAD, 1.0 / inner if inner > 0 else np.nan, "s/B", "moving", shared=True
        )
        self._add(nodes + np.arange(nodes), moving)
        terms = (
            Parameter("launch", GENERIC_SPREAD, self._launch_s, "s", "overhead", shared=True),
            Parameter("serial", GENERIC_SPREAD, WAITING, "", "serial", shared=True),
            Parameter("bandwidth of links", CONSTANT, rate, "B/s", shared=True),
            Parameter("latency of links", GENERIC_SPREAD, self._latency_s, "s", "latency", shared=True),
            Parameter("handling", GENERIC_SPREAD, WAITING, "", "handling", shared=True),
        )
        for at, parameter in enumerate(terms, 2 * nodes):
            self._add([at], parameter)
        for chip in range(chips):
            self._add([2 * nodes + 5 + chip], Parameter(f"time of chip {chip}", CHIP, 1.0))

    def _add_kinds(self, names: list[str]) -> None:
        nodes = len(self.kind)
        for number, name in enumerate(names):
            rows = np.flatnonzero(self.kind == number)
            self._add(rows, Parameter(f"compute of {name} ops", KIND, 1.0))
        for number, name in enumerate(names):
            rows = nodes + np.flatnonzero(self.kind == number)
            self._add(rows, Parameter(f"moving of {name} ops", KIND_MOVING, 1.0, "", "moving"))

    def _add_nodes(self) -> None:
        """Of nodes that are equal (a network repeats its layers), and of single ones."""
        network, names = self._network, distinct_names(self._network.graph.nodes)
        figures = np.stack(
            [self.kind, network.tables.weight_bytes, network.made_bytes, network.moved_bytes], axis=1
        )
        equal: dict[tuple[float, ...], list[int]] = {}
        for n, key in enumerate(zip(network.tables.compute_s.tolist(), *figures.T.tolist(), strict=True)):
            equal.setdefault(key, []).append(n)
        for alike in equal.values():
            if len(alike) > 1:
                self._add(alike, Parameter(f"compute of ops like {names[alike[0]]}", SHAPE, 1.0))
        for n in np.flatnonzero(network.tables.compute_s > 0).tolist():
            self._add([n], Parameter(f"compute {names[n]}", OWN, 1.0, own=True))

    def terms(self, effects: Effects, theta: Floats, residual: Floats | None) -> Terms:
        """What the kernels read of a model; `residual` is float64 [K C]."""
        factor = np.exp(np.clip(self.matrix @ theta, -20.0, 20.0))
        tables, nodes = self._network.tables, len(self.kind)
        compute_s = tables.compute_s * factor[:nodes]
        moving_s = self._moving_s * factor[nodes : 2 * nodes] * ("moving" in effects)
        launch, serial, rate, latency, handling = factor[2 * nodes : 2 * nodes + 5].tolist()
        launch_s = self._launch_s * launch if "overhead" in effects else 0.0
        serial = min(1.0, WAITING * serial) if "serial" in effects else 0.0
        computes = compute_s >= moving_s
        shorter = np.minimum(compute_s, moving_s)
        busy_share = WAITING * handling if "handling" in effects else 0.0
        shape = (self.kinds, tables.chips)
        return Terms(
            node_s=launch_s + np.maximum(compute_s, moving_s) + serial * shorter,
            by_compute=compute_s * np.where(computes, 1.0, serial),
            by_moving=moving_s * np.where(computes, serial, 1.0),
            by_serial=serial * shorter * (serial < 1.0),
            launch_s=launch_s,
            tensor_s=tables.tensor_s / rate,
            latency_s=self._latency_s * latency if "latency" in effects else 0.0,
            busy_share=1.0 if tables.transfers else busy_share,
            copies=int("copies" in effects),
            chip=factor[2 * nodes + 5 :].copy(),
            residual=np.zeros(shape) if residual is None else residual.reshape(shape),
            kind=self.kind,
        )
