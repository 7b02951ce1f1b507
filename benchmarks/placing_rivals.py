"""Rivals of ranking networks with the same moves: the scores of one problem's tensors, without a network behind them.

`--method benchmarks.placing_rivals:CMA_ON_SCORES`: CMA-ES (DEAP's) moves all scores.
`--method benchmarks.placing_rivals:ANNEALING_ON_SCORES`: noise on the scores of a few tensors, taken or not by the
temperature. Both begin with the scores of the first rule that ships, brought to a mean square of 1, and go through the
problem's placer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from deap import cma
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.archive import Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from egrl.methods import policy_fit
from egrl.methods.rank.method import needs_placer
from hwsim.capabilities import HasPlacer
from hwsim.problem import Evaluation
from policies import shipped
from policies.context import of_unit_size
from policies.network import LINEAR, NetworkConfig
from policies.ranker import Rankers, by_hand
from population.operators import global_random

STATE = ("centroid", "sigma", "pc", "ps", "C", "diagD", "B", "BD", "update_count")
"""What `deap.cma.Strategy` changes."""


@dataclass(frozen=True)
class ScoresConfig:
    """Settings of both."""

    sigma: Annotated[float, Doc("first step size of CMA-ES, on scores of size 1")] = 0.3
    children: Annotated[int, Doc("mappings per generation of CMA-ES")] = 20
    moved: Annotated[int, Doc("tensors that an annealing step moves")] = 4
    moved_by: Annotated[float, Doc("standard deviation of the noise on their scores, which have size 1")] = (
        1.0
    )
    t0: Annotated[float, Doc("first temperature, in log cost; it falls as 1 / step")] = 0.003


class _OnScores(Method):
    """Scores float64 [T, L - 1] to begin with, and their mappings."""

    def __init__(self, context: Context, config: ScoresConfig) -> None:
        problem = context.problems[0]
        assert isinstance(problem, HasPlacer)
        self._config, self._placer, places = config, problem.placer, policy_fit.places_of(problem)
        names, heads = problem.placer.feature_names, len(problem.space.heads)
        rule = [*shipped.rules(names, heads), by_hand(names, heads)][0]
        scores, share = Rankers(NetworkConfig(name=LINEAR), names, heads).scores(rule[None], places)
        self._free = float(share[0])
        self._first = of_unit_size(scores[0])[:, 1:].astype(np.float64)
        self._context, self._rounds = context, 0

    def _next_rng(self) -> np.random.Generator:
        """Of the next round; its number is part of the state."""
        self._rounds += 1
        return self._context.generator(f"scores {self._rounds}")

    def _placed(self, scores: NDArray[np.float64]) -> Proposals:
        """Of scores [B, T, L - 1]."""
        all_ = np.zeros((*scores.shape[:2], scores.shape[2] + 1), np.float32)
        all_[:, :, 1:] = scores
        return proposals(self._placer.place(all_, np.full(len(scores), self._free)), "network")


class _Scores(np.ndarray):
    fitness: Any


class CmaOnScores(_OnScores):
    """See the module."""

    def __init__(self, context: Context, config: ScoresConfig) -> None:
        super().__init__(context, config)
        self._strategy = cma.Strategy(self._first.reshape(-1), config.sigma, lambda_=config.children)
        self._drawn: list[_Scores] = []

    def ask(self) -> Proposals:
        with global_random(self._next_rng()):
            self._drawn = [drawn.view(_Scores) for drawn in self._strategy.generate(np.asarray)]
        return self._placed(np.stack(self._drawn).reshape(-1, *self._first.shape))

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        if len(proposals) != len(self._drawn):
            return  # the start
        cost = np.where(evaluation.usable, evaluation.cost, np.inf)
        for drawn, own in zip(self._drawn, cost.tolist(), strict=True):
            drawn.fitness = -own
        self._strategy.update(self._drawn)

    def state_dict(self) -> dict[str, Any]:
        strategy = {name: getattr(self._strategy, name) for name in STATE}
        return {
            "rounds": self._rounds,
            "strategy": strategy,
            "drawn": [np.asarray(drawn) for drawn in self._drawn],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rounds = int(state["rounds"])
        for name, value in state["strategy"].items():
            setattr(self._strategy, name, value)
        self._drawn = [drawn.view(_Scores) for drawn in state["drawn"]]


class AnnealingOnScores(_OnScores):
    """See the module."""

    def __init__(self, context: Context, config: ScoresConfig) -> None:
        super().__init__(context, config)
        self._at, self._cost, self._next = self._first, np.inf, self._first
        self._steps, self._chance = 0, 0.0

    def ask(self) -> Proposals:
        if self._steps:
            rng = self._next_rng()
            rows = rng.integers(len(self._at), size=self._config.moved)
            self._next, self._chance = self._at.copy(), float(rng.random())
            self._next[rows] += self._config.moved_by * rng.standard_normal((len(rows), self._at.shape[1]))
        return self._placed(self._next[None])

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        if "network" not in proposals.source:
            return
        self._steps += 1
        cost = float(evaluation.cost[0]) if evaluation.usable[0] else np.inf
        worse = np.log(cost / self._cost) if np.isfinite(self._cost) else -1.0
        if worse <= 0 or self._chance < np.exp(-worse * self._steps / self._config.t0):
            self._at, self._cost = self._next, cost

    def state_dict(self) -> dict[str, Any]:
        names = ("_at", "_cost", "_next", "_steps", "_chance", "_rounds")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


CMA_ON_SCORES = MethodDefinition(ScoresConfig, CmaOnScores, needs_placer, {})
ANNEALING_ON_SCORES = MethodDefinition(ScoresConfig, AnnealingOnScores, needs_placer, {})
