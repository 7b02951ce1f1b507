"""The mappings that policies propose: EGRL, Algorithm 2 line 6.

Deviations: the paper's form is `readout = "sample"`. By default a network ranks tensors for the problem's placer, and
is placed again, with noise on its scores, if its mapping ran before; a chromosome takes its most probable choices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context
from egrl.methods import policy_fit
from egrl.methods.egrl.parts import Learner, Parts, finite
from egrl.methods.egrl.ranking import Ranking
from hwsim.keys import SAMPLE
from hwsim.mappings import sample
from hwsim.problem import Evaluation, Mapping16
from population.population import Population

LEARNER, COMPILER = -1, -2
"""What made a row, if it is no member of the population."""
FIRST_NOISE, REPLACEMENTS = 0.02, 6
"""Gumbel noise on the scores of a network whose map ran before, relative to their spread, doubled so often."""


@dataclass
class Round:
    """R mappings of population and learner: what made them, and their results.

    `member` is the position in the population, or LEARNER or COMPILER for their mappings.
    `ticket` is -1, and rewards and speedups NaN, before the results are known; `usable` is then false.
    """

    member: NDArray[np.int64]
    ticket: NDArray[np.int64]
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    usable: NDArray[np.bool_]

    @staticmethod
    def of(member: NDArray[np.int64]) -> Round:
        """A round without results."""
        rows = len(member)
        unknown = np.full(rows, np.nan)
        usable = np.zeros(rows, np.bool_)
        return Round(member, np.full(rows, -1), unknown, unknown.copy(), usable)

    def take(self, ticket: NDArray[np.int64], evaluation: Evaluation) -> None:
        """Take the results of all rows."""
        self.ticket, self.reward, self.speedup = ticket, evaluation.reward, evaluation.speedup
        self.usable = evaluation.usable


class Rollouts:
    """Makes mappings of the policies of a population and a learner."""

    def __init__(
        self,
        context: Context,
        parts: Parts,
        population: Population | None,
        learner: Learner | None,
        rng: np.random.Generator,
    ) -> None:
        """`rng` gives the noise that makes a mapping new."""
        self._context, self._parts, self._rng = context, parts, rng
        self._population, self._learner = population, learner
        self._problem = context.problems[0]
        self._observation = policy_fit.observation(self._problem)

    def draw(self, policies: NDArray[np.int64], told: int) -> Mapping16:
        """Mappings [R, N, H] of policies [R], members of the population, then LEARNER; `told` results are known."""
        keys, parts = self._context.keys(SAMPLE, told, len(policies)), []
        members = policies[policies >= 0]
        if self._population is not None and len(members):
            if self._parts.ranking is not None:
                parts.append(self._placed(members, self._population, self._parts.ranking))
            else:
                odds = finite(self._population.probabilities(self._observation, members))
                odds = odds if self._parts.readout == "sample" else _most_probable(odds)
                parts.append(sample(self._problem, odds, keys[: len(members)]))
        if self._learner is not None and len(members) < len(policies):
            parts.append(self._learner.rollouts(keys[len(members) :]))
        return np.concatenate(parts)

    def _placed(self, members: NDArray[np.int64], population: Population, ranking: Ranking) -> Mapping16:
        """Mappings [R, N, H]: networks are placed by rank, chromosomes take their most probable choices."""
        mapping = np.empty((len(members), *self._problem.space.shape), np.int16)
        encodings = np.array([population.members[m].encoding for m in members])
        for encoding, rows in ((e, np.flatnonzero(encodings == e)) for e in ("network", "boltzmann")):
            if not len(rows):
                continue
            if encoding == "network":
                scores, share = population.scores(members[rows])
                mapping[rows] = self._new(ranking, finite(scores), share)
            else:
                odds = population.probabilities(self._observation, members[rows])
                mapping[rows] = np.where(self._problem.space.live, odds.argmax(axis=-1), -1)
        return mapping

    def _new(
        self, ranking: Ranking, scores: NDArray[np.float32], free_share: NDArray[np.float64]
    ) -> Mapping16:
        """Mappings [B, N, H] of scores; one that ran before is placed again, with more and more noise on its scores."""
        mapping = ranking.place(scores, free_share)
        assert self._population is not None
        known = self._population.known
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


def _most_probable(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probability 1 for each decision's most probable choice [R, N, H, C], the first if several are equal."""
    best = probabilities.argmax(axis=-1)[..., None]
    return (best == np.arange(probabilities.shape[-1])).astype(np.float32)
