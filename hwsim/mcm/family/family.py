"""The family of models around the analytical model of a package, as a `hwsim.family.Family` with limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hwsim.family import Effects, Family, Model, Parameter
from hwsim.mcm.cuts import best_cuts, greedy
from hwsim.mcm.family.cost import MemoryLimits, Terms, gradients, held, loads, needed, predictions
from hwsim.mcm.family.improve import COLD, MOST_CUT_WORK, anneal, value
from hwsim.mcm.family.terms import EFFECTS, Layout
from hwsim.mcm.network import Network
from hwsim.mcm.rules import misplaced_nodes
from hwsim.problem import Floats, Mapping16
from hwsim.stages import Pipeline

ROOM = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8)
"""Shares of a chip's memory that the weights of a draft may take, tried in turn."""
RULES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Shares of the memory that weights may take by the compiler's rule."""


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

    def first(self) -> Mapping[str, Mapping16]:
        """The compiler's rule and the cheapest cuts, with ever less memory for weights, if they are valid."""
        tables = self._tables
        found = {f"greedy {fill:g}": greedy(tables, fill) for fill in RULES}
        if tables.chips * len(tables.compute_s) ** 2 <= MOST_CUT_WORK:
            for room in ROOM if tables.capacity >= 0 else ():
                cut = best_cuts(tables._replace(capacity=int(room * tables.capacity)))
                if cut is None:
                    break
                found[f"cuts {room:g}"] = cut
        return {
            name: place[:, None]
            for name, place in found.items()
            if not misplaced_nodes(tables, place[None]).any()
        }

    def limits(self, ran: Mapping16, failed: Mapping16) -> MemoryLimits:
        """The belief about the memory that chips need; see `hwsim.family.Family.limits`."""
        return self._limits.given(ran, failed)


def _flat(mapping: Mapping16) -> NDArray[np.int16]:
    return np.ascontiguousarray(mapping[:, :, 0])
