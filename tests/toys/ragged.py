"""All that a problem needs: 7 nodes x 2 heads on a ring with a chord, 1 to 4 choices each, three decisions dead."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from hwsim.mappings import choice_columns
from hwsim.problem import About, Baseline, Evaluation, Floats, Keys, Mapping16, Observation, Violation
from hwsim.space import Space


class ToyRagged:
    """A cost of 1 + the prices of the choices + 0.5 wherever neighbours' last heads differ."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        num_choices = rng.integers(1, 5, (7, 2)).astype(np.int16)
        size_bytes = rng.integers(1, 100, (7, 2))
        size_bytes[[1, 3, 6], [0, 1, 0]] = 0
        self.about = About("toy-ragged", "toy", "none")
        self.space = Space([f"n{i}" for i in range(7)], ["h0", "h1"], num_choices, size_bytes=size_bytes)
        self._price = rng.random((7, 2, 4))
        initial = self.space.initial
        self.baseline = Baseline(initial, float(self.costs(initial[None])[0]), "initial")
        x = np.concatenate([rng.random((7, 3)), choice_columns(self.space.choice_rank, initial)], axis=1)
        edges = np.array([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 6, 3]], np.int64)
        self.observation = Observation(x.astype(np.float32), edges)

    def costs(self, mapping: Mapping16) -> Floats:
        """Float64 [B] of canonical mappings [B, 7, 2]."""
        n, h = np.nonzero(self.space.live)
        own = np.array([math.fsum(self._price[n, h, row[n, h]]) for row in mapping])
        return 1.0 + own + 0.5 * (np.diff(mapping[:, :, 1], axis=1) != 0).sum(axis=1)

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Everything runs."""
        self.space.check(mapping, key)
        settled, ran = self.space.canonical(mapping), np.ones(len(mapping), np.bool_)
        return Evaluation.of_costs(self.costs(settled), self.baseline.cost, ran, settled, np.zeros(len(ran)))

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Dead decisions that are not -1."""
        wrong = np.argwhere(~self.space.live & (mapping != -1))
        return [Violation("choice", f"n{n}", float(mapping[n, h]), -1.0, "") for n, h in wrong]

    def fingerprint(self) -> str:
        """Of the prices."""
        return hashlib.sha256(self._price.tobytes()).hexdigest()
