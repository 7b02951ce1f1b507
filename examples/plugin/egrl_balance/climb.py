"""A method: a hill climber."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge

from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals, proposals
from hwsim.problem import Evaluation


@dataclass(frozen=True)
class ClimbConfig:
    """Settings of the hill climber.

    Attributes:
        changes: decisions that a neighbour has otherwise, at most.
    """

    changes: Annotated[int, Ge(1)] = 1


class HillClimber(Method):
    """Hill climbing: the best neighbour of a batch, where it is better."""

    def __init__(self, context: Context, config: ClimbConfig) -> None:
        self._space, self._rng = context.problems[0].space, context.generator("climb")
        self._shape = (context.generation_evals, config.changes)
        start = context.start[0]
        self._at, self._reward = self._space.initial if start is None else start, -np.inf

    def ask(self) -> Proposals:
        nodes, heads = np.nonzero(self._space.live)
        where = self._rng.integers(len(nodes), size=self._shape)
        choices = self._rng.integers(self._space.num_choices[nodes[where], heads[where]])
        batch = np.repeat(self._at[None], len(where), axis=0)
        batch[np.arange(len(where))[:, None], nodes[where], heads[where]] = choices
        return proposals(batch, "climb")

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        best = int(np.argmax(np.where(evaluation.usable, evaluation.reward, -np.inf)))
        if evaluation.usable[best] and evaluation.reward[best] > self._reward:
            self._at, self._reward = evaluation.repaired[best], float(evaluation.reward[best])
