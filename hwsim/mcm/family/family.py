"""The family of models around the analytical model of a package, as a `hwsim.family.Family` with limits.

A fitted package: each fitted rate with its 90 % interval and the rate before.

A package has a place for the rate of its chips and of its links; for launches, moving, messages that keep chips busy
and what chips or kinds of op have of their own it has none.

The parameters of the family: what each multiplies, and how far a package may be off.

All terms that packages lack are generic: any chip has them. Nothing of the device model is read, neither the `[device]`
table of the package nor the simulator; where these terms begin is a share of what the analytical model knows.

Source: the prior is a choice of ours, written down here and in benchmarks/log/twin.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hwsim.family import Effects, Estimate, Family, Model, Parameter
from hwsim.mcm.cuts import best_cuts
from hwsim.mcm.family.cost import MemoryLimits, Terms, gradients, held, loads, needed, predictions
from hwsim.mcm.family.improve import COLD, MOST_CUT_WORK, ROOM, anneal, value
from hwsim.mcm.network import Network, distinct_names
from hwsim.mcm.package import Package, package_file, parse_package
from hwsim.problem import Floats, Mapping16
from hwsim.stages import Pipeline


class McmFamily(Family):
    """See `hwsim.family.Family`; a place is (kind of op, chip), F = K C of them."""

    def __init__(self, network: Network, hop_s: float) -> None:
        """`hop_s` is the package's latency of a hop."""
        self._network, self._tables = network, network.tables
        self._neighbours = Pipeline(self._tables.compute_s, self._tables.edges.T).neighbours
        self._layout = Layout(network, network.kinds, hop_s)
        work = self._tables.compute_s / self._tables.compute_s.sum()
        held = self._tables.weight_bytes / max(1, int(self._tables.weight_bytes.sum()))
        self._weight: Floats = (work + held) / (work + held).sum()
        self._limits = MemoryLimits.prior(self._tables, network.made_bytes)

    @property
    def parameters(self) -> Sequence[Parameter]:
        """Constants and chips, then factors of kinds of op and of equal ops, then of single ops."""
        return self._layout.parameters

    @property
    def effects(self) -> Sequence[str]:
        """All of them are such as the analytical model lacks."""
        return EFFECTS

    @property
    def nominal(self) -> Effects:
        """None."""
        return frozenset()

    def _terms(self, model: Model) -> Terms:
        return self._layout.terms(model.effects, model.theta, model.residual)

    def predict(self, model: Model, mapping: Mapping16) -> Floats:
        """Seconds per sample float64 [B] of valid mappings int16 [B, N, 1]."""
        found: Floats = predictions(self._tables, self._terms(model), _flat(mapping))
        return found

    def gradient(self, model: Model, mapping: Mapping16) -> tuple[Floats, Floats]:
        """Seconds float64 [B] without the residual, and d log seconds / d theta, float64 [B, P]."""
        terms = self._layout.terms(model.effects, model.theta, None)
        seconds, slope = gradients(self._tables, terms, _flat(mapping))
        return seconds, np.asarray((self._layout.matrix.T @ (slope / seconds[:, None]).T).T)

    def places(self, mapping: Mapping16) -> Floats:
        """float64 [B, K C]: the share of the nodes of a kind in what the busiest chip of the analytical model takes."""
        terms = self._layout.terms(frozenset(), np.zeros(len(self.parameters)), None)
        found = loads(self._tables, terms, _flat(mapping)).reshape(len(mapping), -1)
        return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-300))

    def distance(self, one: Mapping16, other: Mapping16) -> Floats:
        """float64 [A, B]: the share of the nodes that are elsewhere, by their work and their weights."""
        same = np.zeros((len(one), len(other)))
        for chip in range(self._tables.chips):
            same += ((one[:, :, 0] == chip) * self._weight) @ (other[:, :, 0] == chip).T.astype(np.float64)
        return np.asarray(np.clip(1.0 - same, 0.0, 1.0))

    def improve(self, model: Model, start: Mapping16, *, steps: int, hot: float, key: int) -> Mapping16:
        """See `hwsim.family.Family.improve`; from the model's best cuts where it likes them better than `start`."""
        terms = self._terms(model)
        limit = self._limits.mode() if model.limit is None else model.limit
        begin = np.ascontiguousarray(start[:, 0])
        draft = self._draft(terms, limit)
        if draft is not None and self._value(terms, limit, draft) < self._value(terms, limit, begin):
            begin = draft
        found: NDArray[np.int16] = anneal(
            self._tables,
            terms,
            self._network.made_bytes,
            np.exp(limit),
            self._neighbours,
            begin,
            steps,
            (hot, hot * COLD),
            np.uint64(key),
        )[0]
        return found[:, None]

    def _value(self, terms: Terms, limit: Floats, place: NDArray[np.int16]) -> float:
        chip_s, link_s = np.empty(self._tables.chips), np.empty(self._tables.chips)
        found = value(self._tables, terms, self._network.made_bytes, np.exp(limit), place, chip_s, link_s)
        return float(found[3])

    def _draft(self, terms: Terms, limit: Floats) -> NDArray[np.int16] | None:
        """The best cuts, int16 [N], of those that leave chips memory: those with the most for weights."""
        tables, least = self._tables, None
        if tables.chips * len(tables.compute_s) ** 2 > MOST_CUT_WORK:
            return None
        known = tables._replace(compute_s=terms.node_s, tensor_s=terms.tensor_s)
        for room in ROOM if tables.capacity >= 0 else ROOM[:1]:
            found = best_cuts(
                known._replace(capacity=int(room * tables.capacity) if tables.capacity >= 0 else -1)
            )
            if found is None:
                break
            least = found
            need = needed(held(tables, self._network.made_bytes, found[None])[0], limit)
            if tables.capacity < 0 or need.max() <= tables.capacity:
                break
        return least

    def limits(self, ran: Mapping16, failed: Mapping16) -> MemoryLimits:
        """The belief about the memory that chips need; see `hwsim.family.Family.limits`."""
        return self._limits.given(ran, failed)


def _flat(mapping: Mapping16) -> NDArray[np.int16]:
    return np.ascontiguousarray(mapping[:, :, 0])


def fitted(package: Package, estimates: Mapping[str, Estimate], name: str) -> tuple[Package, str]:
    """The package so described, and its file.

    Raises:
        InputError: the name is none for a package.
    """
    notes = {}
    peak_ops, bandwidth_Bps = package.chip.peak_ops, package.link.bandwidth_Bps
    if (compute := estimates.get("compute")) is not None:  # of times: a rate is over it
        slower = Estimate(1 / compute.factor, 1 / compute.high, 1 / compute.low)
        peak_ops, notes["peak_ops"] = _value(peak_ops, slower)
    if (link := estimates.get("bandwidth of links")) is not None:
        bandwidth_Bps, notes["bandwidth_Bps"] = _value(bandwidth_Bps, link)
    found = replace(
        package,
        name=name,
        prediction={},
        chip=replace(package.chip, peak_ops=peak_ops),
        link=replace(package.link, bandwidth_Bps=bandwidth_Bps),
    )
    lines = package_file(found).splitlines()
    noted = [f"{line}  # {notes[key]}" if (key := line.split(" = ")[0]) in notes else line for line in lines]
    title = f"# {package.name}, fitted to measurements. After a value: before; the 90 % interval."
    text = "\n".join([title, *noted]) + "\n"
    return parse_package(text, f"{name}.toml"), text


def _value(before: float, found: Estimate) -> tuple[float, str]:
    """The fitted value, and what is noted beside it."""
    note = f"{before:.4g} before; {before * found.low:.4g} to {before * found.high:.4g}"
    return float(f"{before * found.factor:.5g}"), note


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
        """Adds a parameter per group of equal nodes (a network repeats its layers), and per single node."""
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
