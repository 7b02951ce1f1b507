"""The mappings that policies propose: EGRL, Algorithm 2 line 6.

Deviations: the paper's form is `readout = "sample"`. By default a network ranks tensors for the problem's placer, and
is placed again, with noise on its scores, if its mapping ran before. A chromosome is drawn with its temperatures, as in
the paper; where a placer reads it, what is drawn are scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context
from egrl.methods import policy_fit
from egrl.methods.egrl.parts import Parts, finite
from egrl.methods.egrl.ranking import Ranking
from hwsim.keys import SAMPLE
from hwsim.mappings import sample
from hwsim.problem import Evaluation, Mapping16
from population.known import Known
from population.population import Population

COMPILER = "compiler"
"""The source of the baseline's mapping, where the start is another."""
FIRST_NOISE, REPLACEMENTS = 0.02, 6
"""Gumbel noise on the scores of a network whose map ran before, relative to their spread, doubled so often."""


@dataclass
class Round:
    """The mappings of population and learner, and their results.

    Attributes:
        members: which rows are the population's, in its order.
        ticket, reward, speedup, usable: of all rows; empty before the results are known.
    """

    members: slice
    ticket: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    reward: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    speedup: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    usable: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    @property
    def measured(self) -> bool:
        """True if the results are known."""
        return len(self.ticket) > 0

    def take(self, ticket: NDArray[np.int64], evaluation: Evaluation) -> None:
        """Take the results of all rows."""
        self.ticket, self.reward, self.speedup = ticket, evaluation.reward, evaluation.speedup
        self.usable = evaluation.usable

    def state_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**vars(self), "members": [self.members.start, self.members.stop]}

    @staticmethod
    def of_state(state: dict[str, Any]) -> Round:
        """The inverse of `state_dict`."""
        return Round(**{**state, "members": slice(*state["members"])})


class Rollouts:
    """Makes the mappings of a population."""

    def __init__(self, context: Context, parts: Parts, rng: np.random.Generator) -> None:
        """`rng` gives the noise of readings, and that which makes a mapping new."""
        self._context, self._parts, self._rng = context, parts, rng
        self._problem = context.problems[0]
        self._observation = policy_fit.observation(self._problem)

    def draw(self, population: Population, told: int) -> Mapping16:
        """Mappings [M, N, H], one of each member; `told` results are known."""
        if self._parts.readout != "sample":
            return self._read(population)
        odds = finite(population.probabilities(self._observation))
        return sample(self._problem, odds, self._context.keys(SAMPLE, told, len(odds)))

    def _read(self, population: Population) -> Mapping16:
        """Networks are placed by rank or take their most probable choices, chromosomes are drawn."""
        mapping = np.empty((len(population), *self._problem.space.shape), np.int16)
        chromosome = np.array([member.encoding == "boltzmann" for member in population.members])
        networks, ranking = np.flatnonzero(~chromosome), self._parts.ranking
        if chromosome.any():
            mapping[chromosome] = population.read(np.flatnonzero(chromosome), self._rng)
        if len(networks) and ranking is not None:
            scores, share = population.scores(networks)
            mapping[networks] = self._new(ranking, finite(scores), share, population.known)
        elif len(networks):
            odds = finite(population.probabilities(self._observation, networks))
            mapping[networks] = np.where(self._problem.space.live, odds.argmax(axis=-1), -1)
        return mapping

    def _new(
        self, ranking: Ranking, scores: NDArray[np.float32], free_share: NDArray[np.float64], known: Known
    ) -> Mapping16:
        """Mappings [B, N, H] of scores; one that ran before is placed again, with more and more noise on its scores."""
        mapping = ranking.place(scores, free_share)
        spread, old = scores[:, :, 1:].std(axis=(1, 2)), list(range(len(mapping)))
        for attempt in range(REPLACEMENTS + 1):
            old = [row for row in old if not known.admit(mapping[row])]
            if not old or attempt == REPLACEMENTS:
                break
            noise = self._rng.gumbel(size=scores[old].shape).astype(np.float32)
            noise[:, :, 0] = 0
            scale = (FIRST_NOISE * 2.0**attempt * spread[old]).astype(np.float32)
            mapping[old] = ranking.place(scores[old] + scale[:, None, None] * noise, free_share[old])
        return mapping
