"""The walk of a network population: mirrored perturbations around a centre, which moves along the estimated gradient.

Source: Salimans et al., "Evolution strategies as a scalable alternative to reinforcement learning" (2017):
Algorithm 1 with mirrored perturbations and rank-shaped fitness (section 2.1), Adam on the estimate (section 4).

    members w +- sigma e_i, e_i ~ N(0, I);  r = centred ranks of their rewards, from -0.5 to 0.5
    g = sum_i (r_i+ - r_i-) e_i / (2 pairs sigma);  w moves by one step of Adam along g

A walk begins at the best of a generation of *scouts* (networks drawn at random, the start policy, and before every
second walk the learner), and is replaced by a new one after `patience` evaluations without a better member: walks from
other origins end in other basins.

Deviations:
- Equal rewards share their mean rank, so that a round in which nothing differs moves nothing (the source's ranking
  breaks ties by position). Failed measurements share the last rank.
- No weight decay, no virtual batch normalisation (layers are normalised by themselves).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from policies.weight_vector import Weights
from population.genome import Child, Individual, Network

MARGIN = 1e-4
"""A reward is better if it exceeds the best by this share of its size: less is not worth waiting for."""


@dataclass(frozen=True)
class WalkConfig:
    """Settings of a walk (own choices; papers/egrl/log/egrl.md has the experiments)."""

    sigma: Annotated[float, Doc("standard deviation of the perturbation of each weight")] = 0.02
    learning_rate: Annotated[float, Doc("step size of Adam, which moves the centre")] = 0.01
    patience: Annotated[int, Doc("evaluations without a better reward after which a new walk begins")] = 250

    def __post_init__(self) -> None:
        for name in ("sigma", "learning_rate"):
            if not 0 < getattr(self, name) < 100:
                raise ValueError(
                    f"{name}: expected more than 0 and less than 100, received {getattr(self, name)}"
                )
        if self.patience < 1:
            raise ValueError(f"patience: expected at least 1, received {self.patience}")


def centred_ranks(reward: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks of rewards [M] scaled to -0.5 (lowest) .. 0.5; equal ones share their mean, non-finite ones are lowest."""
    _, group, count = np.unique(
        np.where(np.isfinite(reward), reward, -np.inf), return_inverse=True, return_counts=True
    )
    # A group of equal rewards takes consecutive ranks; each of it gets their mean.
    ranks = (np.cumsum(count) - (count - 1) / 2)[group]
    return (ranks - 1.0) / max(1, len(reward) - 1) - 0.5


def estimate(reward: NDArray[np.float64], noise: Weights, sigma: float) -> Weights:
    """The ascent direction float32 [P] from rewards [2 * pairs] (all +, then all -) and noise [pairs, P]."""
    # Ranks, not rewards: one outlier must not decide the direction.
    shaped = centred_ranks(reward)
    pairs = len(noise)
    # The two members of a pair share their noise: what both have in common cancels.
    difference = (shaped[:pairs] - shaped[pairs:]).astype(np.float32)
    return np.asarray(difference @ noise / np.float32(2 * pairs * sigma), dtype=np.float32)


class Ascent:
    """Adam on estimates of P weights; torch is imported where there is something to move."""

    def __init__(self, size: int) -> None:
        """Before the first step of P = `size` weights."""
        import torch

        from policies.adam import Adam

        self._from_numpy = torch.from_numpy
        self._moved = torch.zeros(size)
        self._adam = Adam([self._moved], 1.0)

    @staticmethod
    def of(size: int) -> Ascent:
        """Before the first step of P = `size` weights."""
        return Ascent(size)

    def step(self, gradient: Weights, learning_rate: float) -> Weights:
        """By how much the weights move, float32 [P]; upwards."""
        self._moved.zero_()
        self._moved.grad = self._from_numpy(-np.asarray(gradient, np.float32))
        self._adam.learning_rate = learning_rate
        self._adam.step()
        return self._moved.numpy().copy()

    def state_dict(self) -> dict[str, Any]:
        """Adam's."""
        return self._adam.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._adam.load_state_dict(state)


@dataclass
class Walk:
    """Where the networks of a population are; without a `centre` they are scouting.

    Attributes:
        config: see `WalkConfig`.
        centre: float32 [P], or None.
        ascent: Adam's moments, or None.
        best: best reward of this walk.
        idle: evaluations since it was found.
        number: how many walks have begun.
        slope: length of the last estimate of the gradient; NaN before the first.
    """

    config: WalkConfig
    centre: Weights | None = None
    ascent: Ascent | None = None
    best: float = -np.inf
    idle: int = 0
    number: int = 0
    slope: float = np.nan
    _best_scout: tuple[float, Weights] | None = field(default=None, repr=False)

    def update(self, networks: Sequence[Individual]) -> bool:
        """Move the centre by a generation of measured networks, pairs in order. Returns whether a new walk begins."""
        scouts = [m for m in networks if m.origin != "walk" and np.isfinite(m.score)]
        for scout in scouts:
            self._remember(scout)
        if self.centre is None:
            return self._begin()
        pairs = [m for m in networks if m.origin == "walk"]
        if pairs:
            self._move(pairs)
        # Less than the margin is not worth waiting for.
        best = max((m.score for m in pairs), default=-np.inf)
        if best > self.best + MARGIN * abs(self.best) or not np.isfinite(self.best):
            self.best, self.idle = best, 0
        else:
            self.idle += len(pairs)
        # Without pairs (a single slot) the centre could never move.
        if self.idle >= self.config.patience or not pairs:
            self.centre = self.ascent = None
        return False

    def members(
        self, slots: int, learner: Weights | None, fresh: Callable[[], Network], rng: np.random.Generator
    ) -> list[Child]:
        """The next networks: mirrored pairs and, in an odd slot, the centre; or scouts, the learner first."""
        children: list[Child] = []
        if self.centre is None:
            # Every second walk only: walks from other origins end in other basins.
            if learner is not None and slots and self.number % 2:
                children.append(Child(Network(learner.copy()), (), "learner"))
            return children + [Child(fresh(), (), "random") for _ in range(slots - len(children))]
        if slots % 2:
            children.append(Child(Network(self.centre.copy()), (), "centre"))
        pairs = slots // 2
        noise = rng.standard_normal((pairs, len(self.centre)), dtype=np.float32)
        step = np.float32(self.config.sigma) * noise
        around = [*(self.centre + step), *(self.centre - step)]
        return children + [Child(Network(weights), (), "walk") for weights in around]

    def _remember(self, scout: Individual) -> None:
        """Keep the best scout since the last walk began; the newest, if several are equal."""
        assert isinstance(scout.genome, Network)
        if scout.origin != "centre" and (self._best_scout is None or scout.score >= self._best_scout[0]):
            self._best_scout = (scout.score, scout.genome.weights)

    def begin_at(self, weights: Weights, reward: float = -np.inf) -> None:
        """Begin a walk at weights float32 [P] with their reward, which members have to exceed."""
        self.centre, self.ascent = weights, Ascent.of(len(weights))
        self.best, self.idle, self._best_scout = reward, 0, None
        self.number += 1

    def _begin(self) -> bool:
        """Go to the best scout; where there is none (nothing ran, or no room for one), scout on."""
        if self._best_scout is None:
            return False
        reward, weights = self._best_scout
        self.begin_at(weights, reward)
        return True

    def _move(self, pairs: Sequence[Individual]) -> None:
        """Move the centre by one step of Adam; `pairs` are all +, then all -."""
        assert self.centre is not None
        assert self.ascent is not None
        weights = np.stack([m.genome.weights for m in pairs if isinstance(m.genome, Network)])
        half = len(weights) // 2
        # The noise was not stored: it is half the difference of a pair, in units of sigma.
        noise = (weights[:half] - weights[half:]) / np.float32(2 * self.config.sigma)
        direction = estimate(np.array([m.score for m in pairs]), noise, self.config.sigma)
        self.slope = float(np.linalg.norm(direction))
        self.centre = self.centre + self.ascent.step(direction, self.config.learning_rate)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the settings."""
        return {
            "centre": self.centre,
            "ascent": None if self.ascent is None else self.ascent.state_dict(),
            "best": self.best,
            "idle": self.idle,
            "number": self.number,
            "slope": self.slope,
            "scouted": None if self._best_scout is None else list(self._best_scout),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self.centre = state["centre"]
        self.ascent = None
        if self.centre is not None:
            self.ascent = Ascent.of(len(self.centre))
            self.ascent.load_state_dict(state["ascent"])
        self.best, self.idle, self.number = float(state["best"]), int(state["idle"]), int(state["number"])
        self.slope = float(state["slope"])
        self._best_scout = (
            None if state["scouted"] is None else (float(state["scouted"][0]), state["scouted"][1])
        )
