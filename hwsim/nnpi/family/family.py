"""The family of models around an NNP-I chip file, as a `hwsim.family.Family`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hwsim.family import Effects, Model, Parameter
from hwsim.nnpi.family.cost import Tape, Terms, predictions
from hwsim.nnpi.family.gradient import gradients
from hwsim.nnpi.family.improve import anneal
from hwsim.nnpi.family.terms import ACCESS_SHARE, EFFECTS, LAUNCH_S, Layout
from hwsim.nnpi.rules import RULES, compile_map
from hwsim.nnpi.tables import Tables
from hwsim.problem import Floats, Mapping16
from workloads.workload import Workload

COLD = 0.01
"""The last temperature of a local search, as a share of the first."""


class NnpiFamily:
    """See `hwsim.family.Family`; a place is (op, weight or activation, memory), F = 2 N L of them."""

    def __init__(self, tables: Tables, workload: Workload, memories: tuple[str, ...]) -> None:
        self._tables = tables
        self._layout = Layout(tables, workload, memories)
        sizes = np.stack([tables.weight_bytes, tables.activation_bytes], axis=1)
        self._tensors: NDArray[np.int64] = np.argwhere(sizes > 0)
        moved = np.stack([tables.weight_read_bytes, tables.written_bytes], axis=1).astype(np.float64)
        np.add.at(moved[:, 1], tables.edge_source, tables.edge_bytes)
        access_s = ACCESS_SHARE * (tables.launch_s or LAUNCH_S)
        there_s = moved[:, :, None] * tables.inverse_bandwidth + 2.0 * access_s
        self._place_s: Floats = np.where((sizes > 0)[:, :, None], there_s, 0.0)
        slowest = self._place_s[:, :, 0]
        self._weight: Floats = slowest / max(float(slowest.sum()), 1e-300)

    @property
    def parameters(self) -> Sequence[Parameter]:
        """Constants, then factors of kinds of op and of equal ops, then of single ops and tensors."""
        return self._layout.parameters

    @property
    def effects(self) -> Sequence[str]:
        """The chip file's, and three that it lacks."""
        return EFFECTS

    @property
    def nominal(self) -> Effects:
        """Those that are on in the chip file."""
        return self._layout.nominal()

    def _terms(self, model: Model) -> Terms:
        shape = self._place_s.shape
        at = np.zeros(shape) if model.residual is None else model.residual.reshape(shape) * self._place_s
        return self._layout.terms(model.effects, model.theta, at)

    def predict(self, model: Model, mapping: Mapping16) -> Floats:
        """Seconds float64 [B] of valid canonical mappings int16 [B, N, 2]."""
        found: Floats = predictions(self._tables, self._terms(model), np.ascontiguousarray(mapping))
        return found

    def gradient(self, model: Model, mapping: Mapping16) -> tuple[Floats, Floats]:
        """Seconds float64 [B] without the residual, and d log seconds / d theta, float64 [B, P]."""
        terms = self._layout.terms(model.effects, model.theta, np.zeros(self._place_s.shape))
        tape = Tape.empty(mapping.shape[1], self._place_s.shape[2])
        seconds, slope = gradients(self._tables, terms, np.ascontiguousarray(mapping), tape)
        return seconds, np.asarray((self._layout.matrix.T @ (slope / seconds[:, None]).T).T)

    def places(self, mapping: Mapping16) -> Floats:
        """float64 [B, 2 N L]: seconds of the tensor's traffic in the memory where the mapping has it."""
        there = mapping[:, :, :, None] == np.arange(self._place_s.shape[2])
        return np.asarray((there * self._place_s).reshape(len(mapping), -1))

    def distance(self, one: Mapping16, other: Mapping16) -> Floats:
        """float64 [A, B]: the share of the traffic, as the slowest memory takes it, whose tensors lie elsewhere."""
        levels = range(self._place_s.shape[2])
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

    def first(self) -> Mapping[str, Mapping16]:
        """What each of the compiler's rules makes of the workload."""
        return {name: compile_map(self._tables, rule) for name, rule in RULES.items()}
