"""The critic of SAC over rankings: what a placed mapping costs, learned from what anyone proposed and ran.

    log cost(mapping) ~ w . phi(mapping),   phi: for each decision and memory the sum of the features of what lies there

Source: Bayesian linear regression as in Bishop, "Pattern recognition and machine learning" (2006), sections 3.3 and
3.5: the size of the weights and of the noise by evidence. Features are those that the networks see, and those in
`PLAIN` also as they are, without the logarithm, since what they say adds up.

The noise grows with the distance from the best cost: a straight line is right in one region only, and that one is to be
where the best mappings are. One parameter per tensor, or ensembles of graph networks, were no better and slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from hwsim.problem import Floats, Mapping16
from policies.places import Places

PLAIN = ("saved_of_mean", "gain_alone", "relief", "relief_small")
ROWS = 4096
"""Mappings that it learns from, the latest; at least `MIN_ROWS`."""
MIN_ROWS = 20
WORST = 0.5
"""A log cost that is higher than the least one by more counts as by this."""
WEIGHTS, NOISES = (1.0, 3.0), (1e-3, 1e-2, 1e-1)
"""Variances that are tried, over that of the costs: of all weights together, and of the noise."""


class _Fit(NamedTuple):
    """What was learned: the precision's factor float64 [D, D], weights [D], and how inputs and costs are scaled."""

    factor: Floats
    weights: Floats
    mean: Floats
    scale: Floats
    middle: float
    spread: float


class PlacementCritic:
    """See the module; D inputs."""

    def __init__(self, places: Places, names: Sequence[str]) -> None:
        """For what ranking networks see of a problem, features of these names."""
        features = places.features.astype(np.float64)
        plain = [2.0 ** (4 * features[:, :, names.index(name)]) for name in PLAIN if name in names]
        tensors = len(places.node)
        self._places = places
        self._features = np.concatenate([features, *(each[:, :, None] / tensors for each in plain)], axis=2)
        self._rows = [np.flatnonzero(places.head == head) for head in range(places.shape[1])]
        self._inputs = np.zeros((0, self._size), np.float32)
        self._cost = np.zeros(0)
        self._fit: _Fit | None = None

    @property
    def _size(self) -> int:
        _, levels, features = self._features.shape
        return len(self._rows) * (levels - 1) * features

    @property
    def ready(self) -> bool:
        """True if it has seen enough."""
        return len(self._cost) >= MIN_ROWS

    def inputs(self, mapping: Mapping16) -> NDArray[np.float32]:
        """phi, float32 [B, D], of mappings int16 [B, N, H]."""
        places, levels = self._places, self._features.shape[1]
        level = mapping[:, places.node, places.head] + places.offset
        parts = [
            (level[:, rows] == memory).astype(np.float64) @ self._features[rows, memory]
            for rows in self._rows
            for memory in range(1, levels)
        ]
        return (
            np.concatenate(parts, axis=1).astype(np.float32)
            if parts
            else np.zeros((len(mapping), 0), np.float32)
        )

    def add(self, mapping: Mapping16, log_cost: Floats) -> None:
        """Learn from mappings int16 [B, N, H] and their log costs [B]."""
        self._inputs = np.concatenate([self._inputs, self.inputs(mapping)])[-ROWS:]
        self._cost = np.concatenate([self._cost, log_cost])[-ROWS:]
        self._fit = None

    def judge(self, mapping: Mapping16) -> tuple[Floats, Floats]:
        """Mean and standard deviation, float64 [B], of what mappings int16 [B, N, H] cost (logarithms)."""
        if self._fit is None:
            self._fit = self._fitted()
        fit = self._fit
        x = (self.inputs(mapping) - fit.mean) * fit.scale
        x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        deviation = np.linalg.norm(solve_triangular(fit.factor, x.T, lower=True), axis=0)
        return fit.middle + fit.spread * (x @ fit.weights), fit.spread * deviation

    def _fitted(self) -> _Fit:
        """By evidence the best of the variances in `WEIGHTS` and `NOISES`."""
        mean, deviation = (
            self._inputs.mean(axis=0, dtype=np.float64),
            self._inputs.std(axis=0, dtype=np.float64),
        )
        # An input that never differed says nothing.
        scale = np.where(deviation > 1e-6, 1 / np.maximum(deviation, 1e-6), 0.0) / np.sqrt(max(self._size, 1))
        x = np.concatenate([(self._inputs - mean) * scale, np.ones((len(self._cost), 1))], axis=1)
        cost = np.minimum(self._cost, self._cost.min() + WORST)
        middle, spread = float(np.median(cost)), max(float(cost.std()), 1e-4)
        z, far = (cost - middle) / spread, (cost - cost.min()) / spread
        best, found = -np.inf, None
        for noise in NOISES:
            weight = 1 / (noise * (0.1 + far**2 / 4) + 1e-6)
            gram, moment = x.T @ (weight[:, None] * x), x.T @ (weight * z)
            for variance in WEIGHTS:
                prior = np.append(np.full(self._size, 1 / variance), 1.0)
                factor = cholesky(gram + np.diag(prior), lower=True)
                weights = cho_solve((factor, True), moment)
                evidence = 0.5 * (
                    np.log(weight).sum() + np.log(prior).sum() - weight @ z**2 + moment @ weights
                ) - float(np.log(np.diag(factor)).sum())
                if evidence > best:
                    best, found = evidence, _Fit(factor, weights, mean, scale, middle, spread)
        assert found is not None
        return found

    def state_dict(self) -> dict[str, Any]:
        """What it has learned from."""
        return {"inputs": self._inputs, "cost": self._cost}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._inputs, self._cost, self._fit = np.array(state["inputs"]), np.array(state["cost"]), None
