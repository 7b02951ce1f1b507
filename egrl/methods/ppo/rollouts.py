"""How `ppo` draws a round on one problem: passes of the policy, from what it sets out from to what is proposed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context
from egrl.methods.ppo.learner import Ppo, PpoConfig
from egrl.methods.ppo.task import (
    DRAFTING,
    EXPLORING,
    IMPROVING,
    NOTHING,
    OPENING,
    Known,
    Part,
    carry_out,
    change_one_decision,
    coupled_uniforms,
    in_stages,
    open_stage,
    outset,
    soften,
)
from hwsim.keys import SAMPLE
from hwsim.mappings import sample
from hwsim.problem import Mapping16, Problem
from workloads.errors import RunFailure


class RolloutDrawer:
    """Draws rollouts with the learner's network as it is.

    Attributes:
        outset: for each problem int16 [N, H], what its rollouts set out from before anything is known.
        drawn: how many mappings the problems' own `sample` has drawn: the number of the next key.
    """

    def __init__(self, context: Context, config: PpoConfig, ppo: Ppo) -> None:
        self._context, self._config, self._ppo = context, config, ppo
        self._problems: Sequence[Problem] = context.problems
        self.outset = [outset(problem, config.outset) for problem in self._problems]
        self.drawn = 0

    def part(self, number: int, rollouts: int, known: Known, rng: np.random.Generator) -> Part:
        """The deployed mapping of a problem and R rollouts, as they are proposed; first the rollouts alone where the
        start mapping was measured."""
        problem, config = self._problems[number], self._config
        pipeline = problem.space.pipeline if config.ordered else None
        start = self._context.start[number] if known.rounds == 0 else None
        known.rounds += 1
        state, group = self._begin(number, rollouts, known, start, rng)
        deployed = np.full_like(self.outset[number], NOTHING)[None]
        befores, actions, log_probs = [], [], []
        for last in [False] * (config.passes - 1) + [True]:
            found = self._log_probs(number, np.concatenate([deployed, state]))
            befores.append(state)
            deployed = _canonical(found[:1].argmax(axis=-1), problem)
            state = self._draw(problem, state, found[1:], last, rng)
            if last and len(explorer := np.flatnonzero(group == EXPLORING)):
                state[explorer] = self._sample(problem, soften(found[1:][explorer], rng))
            actions.append(state)
            taken = np.take_along_axis(found[1:], np.maximum(state, 0)[..., None].astype(np.int64), -1)
            log_probs.append(np.where(state >= 0, np.maximum(taken[..., 0], -20.0), 0.0))
        deployed = in_stages(deployed, pipeline)
        proposed, own = state.copy(), group != EXPLORING
        proposed[own] = carry_out(befores[-1][own], state[own], pipeline, rng)
        mapping = np.concatenate([deployed, proposed]) if start is None else proposed
        unknown = np.full(len(mapping), np.nan)
        return Part(
            number,
            int(start is None),
            mapping,
            np.stack(befores),
            np.stack(actions),
            np.stack(log_probs).astype(np.float32),
            group,
            unknown,
            unknown.copy(),
            np.zeros_like(state) if config.credit == "ran" else state[:0],
            known.reward,
        )

    def _begin(
        self, number: int, rollouts: int, known: Known, start: Mapping16 | None, rng: np.random.Generator
    ) -> tuple[Mapping16, NDArray[np.int64]]:
        """The mappings that the first pass of R rollouts sees, int16 [R, N, H], and their groups, int64 [R]."""
        problem, config, outset = self._problems[number], self._config, self.outset[number]
        best = outset
        if config.begin == "best":
            best = known.best if start is None else start
        nothing = np.full_like(outset, NOTHING)
        draft = np.arange(rollouts) < round(config.drafts * rollouts)
        group = np.where(draft | np.array_equal(best, nothing), DRAFTING, IMPROVING).astype(np.int64)
        state = np.where(group[:, None, None] == DRAFTING, nothing, best).astype(np.int16)
        if config.ordered and config.begin == "best":
            group[1::2] = np.where(group[1::2] == IMPROVING, OPENING, group[1::2])
            state[group == OPENING] = open_stage(best, problem, rng)
            if draft.sum() > 1 and problem.space.pipeline is not None:
                group[0] = EXPLORING
        return state, group

    def _log_probs(self, number: int, before: Mapping16) -> NDArray[np.float32]:
        found = self._ppo.log_probs(number, before)
        if np.isnan(found).any():
            raise RunFailure(
                "the policy's weights have diverged to values that are not finite; try a smaller"
                " method.learner.learning_rate"
            )
        return found

    def _draw(
        self,
        problem: Problem,
        before: Mapping16,
        log_probs: NDArray[np.float32],
        last: bool,
        rng: np.random.Generator,
    ) -> Mapping16:
        """Mappings int16 [R, N, H] drawn from log-probabilities [R, N, H, C] of what comes after `before`."""
        probabilities = np.exp(log_probs)
        if last and self._config.draw == "problem":
            return self._sample(problem, probabilities)
        coupling = 0.0 if problem.space.pipeline is None else self._config.coupling
        uniform = coupled_uniforms(rng, log_probs.shape[:3], coupling)
        reached = np.cumsum(probabilities, axis=-1)
        choice = (reached <= (uniform * reached[..., -1])[..., None]).sum(axis=-1)
        drawn = _canonical(choice, problem)
        if self._config.begin != "best":
            return drawn
        return change_one_decision(drawn, before, probabilities, problem.space.live, rng)

    def _sample(self, problem: Problem, probabilities: NDArray[np.float32]) -> Mapping16:
        """Mappings int16 [R, N, H] that the problem draws (SAMPLE of the solver), by keys of their own."""
        keys = self._context.keys(SAMPLE, self.drawn, len(probabilities))
        self.drawn += len(probabilities)
        return sample(problem, probabilities, keys)


def _canonical(choice: NDArray[np.int64], problem: Problem) -> Mapping16:
    """Choices [B, N, H] with -1 where a decision is dead."""
    legal = np.minimum(choice, np.maximum(problem.space.num_choices, 1) - 1)
    return np.where(problem.space.live, legal, NOTHING).astype(np.int16)
