"""The family of models around an NNP-I chip file, as a `hwsim.family.Family`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hwsim.family import Effects, Family, Model, Parameter, PartTimes
from hwsim.jit import kernel
from hwsim.memory_moves import is_taken, move
from hwsim.nnpi.annealing import held_by
from hwsim.nnpi.family.cost import Tape, Terms, gradients, no_tape, predictions, seconds
from hwsim.nnpi.family.op_times import op_slopes
from hwsim.nnpi.family.terms import EFFECTS, Layout, access_s
from hwsim.nnpi.placer import DEFAULT_RULE, RULES, compile_map
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables, decisions
from hwsim.problem import Floats, Mapping16
from workloads.workload import Workload


@kernel
def anneal(
    tables: Tables,
    terms: Terms,
    start: Mapping16,
    tensors: NDArray[np.int64],
    steps: int,
    temperature: tuple[float, float],
    key: np.uint64,
) -> tuple[Mapping16, float]:
    """The best mapping int16 [N, 2] of an annealing from `start` [1, N, 2], and its modelled seconds.

    `temperature` is the first and the last, as shares of the cost; `tensors` int64 [K, 2] are the live decisions.
    """
    levels, ops = len(tables.capacity_bytes), start.shape[1]
    tape: Tape = no_tape(levels)
    traffic, accesses = np.zeros(levels), np.zeros(levels, np.int64)
    held, free = held_by(tables), np.zeros((levels, ops), np.int64)
    weights = tensors[np.nonzero(tensors[:, 1] == 0)[0]]
    current = rectify(tables, start)[0]
    cost = seconds(tables, terms, current[0], traffic, accesses, tape)
    best, best_cost = current.copy(), cost
    for step in range(steps):
        proposal = current.copy()
        if not move(held, current[0], proposal[0], tensors, weights, free, key, step):
            continue
        proposal = rectify(tables, proposal)[0]
        new = seconds(tables, terms, proposal[0], traffic, accesses, tape)
        if is_taken(cost, new, temperature, step, steps, key):
            current, cost = proposal, new
            if cost < best_cost:
                best, best_cost = current.copy(), cost
    return best[0], best_cost


COLD = 0.01
"""The last temperature of a local search, as a share of the first."""
LEAST_S = 1e-300
"""The least time of anything, so that its shares are defined."""


class NnpiFamily(Family):
    """See `hwsim.family.Family`; a place is (op, weight or activation, memory), F = 2 N L of them."""

    def __init__(self, tables: Tables, workload: Workload, memories: tuple[str, ...]) -> None:
        self._tables = tables
        self._layout = Layout(tables, workload, memories)
        sizes = np.stack([tables.weight_bytes, tables.activation_bytes], axis=1)
        self._tensors: NDArray[np.int64] = decisions(tables)
        moved = np.stack([tables.weight_read_bytes, tables.written_bytes], axis=1).astype(np.float64)
        np.add.at(moved[:, 1], tables.edge_source, tables.edge_bytes)
        there_s = moved[:, :, None] * tables.inverse_bandwidth + 2.0 * access_s(tables)
        place_s: Floats = np.where((sizes > 0)[:, :, None], there_s, 0.0)
        slowest = place_s[:, :, 0]
        self._weight: Floats = slowest / max(float(slowest.sum()), LEAST_S)
        # Shares of one cost for all mappings: shares of the measured ones would hold the noise of the measurement,
        # and a residual could explain it.
        self._usual = compile_map(tables, RULES[DEFAULT_RULE])[None]
        nominal = self._layout.terms(self.nominal, np.zeros(len(self.parameters)), np.zeros_like(place_s))
        self._share: Floats = place_s / self._usual_s(nominal)

    @property
    def parameters(self) -> Sequence[Parameter]:
        """Constants, then factors of kinds of op and of equal ops, then of single ops and tensors."""
        return self._layout.parameters

    @property
    def effects(self) -> Sequence[str]:
        """All that a chip file can have."""
        return EFFECTS

    @property
    def nominal(self) -> Effects:
        """Those that are on in the chip file."""
        return self._layout.nominal()

    def _usual_s(self, terms: Terms) -> float:
        """Seconds of the compiler's mapping."""
        return max(float(predictions(self._tables, terms, self._usual)[0]), LEAST_S)

    def _terms(self, model: Model) -> Terms:
        terms = self._layout.terms(model.effects, model.theta, np.zeros_like(self._share))
        if model.residual is None:
            return terms
        residual = model.residual.reshape(self._share.shape) * self._share
        return terms._replace(residual_s=residual * self._usual_s(terms))

    def predict(self, model: Model, mapping: Mapping16) -> Floats:
        """Seconds float64 [B] of valid canonical mappings int16 [B, N, 2]."""
        found: Floats = predictions(self._tables, self._terms(model), np.ascontiguousarray(mapping))
        return found

    def gradient(self, model: Model, mapping: Mapping16) -> tuple[Floats, Floats]:
        """Seconds float64 [B] without the residual, and d log seconds / d theta, float64 [B, P]."""
        terms = self._layout.terms(model.effects, model.theta, np.zeros_like(self._share))
        tape = Tape.empty(mapping.shape[1], self._share.shape[2])
        seconds, slope = gradients(self._tables, terms, np.ascontiguousarray(mapping), tape)
        return seconds, np.asarray((self._layout.matrix.T @ (slope / seconds[:, None]).T).T)

    def part_times(self, model: Model, mapping: Mapping16) -> PartTimes:
        """Seconds of each op, and their slopes as `hwsim.nnpi.family.op_times` has them."""
        batch, ops = mapping.shape[:2]
        terms = self._layout.terms(model.effects, model.theta, np.zeros_like(self._share))
        tape, spread = Tape.empty(ops, self._share.shape[2]), self._layout.common
        took_s, common = np.empty((batch, ops)), np.empty((batch, ops, spread.shape[1]))
        alone = np.empty((batch, self._layout.entry[-1]))
        rows = np.ascontiguousarray(mapping)
        op_slopes(self._tables, terms, rows, tape, spread, self._layout.entry, (took_s, common, alone))
        inverse = np.divide(1.0, took_s, out=np.zeros_like(took_s), where=took_s > 0)
        common *= inverse[:, :, None]
        alone *= np.repeat(inverse, np.diff(self._layout.entry), axis=1)
        return PartTimes(
            took_s,
            self._layout.columns,
            common.reshape(batch * ops, -1),
            self._layout.by_single(alone),
        )

    def places(self, mapping: Mapping16) -> Floats:
        """float64 [B, 2 N L]: the tensor's traffic where the mapping has it, as a share of the compiler's mapping."""
        there = mapping[:, :, :, None] == np.arange(self._share.shape[2])
        return np.asarray((there * self._share).reshape(len(mapping), -1))

    def distance(self, one: Mapping16, other: Mapping16) -> Floats:
        """float64 [A, B]: the share of the traffic, as the slowest memory takes it, whose tensors lie elsewhere."""
        levels = range(self._share.shape[2])
        weight = self._weight.reshape(-1)
        flat, to = one.reshape(len(one), -1), other.reshape(len(other), -1)
        same = sum(((flat == m) * weight) @ (to == m).T.astype(np.float64) for m in levels)
        return np.asarray(np.clip(1.0 - same, 0.0, 1.0))

    def improve(self, model: Model, start: Mapping16, *, steps: int, hot: float, key: int) -> Mapping16:
        """See `hwsim.family.Family.improve`."""
        if not len(self._tensors):
            return start
        first = np.ascontiguousarray(start)[None]
        limits = (hot, hot * COLD)
        found: Mapping16 = anneal(
            self._tables, self._terms(model), first, self._tensors, steps, limits, np.uint64(key)
        )[0]
        return found
