"""The mappings that policies propose: EGRL, Algorithm 2 line 6.

Deviations: the paper's form is `readout = "sample"`. By default a network ranks tensors for the problem's placer, and
is placed again, with noise on its scores, if its mapping ran before; a chromosome takes its most probable choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context
from egrl.methods import policy_fit
from egrl.methods.egrl.first_population import Parts
from egrl.methods.egrl.learner import Learner
from egrl.methods.egrl.ranking import Ranking
from hwsim.keys import SAMPLE
from hwsim.mappings import sample
from hwsim.problem import Evaluation, Mapping16
from population.population import Population
from workloads.errors import RunFailure

LEARNER, COMPILER = -1, -2
"""What made a row, if it is no member of the population."""
FIRST_NOISE, REPLACEMENTS = 0.02, 6
"""Gumbel noise on the scores of a network whose map ran before, relative to their spread, doubled so often."""
DIVERGED = "a policy's weights have diverged to values that are not finite; try a smaller method.actor_lr"


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
        """Mappings [R, N, H] of policies [R], members of the population or LEARNER; `told` results are known."""
        if self._parts.ranking is not None:
            return self._placed(policies, self._parts.ranking)
        keys = self._context.keys(SAMPLE, told, len(policies))
        return sample(self._problem, self._probabilities(policies), keys)

    def _probabilities(self, policies: NDArray[np.int64]) -> NDArray[np.float32]:
        """Float32 [R, N, H, C] of some policies."""
        parts = []
        members = policies[policies >= 0]
        if self._population is not None and len(members):
            odds = self._population.probabilities(self._observation, members)
            parts.append(odds if self._parts.readout == "sample" else _most_probable(odds))
        rollouts = int((policies == LEARNER).sum())
        if self._learner is not None and rollouts:
            parts.append(self._learner.rollouts(rollouts))
        probabilities = np.concatenate(parts)
        if not np.isfinite(probabilities).all():
            raise RunFailure(DIVERGED)
        return probabilities

    def _placed(self, policies: NDArray[np.int64], ranking: Ranking) -> Mapping16:
        """Mappings [R, N, H]: networks are placed by rank, chromosomes take their most probable choices."""
        mapping = np.empty((len(policies), *self._problem.space.shape), np.int16)
        chosen = policies[policies >= 0]
        rollouts = np.flatnonzero(policies == LEARNER)
        if self._population is not None and len(chosen):
            encodings = np.array([self._population.members[m].encoding for m in chosen])
            for encoding, rows in ((e, np.flatnonzero(encodings == e)) for e in ("network", "boltzmann")):
                if not len(rows):
                    continue
                if encoding == "network":
                    found = self._population.scores(self._observation, chosen[rows])
                    mapping[rows] = self._new(ranking, *_finite(found))
                else:
                    odds = self._population.probabilities(self._observation, chosen[rows])
                    mapping[rows] = np.where(self._problem.space.live, odds.argmax(axis=-1), -1)
        if self._learner is not None and len(rollouts):
            found = _finite(self._learner.scores(len(rollouts)))
            place = ranking.place if self._learner.places_as_drawn else partial(self._new, ranking)
            mapping[rollouts] = place(*found)
        return mapping

    def _new(
        self, ranking: Ranking, scores: NDArray[np.float32], free_share: NDArray[np.float64]
    ) -> Mapping16:
        """Mappings [B, N, H] of scores; one that ran before is placed again, with more and more noise on its scores."""
        mapping = ranking.place(scores, free_share)
        if self._population is None:
            return mapping
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


def _finite(
    found: tuple[NDArray[np.float32], NDArray[np.float64]],
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Scores and shares, unless they are not finite."""
    if not np.isfinite(found[0]).all():
        raise RunFailure(DIVERGED)
    return found


def _most_probable(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probability 1 for each decision's most probable choice [R, N, H, C], the first if several are equal."""
    best = probabilities.argmax(axis=-1)[..., None]
    return (best == np.arange(probabilities.shape[-1])).astype(np.float32)
