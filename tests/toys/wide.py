"""Very many nodes, one of them with very many choices: what a plain problem takes must not grow with these."""

from __future__ import annotations

import hashlib

import numpy as np

from hwsim.problem import About, Baseline, Evaluation, Floats, Keys, Mapping16, Violation
from hwsim.space import Space

NODES, MOST = 20_000, 800


class ToyWide:
    """A cost of 1 + the mean number of the choices; all nodes have 3, but for one with 800."""

    def __init__(self) -> None:
        num_choices = np.full((NODES, 1), 3, np.int16)
        num_choices[NODES // 2] = MOST
        self.about = About("toy-wide", "toy", "none")
        self.space = Space([f"n{i}" for i in range(NODES)], ["h0"], num_choices)
        first = self.space.initial
        self.baseline = Baseline(first, float(self._costs(first[None])[0]), "initial")

    def _costs(self, mapping: Mapping16) -> Floats:
        return 1.0 + mapping.mean(axis=(1, 2))

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        self.space.check(mapping, key)
        settled, ran = self.space.canonical(mapping), np.ones(len(mapping), np.bool_)
        return Evaluation.of_costs(self._costs(settled), self.baseline.cost, ran, settled, np.zeros(len(ran)))

    def judge(self, mapping: Mapping16) -> list[Violation]:
        return []

    def fingerprint(self) -> str:
        return hashlib.sha256(b"toy-wide").hexdigest()
