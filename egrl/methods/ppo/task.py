"""What a GraphSAGE policy reads of a problem, and what it learns from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hwsim.problem import Mapping16, Problem
from hwsim.stages import situation
from policies.graph import Graph
from policies.graphsage import Stages


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
    """What is imitated: `action` int16 [N, H] after having seen `before` int16 [N, H]."""

    problem: int
    before: Mapping16
    action: Mapping16
