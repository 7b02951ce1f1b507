"""CMA-ES for networks with few weights, in the place of the walk.

Source: Hansen and Ostermeier, "Completely derandomized self-adaptation in evolution strategies" (2001), as DEAP has it
(`deap.cma.Strategy`), with as many children as there are networks in the population.

It begins at the best of the networks that were measured before (*scouts*: those that the population began with, and the
learner's). Its first covariance is that of the networks that the population began with, if there are enough of them:
how good policies of other networks and chips differ says in which directions to search. After `patience` evaluations
without a better network it begins again at the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from deap import cma
from numpy.typing import NDArray
from typing_extensions import Doc

from policies.weight_vector import Weights
from population.genome import Child, Individual, Network
from population.operators import global_random
from population.walk import MARGIN

MOST_WEIGHTS = 1000
"""The largest number of weights that CMA-ES moves: its time per generation grows with the cube."""
MIN_NETWORKS = 8
"""Number of networks below which no covariance is estimated."""
OWN_SHARE = 0.5
"""Share of that covariance; the rest is the same in all directions, in which so few networks say nothing."""
STATE = ("centroid", "sigma", "pc", "ps", "C", "diagD", "B", "BD", "update_count")
"""What `deap.cma.Strategy` changes."""


@dataclass(frozen=True)
class CmaConfig:
    """Settings of CMA-ES (own choices)."""

    sigma: Annotated[float, Doc("first step size, relative to the spread of the weights begun with")] = 0.3
    patience: Annotated[int, Doc("evaluations without a better network after which it begins again")] = 500

    def __post_init__(self) -> None:
        if not 0 < self.sigma < 100:
            raise ValueError(f"sigma: expected more than 0 and less than 100, received {self.sigma}")
        if self.patience < 1:
            raise ValueError(f"patience: expected at least 1, received {self.patience}")


def covariance(weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """The covariance float64 [P, P] to begin with, of networks [K, P]; the identity times 1/4 of too few of them."""
    size = weights.shape[1]
    if len(weights) < MIN_NETWORKS:
        return np.eye(size) / 4
    own = np.cov(weights.T.astype(np.float64), bias=True)
    return np.asarray(OWN_SHARE * own + (1 - OWN_SHARE) * np.trace(own) / size * np.eye(size))


class _Vector(np.ndarray):
    """Weights with the fitness that DEAP sorts by."""

    fitness: Any


class Cma:
    """The networks of a population under CMA-ES; without a `centre` they are scouting."""

    def __init__(self, config: CmaConfig) -> None:
        self.config = config
        self.number = 0
        self._strategy: Any = None
        self._first: NDArray[np.float64] | None = None
        self._best: tuple[float, Weights] | None = None
        self._seen, self._idle = -np.inf, 0

    @property
    def centre(self) -> Weights | None:
        """float32 [P], the mean of what it draws."""
        return None if self._strategy is None else np.asarray(self._strategy.centroid, np.float32)

    def update(self, networks: Sequence[Individual]) -> bool:
        """Update from the measured networks of a generation. True if the search restarts."""
        measured = [m for m in networks if np.isfinite(m.score)]
        for m in measured:
            assert isinstance(m.genome, Network)
            if self._best is None or m.score > self._best[0]:
                self._best = (m.score, m.genome.weights)
        if self._best is None:
            return False
        if self._strategy is None:
            # The networks that the population began with: how they differ gives the first covariance.
            if self._first is None:
                self._first = covariance(
                    np.stack([m.genome.weights for m in networks if isinstance(m.genome, Network)])
                )
            self._begin(len(networks))
            return True
        own = [m for m in networks if m.origin == "walk"]
        if len(own) >= 2:
            self._strategy.update([_vector(m) for m in own])
        best = max((m.score for m in measured), default=-np.inf)
        # Less than the margin is not worth waiting for.
        if best > self._seen + MARGIN * abs(self._seen) or not np.isfinite(self._seen):
            self._seen, self._idle = best, 0
        else:
            self._idle += len(networks)
        if self._idle >= self.config.patience:
            self._begin(len(own))
            return True
        return False

    def _begin(self, children: int) -> None:
        """Draw around the best network so far."""
        assert self._best is not None
        assert self._first is not None
        centroid = self._best[1].astype(np.float64)
        self._strategy = cma.Strategy(
            centroid, self.config.sigma, lambda_=max(2, children), cmatrix=self._first.copy()
        )
        self._seen, self._idle = self._best[0], 0
        self.number += 1

    def members(
        self, slots: int, learner: Weights | None, fresh: Callable[[], Network], rng: np.random.Generator
    ) -> list[Child]:
        """The next generation's networks; the learner in the first of the slots, if there is one."""
        guests = [] if learner is None else [Child(Network(learner.copy()), (), "learner")]
        guests = guests[:slots]
        if self._strategy is None:
            return guests + [Child(fresh(), (), "random") for _ in range(slots - len(guests))]
        strategy = self._strategy
        # DEAP derives its recombination weights from the number of children.
        if slots - len(guests) != strategy.lambda_ and slots - len(guests) >= 2:
            strategy.lambda_ = slots - len(guests)
            strategy.computeParams(strategy.params)
        with global_random(rng):
            drawn = strategy.generate(np.asarray)[: slots - len(guests)]
        return guests + [Child(Network(np.asarray(weights, np.float32)), (), "walk") for weights in drawn]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the settings."""
        strategy = self._strategy
        return {
            "strategy": None if strategy is None else {name: getattr(strategy, name) for name in STATE},
            "children": 0 if strategy is None else int(strategy.lambda_),
            "first": self._first,
            "best": None if self._best is None else list(self._best),
            "seen": self._seen,
            "idle": self._idle,
            "number": self.number,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._first, self._best = state["first"], None
        if state["best"] is not None:
            self._best = (float(state["best"][0]), state["best"][1])
        self._strategy = None
        if state["strategy"] is not None:
            # DEAP computes constants from size and number of children; then what it has learned replaces the rest.
            self._begin(int(state["children"]))
            for name, value in state["strategy"].items():
                setattr(self._strategy, name, value)
        self._seen, self._idle, self.number = float(state["seen"]), int(state["idle"]), int(state["number"])


def _vector(individual: Individual) -> _Vector:
    assert isinstance(individual.genome, Network)
    vector = individual.genome.weights.astype(np.float64).view(_Vector)
    vector.fitness = individual.fitness
    return vector
