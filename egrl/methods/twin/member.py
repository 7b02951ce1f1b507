"""The twin as a third kind of member beside networks and chromosomes: model-based learning over the same archive.

A round is either one of population and learner, or a batch of the twin's alone. The twin learns from all mappings that
ran, and its own mappings that ran join the population and the replay buffer. Both sides divide the rounds by how often
their mappings are among the best of all, by the twin's posterior, which trusts what was measured near a mapping. Each
keeps a least share: a family that does not fit the board costs little, and so does a population that finds nothing.
The twin has the first round: the rules that the problem knows.

It computes when it is asked, while the batch before is being measured, from all results so far.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from egrl.core.method import Context
from egrl.core.proposals import Proposals, proposals
from egrl.methods.credit import TWIN, RoundShare
from egrl.methods.twin.proposer import TwinConfig
from egrl.methods.twin.surrogate import Surrogate

SETTINGS = TwinConfig()
PAUSE_S = 1.0
"""How long it thinks at a time."""


class TwinMember:
    """See the module.

    Attributes:
        its_turn: whether the next round is its own.
    """

    def __init__(self, context: Context) -> None:
        self._context, self._shape = context, context.problems[0].space.shape
        self._surrogate = Surrogate(context, SETTINGS)
        self._rounds = RoundShare(TWIN, SETTINGS.first)

    @property
    def its_turn(self) -> bool:
        """As of `RoundShare`."""
        return self._rounds.own

    def ask(self) -> Proposals:
        """Its batch; no rows after about a second of computing."""
        self._surrogate.begin()
        if not self._surrogate.advance(time.monotonic() + PAUSE_S):
            return proposals(np.empty((0, *self._shape), np.int16), [])
        mapping, _ = self._surrogate.take()
        in_turn = self.its_turn
        judged = self._surrogate.judged
        sources = self._context.archive.sources(judged.tickets).tolist()
        self._rounds.count(sources, judged.good.tolist())
        if in_turn:  # else it only filled the time in which a round of the others was measured
            self._rounds.asked(len(mapping))
        return proposals(mapping, TWIN)

    def wait(self, rows: int) -> None:
        """Population and learner have proposed so many rows."""
        self._rounds.waited(rows)

    def tell(self, told: Proposals) -> None:
        """Take the results of its own batch or of any other."""
        self._surrogate.tell(int(told.tickets[-1]) + 1, TWIN in told.source)

    def champion(self) -> int | None:
        """As of `Surrogate`."""
        return self._surrogate.champion()

    def metrics(self) -> Mapping[str, float]:
        """As of `Surrogate`, and its share of the rows."""
        return {**self._surrogate.metrics(), "twin_share": self._rounds.share}

    def state_dict(self) -> dict[str, Any]:
        """All of it; while it thinks as it was before."""
        return {"surrogate": self._surrogate.state_dict(), **self._rounds.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._surrogate.load_state_dict(state["surrogate"])
        self._rounds.load_state_dict(state)
