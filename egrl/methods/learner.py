"""The contract of the learners that share a replay with each other and with a population.

Source: Khadka et al., "Collaborative evolutionary reinforcement learning" (ICML 2019), section 3, which has several
learners of one algorithm. Here they are SAC, the profile model and the twin.

A learner is a method: it proposes (`ask`), is told the results of what it proposed (`tell`) and of what all others did
(`observe`), learns, and has a policy and metrics. One that follows no gradient of a policy has none, and no migrant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from egrl.core.archive import Proposals
from egrl.core.method import Method
from egrl.methods.manager import RoundShare
from hwsim.problem import Evaluation

if TYPE_CHECKING:
    from population.population import Judge, Migrant


class Learner(Method):
    """A member of a portfolio.

    An empty batch says in `phase` that it thinks, or that it has nothing to propose now.

    Attributes:
        name: of the learner, and the source of what it proposes.
        rounds: which rounds of a portfolio are its own; None: its mappings are part of every round of the population.
    """

    name: str
    rounds: RoundShare | None = None

    @property
    def its_turn(self) -> bool:
        """True if the next round is its own."""
        return self.rounds is not None and self.rounds.is_due

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """The results of its own batch: by default as anybody else's."""
        self.observe(proposals, evaluation)

    def migrant(self) -> Migrant | None:
        """Line 32 of Algorithm 2: weights for a network of the population; None if it has none."""
        return None

    @property
    def judge(self) -> Judge | None:
        """A critic that chooses among mappings; None if there is none, or none yet."""
        return None
