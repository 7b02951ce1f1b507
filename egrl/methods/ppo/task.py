"""The input of a GraphSAGE policy for a problem, and its training data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hwsim.problem import Mapping16, Problem
from hwsim.stages import situation
from policies.graph import Graph
from policies.graphsage import Stages

DRAFTING, IMPROVING, OPENING, EXPLORING = 0, 1, 2, 3
"""Groups of rollouts: those that see nothing, those that see the best mapping so far (or the outset), those that see it
with an empty stage behind its fullest, and one that sees nothing and draws more evenly than the policy would."""
MEMORY = 0.8
"""The weight of the running mean and variance of rewards after a round."""
FLAT = 1e-3
"""The least deviation of rewards, in shares of their mean: where all are equal, rounding is not blown up."""


@dataclass
class Part:
    """A round's rows on one problem: the deployed mapping, then R rollouts.

    Attributes:
        problem: its number.
        deployed: 1; 0 where the start mapping was measured instead of the deployed one.
        mapping: int16 [deployed + R, N, H], what is proposed.
        before, action: int16 [T, R, N, H]; log_prob: float32, the same shape.
        group: int64 [R], which rollouts set out from the same mapping.
        reward: float64 [deployed + R], NaN where none is usable; speedup alike.
        ran: int16 [R, N, H], what ran, only where that is credited.
        base: the best reward that was known when the round began.
        told: whether the results are known.
    """

    problem: int
    deployed: int
    mapping: Mapping16
    before: Mapping16
    action: Mapping16
    log_prob: NDArray[np.float32]
    group: NDArray[np.int64]
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    ran: Mapping16
    base: float = -np.inf
    told: bool = False

    def gains(self) -> NDArray[np.float64]:
        """Rewards of the rollouts [R], of those that set out from the best known one no less than that had."""
        reward = self.reward[self.deployed :]
        from_best = (self.group == IMPROVING) | (self.group == OPENING)
        return np.where(from_best, np.maximum(reward, self.base), reward)


@dataclass
class Known:
    """What is known of a problem: the best mapping int16 [N, H], its reward, the heat of all its stages and
    whether it ran (until one does, the best of those that do not); and running moments of rewards."""

    best: Mapping16
    reward: float = -np.inf
    warmth: float = np.inf
    ran: bool = False
    mean: float = 0.0
    variance: float = 0.0
    rounds: int = 0

    def normalise(self, reward: NDArray[np.float64], index: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rewards [R] less their running mean, over their running deviation, once those at `index` have moved both."""
        memory = MEMORY if self.mean or self.variance else 0.0
        mean = float(reward[index].mean())
        self.variance = memory * self.variance + (1 - memory) * float(((reward[index] - mean) ** 2).mean())
        self.mean = memory * self.mean + (1 - memory) * mean
        target = (reward - self.mean) / max(self.variance**0.5, FLAT * abs(self.mean), 1e-6)
        return np.asarray(np.clip(np.nan_to_num(target), -10, 10), np.float32)


class Task:
    """A problem as the network reads it.

    Attributes:
        x: float32 [N, F]; graph: its edges; counts: int64 [N, H]; live: bool [N, H].
        pipeline: where choices are stages of a pipeline; else None.
    """

    def __init__(self, problem: Problem, x: NDArray[np.float32], graph: Graph, device: torch.device) -> None:
        self.x = torch.from_numpy(x).to(device)
        self.graph = graph.on(device)
        self.counts = torch.from_numpy(problem.space.num_choices.astype(np.int64)).clamp(min=1).to(device)
        self.live = torch.from_numpy(problem.space.live).to(device)
        self.pipeline = problem.space.pipeline
        self._problem = problem

    def stages(self, before: Mapping16) -> Stages | None:
        """What is known of the stages of mappings int16 [B, N, H] (-1: nothing); None where choices are no stages."""
        pipeline, problem = self.pipeline, self._problem
        if pipeline is None:
            return None
        choices = int(self.counts.max())
        whole = np.all((before >= 0) | (problem.space.size_bytes <= 0), axis=(1, 2))
        heat = np.zeros((len(before), before.shape[2], choices), np.float32)
        heat[whole] = pipeline.heat(before[whole], choices)
        lie = [situation(before[:, :, h], pipeline, choices) for h in range(before.shape[2])]
        arrays = (heat, pipeline.middle(choices).astype(np.float32), np.stack(lie, axis=2))
        return Stages(*(torch.from_numpy(array).to(self.x.device) for array in arrays))


@dataclass
class Rollouts:
    """R rollouts of T passes on one problem.

    Attributes:
        problem: its number.
        before, action: int16 [T, R, N, H], the mapping that a pass saw (-1: nothing) and what was drawn.
        log_prob: float32 [T, R, N, H] of it, 0 where a decision is dead.
        target: float32 [R], the normalised reward.
        group: int64 [R], which of them set out from the same mapping.
    """

    problem: int
    before: Mapping16
    action: Mapping16
    log_prob: NDArray[np.float32]
    target: NDArray[np.float32]
    group: NDArray[np.int64]

    def rows(self, index: NDArray[np.int64]) -> Rollouts:
        """Some of the rollouts."""
        return Rollouts(
            self.problem,
            self.before[:, index],
            self.action[:, index],
            self.log_prob[:, index],
            self.target[index],
            self.group[index],
        )


@dataclass(frozen=True)
class Example:
    """The target of imitation: `action` int16 [N, H] after having seen `before` int16 [N, H]."""

    problem: int
    before: Mapping16
    action: Mapping16
