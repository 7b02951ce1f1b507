"""MuZero: an agent that plans each move of a game in a model, and learns the model from what it plays.

Sources: as `egrl_muzero.agent`, which is the engine. A game that is over is a proposal: what it decided.

Deviation: what is measured does not teach the agent, since a game tells its rewards itself; where a problem rewards
something else than its game does, the champion is the best by that reward all the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from egrl.methods import policy_fit
from egrl.methods.revise import whole
from egrl_muzero.agent import Agent
from egrl_muzero.config import PAPER, PlayConfig
from egrl_muzero.fitting import check_names, game_of, policy_of, weights_of
from egrl_muzero.learner import METRICS
from hwsim.capabilities import HasObservation
from hwsim.problem import Evaluation, Mapping16, Problem
from hwsim.stepwise import HasGame
from policies.store import StoredPolicy
from workloads.errors import InputError

RETURNED = {"self-play": "returned", "greedy": "greedy_returned"}
"""Sources of games and the metrics that follow their rewards, each new one counting `RATE`."""
RATE = 0.1
PAUSE_S = 1.0
"""Seconds of play after which the loop may look at the clock."""
NAMES = (*RETURNED.values(), *METRICS, "back", "concentration", "gradient_steps", "games", "revisions")
"""Metrics."""


class MuZero(Method):
    """See the module."""

    ahead = 1  # games go on while some are measured: what is measured teaches the agent nothing

    def __init__(self, context: Context, config: PlayConfig) -> None:
        """Raises InputError where settings contradict each other or `context.init` does not fit."""
        _check(config, len(context.problems))
        self._context, self._config = context, config
        self._problems = list(context.problems)
        shown: list[Mapping16] = []
        if config.demonstrations:
            shown = [problem.baseline.mapping for problem in self._problems]
        self._agent = Agent([game_of(problem, config) for problem in self._problems], config, context, shown)
        if context.init is not None:
            self._take(context.init)
        self._recent: dict[str, float] = {}
        self._under_way: list[dict[str, float]] = []  # the agent's metrics when each batch was made
        self._known: dict[str, float] = {}

    def _take(self, policy: StoredPolicy) -> None:
        """Begin with saved networks."""
        for problem in self._problems:
            policy_fit.check(policy, problem, "--init")
        weights = weights_of(policy, self._agent.net, self._config, self._agent.game, "--init")
        for problem in self._problems:
            check_names(policy, problem, self._config.network.ids, "--init")
        self._agent.begin_with(weights)

    def ask(self) -> Proposals:
        """Games that a slice of play ended, of one problem; no rows after about a second within a slice."""
        agent = self._agent
        if not agent.finished or agent.paused:
            begun = time.monotonic()
            agent.work(lambda: time.monotonic() - begun >= PAUSE_S)
        if not agent.finished or agent.paused:
            return proposals(np.empty((0, *self._problems[0].space.shape), np.int16), [])
        problem, count = agent.finished[0].problem, 0
        while count < len(agent.finished) and agent.finished[count].problem == problem:
            count += 1
        taken, agent.finished = agent.finished[:count], agent.finished[count:]
        spent = {"model_calls": agent.use.calls, "model_seconds": agent.use.seconds}
        self._under_way.append({**agent.metrics(), **spent})
        rows = whole(np.stack([game.mapping for game in taken]), self._problems[problem])
        return proposals(rows, [agent.source(game.slot) for game in taken], problem)

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Note how the games went."""
        if proposals.source[0] == START:
            return
        self._known = self._under_way.pop(0)
        # As far as it was when this was proposed: how far it is now is a matter of time.
        use = self._context.model_use
        use.calls, use.seconds = self._known["model_calls"], self._known["model_seconds"]
        for source, reward in zip(proposals.source.tolist(), evaluation.reward.tolist(), strict=True):
            if source in RETURNED and np.isfinite(reward):
                name = RETURNED[source]
                self._recent[name] = (1 - RATE) * self._recent.get(name, reward) + RATE * reward

    def metrics(self) -> Mapping[str, float]:
        """Means of the latest games' rewards; of the agent, when it made the last proposal that was told."""
        known = {**self._recent, **self._known}
        return {name: known.get(name, np.nan) for name in NAMES}

    def policy(self) -> StoredPolicy | None:
        """The networks."""
        agent, common = self._agent, policy_fit.common_demands(self._problems)
        metadata = {**common, "seed": self._context.seed, "workload": self._problems[0].about.workload}
        return policy_of(agent.net, self._config, agent.game, agent.potential.discount, metadata)

    def state_dict(self) -> dict[str, Any]:
        """The agent, and what has been told."""
        return {
            "agent": self._agent.state(),
            "recent": self._recent,
            "under_way": self._under_way,
            "known": self._known,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._agent.load(state["agent"])
        self._recent = dict(state["recent"])
        self._under_way, self._known = [dict(each) for each in state["under_way"]], dict(state["known"])


def serves(problem: Problem) -> str | None:
    """A game is needed, and a graph for the policy's metadata."""
    if not isinstance(problem, HasGame):
        return "the problem is no game"
    return None if isinstance(problem, HasObservation) else "the problem has no graph to observe"


def _check(config: PlayConfig, problems: int) -> None:
    least = problems * (1 + config.demonstrations)
    if config.slots < least:
        raise InputError(
            f"method.slots: expected at least {least} for {problems} workloads with"
            f" {config.demonstrations} demonstrations each, found {config.slots}"
        )
    moves = config.replay * config.learner.unroll
    if config.ablation != "no-learning" and config.updates and moves <= config.chunk * config.slots:
        raise InputError(
            f"method.replay: expected room for more than a slice, {config.chunk * config.slots} moves in segments of"
            f" {config.learner.unroll}, found {config.replay}"
        )
    if problems > 1 and config.network.ids:
        raise InputError(
            f"method.network.ids: expected 0 for {problems} workloads (numbers of tensors mean something else in each),"
            f" found {config.network.ids}"
        )
    if config.dynamics == "rules" and config.searches_anew:
        raise InputError(
            "method.reanalyse: expected 0 with method.dynamics=rules (states of remembered moves are not kept),"
            f" found {config.reanalyse:g}"
        )


DEFINITION = MethodDefinition(
    PlayConfig, MuZero, serves, PAPER, takes_policy=True, several=True, pretraining={"network.ids": 0}
)
