"""A method: a hill climber."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from egrl import Context, Method, Proposals, proposals
from hwsim.problem import Evaluation


@dataclass(frozen=True)
class ClimbConfig:
    """Settings of the hill climber."""

    changes: Annotated[int, Ge(1), Doc("decisions that a neighbour draws anew")] = 1


class HillClimber(Method):
    """Hill climbing: goes to the best neighbour of a batch, where it is better."""

    def __init__(self, context: Context, config: ClimbConfig) -> None:
        self.space, self.rng = context.problems[0].space, context.generator("climb")
        self.shape = (context.generation_evals, config.changes)
        self.at, self.reward = self.space.initial, -np.inf

    def ask(self) -> Proposals:
        decisions = np.argwhere(self.space.live)  # [D, 2]: node and head
        n, h = self.rng.choice(decisions, self.shape).T  # a column a neighbour
        batch = np.repeat(self.at[None], self.shape[0], axis=0)
        batch[np.arange(self.shape[0]), n, h] = self.rng.integers(self.space.num_choices[n, h])
        return proposals(batch, "climb")

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        rewards = np.where(evaluation.usable, evaluation.reward, -np.inf)
        best = int(rewards.argmax())
        if rewards[best] > self.reward:
            self.at, self.reward = evaluation.repaired[best], float(rewards[best])
