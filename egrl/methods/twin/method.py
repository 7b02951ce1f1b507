"""The twin: learn from measurements how the board differs from its description, and search the learned model.

Model-based reinforcement learning over the run's archive: the model is the problem's family (`hwsim.family`),
learned by `posterior`; `proposer` chooses what to measure next. First measured are all rules of the compiler and what
the description itself likes best, then changes of those, then batches from the posterior. `surrogate` has the course
of it; here it is a method of its own, one batch ahead of the results.

Where costs are the family's own (no board) there is nothing to learn, and `exact` or the population are what to use.

The twin as a member of a portfolio: model-based learning over the same archive as population and learner.

It learns from all mappings that ran. Both sides divide the rounds by how often their mappings are among the best of
all, by the twin's posterior, which trusts what was measured near a mapping. The twin has the first round: the rules
that the problem knows. It computes when it is asked, while the batch before is being measured, from all results so far.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from egrl.methods.credit import TWIN, Member, RoundShare
from egrl.methods.twin.proposer import TwinConfig
from egrl.methods.twin.surrogate import Surrogate
from hwsim.family import HasFamily
from hwsim.problem import Evaluation, Problem

PAUSE_S = 1.0
"""How long it thinks at a time."""


class Twin(Method):
    """See the module."""

    ahead = 1
    on_a_model = (
        "no --evaluator: the chip file's model takes the place of a board, which only shows how the twin works;"
        " --method exact solves a model itself"
    )

    def __init__(self, context: Context, config: TwinConfig) -> None:
        self._shape = context.problems[0].space.shape
        self._surrogate = Surrogate(context, config)

    def ask(self) -> Proposals:
        """The next batch; no rows after about a second of thought."""
        self._surrogate.begin()
        self.phase = "thinking"
        if not self._surrogate.advance(time.monotonic() + PAUSE_S):
            return proposals(np.empty((0, *self._shape), np.int16), [])
        self.phase = ""
        return proposals(*self._surrogate.take())

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Count them; the next `ask` looks at the archive."""
        own = START not in proposals.source
        self._surrogate.tell(int(proposals.tickets[-1]) + 1, own)

    def champion(self, problem: int) -> int | None:
        """The ticket whose mapping is probably the fastest; None where measurements are exact."""
        return self._surrogate.champion()

    def metrics(self) -> Mapping[str, float]:
        """The sizes that were learned (see `inference.Scales`), and how many effects differ from the description's."""
        return self._surrogate.metrics()

    def state_dict(self) -> dict[str, Any]:
        """Beliefs, generator and what is open. While it thinks: as it was before, so that it thinks again."""
        return self._surrogate.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._surrogate.load_state_dict(state)


def serves(problem: Problem) -> str | None:
    """Only problems with a family."""
    return None if isinstance(problem, HasFamily) else "the problem has no family of models to learn"


DEFINITION = MethodDefinition(TwinConfig, Twin, serves, {})
"""Learn the board from its measurements: a family of models, what the data say of it, and what to measure next."""


SETTINGS = TwinConfig()
"""Of the member."""


class TwinMember(Member):
    """See the module."""

    name = TWIN
    ahead = 1

    def __init__(self, context: Context) -> None:
        self._context, self._shape = context, context.problems[0].space.shape
        self._surrogate = Surrogate(context, SETTINGS)
        self.rounds = RoundShare(TWIN, SETTINGS.first)

    def ask(self) -> Proposals:
        """Its batch; no rows after about a second of computing."""
        self._surrogate.begin()
        self.phase = "thinking"
        if not self._surrogate.advance(time.monotonic() + PAUSE_S):
            return proposals(np.empty((0, *self._shape), np.int16), [])
        self.phase = ""
        mapping, _ = self._surrogate.take()
        in_turn = self.its_turn
        judged = self._surrogate.judged
        sources = self._context.archive.sources(judged.tickets).tolist()
        self.rounds.count(sources, judged.good.tolist())
        if in_turn:  # else it only filled the time in which a round of the others was measured
            self.rounds.asked(len(mapping))
        return proposals(mapping, TWIN)

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Results of its own batch, or the start's."""
        self._surrogate.tell(int(proposals.tickets[-1]) + 1, START not in proposals.source)

    def observe(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Results of any other batch."""
        self._surrogate.tell(int(proposals.tickets[-1]) + 1, False)

    def champion(self, problem: int) -> int | None:
        """The ticket whose mapping is probably the fastest; None where measurements are exact."""
        return self._surrogate.champion()

    def metrics(self) -> Mapping[str, float]:
        """What the twin has learned, and its share of the rows."""
        return {**self._surrogate.metrics(), "twin_share": self.rounds.share}

    def state_dict(self) -> dict[str, Any]:
        """All of it; while it thinks as it was before."""
        return {"surrogate": self._surrogate.state_dict(), **self.rounds.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._surrogate.load_state_dict(state["surrogate"])
        self.rounds.load_state_dict(state)
