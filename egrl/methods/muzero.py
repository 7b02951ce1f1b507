"""MuZero: an agent that plans each move of a game in a model, and learns the model from what it plays.

Sources: as `egrl.play.agent`, which is the engine. A game that is over is a proposal: what it decided.

Deviation: what is measured does not teach the agent, since a game tells its rewards itself; where a problem rewards
something else than its game does, the best by that reward is crowned all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from egrl import config as tables
from egrl import policy_fit
from egrl.learners.muzero import METRICS
from egrl.methods import Definition
from egrl.play.agent import Agent
from egrl.play.config import PAPER, PlayConfig
from egrl.types import Proposals, Setting, proposals
from hwsim.problem import Evaluation, Mapping16, Problem
from hwsim.stepwise import HasGame
from policies.layout import layout_of
from policies.store import StoredPolicy
from policies.weights import flatten
from workloads.errors import InputError

KIND = "muzero"
RETURNED = {"self-play": "returned", "greedy": "greedy_returned"}
"""Sources of games and the metrics that follow their rewards, each new one counting `RATE`."""
RATE = 0.1


SEARCH = (
    "simulations",
    "search",
    "dynamics",
    "ablation",
    "value_scale",
    "maxvisit_init",
    "least_span",
)
"""Settings that a policy is kept with, so that it is placed elsewhere as it was trained."""


class MuZero:
    """See the module."""

    metric_names: tuple[str, ...] = (
        "returned",
        "greedy_returned",
        *METRICS,
        "back",
        "concentration",
        "gradient_steps",
        "games",
        "revisions",
    )

    def __init__(self, setting: Setting, config: PlayConfig) -> None:
        """Raises InputError where settings contradict each other or `setting.init` does not fit."""
        _check(config, len(setting.problems))
        self._setting, self._config = setting, config
        self._problems = list(setting.problems)
        shown: list[Mapping16] = []
        if config.demonstrations:
            shown = [problem.baseline.mapping for problem in self._problems]
        self._agent = Agent([game_of(problem, config) for problem in self._problems], config, setting, shown)
        if setting.init is not None:
            self._take(setting.init)
        self._start = [p for p, known in enumerate(setting.start) if known is not None]
        self._recent: dict[str, float] = {}
        self._under_way: list[dict[str, float]] = []  # the agent's metrics when each proposal was made
        self._known: dict[str, float] = {}

    def _take(self, policy: StoredPolicy) -> None:
        """Begin with saved networks."""
        for problem in self._problems:
            policy_fit.check(policy, problem, "--init")
        self._agent.begin_with(weights_of(policy, self._agent, self._config))

    def ask(self, room: int) -> Proposals | None:
        """Games that are over, of one problem; no rows where a slice of play ended none."""
        if self._start:
            problem = self._start.pop(0)
            known = self._setting.start[problem]
            assert known is not None
            self._under_way.append({})
            return proposals(known[None], "start", problem)
        agent = self._agent
        if not agent.finished:
            agent.work()
        if not agent.finished:
            return proposals(np.empty((0, *self._problems[0].num_choices.shape), np.int16), [])
        problem, count = agent.finished[0].problem, 0
        while count < min(room, len(agent.finished)) and agent.finished[count].problem == problem:
            count += 1
        taken, agent.finished = agent.finished[:count], agent.finished[count:]
        self._under_way += [dict(agent.metrics())] * count
        rows = whole(np.stack([game.mapping for game in taken]), self._problems[problem])
        return proposals(rows, [agent.source(game.slot) for game in taken], problem)

    def learn(self) -> None:
        """Nothing is owed: slices of play learn."""

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Note how the games went."""
        for source, reward in zip(proposals.source.tolist(), evaluation.reward.tolist(), strict=True):
            self._known = self._under_way.pop(0)
            if source in RETURNED and np.isfinite(reward):
                name = RETURNED[source]
                self._recent[name] = (1 - RATE) * self._recent.get(name, reward) + RATE * reward

    def metrics(self) -> Mapping[str, float]:
        """Means of the latest games' rewards; of the agent, when it made the last proposal that was told."""
        known = {**self._recent, **self._known}
        return {name: known.get(name, np.nan) for name in self.metric_names}

    def policy(self) -> StoredPolicy | None:
        """The networks."""
        net, discount = self._agent.net, self._agent.potential.discount
        flat, layout = flatten(net), layout_of(net.named_parameters())
        arrays = {s.name: flat[s.offset : s.end].reshape(s.shape) for s in layout.segments}
        metadata = {
            "kind": KIND,
            **policy_fit.common_demands(self._problems),
            "seed": self._setting.seed,
            "config": {"network": asdict(self._config.network), "view": asdict(self._config.view)},
            "search": {
                **{name: getattr(self._config, name) for name in SEARCH},
                "discount": {"first": discount, "last": discount},
            },
        }
        return StoredPolicy(arrays, metadata)

    def state_dict(self) -> dict[str, Any] | None:
        """The agent, and what has been told."""
        return {
            "agent": self._agent.state(),
            "start": self._start,
            "recent": self._recent,
            "under_way": self._under_way,
            "known": self._known,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._agent.load(state["agent"])
        self._start, self._recent = list(state["start"]), dict(state["recent"])
        self._under_way, self._known = [dict(each) for each in state["under_way"]], dict(state["known"])


def game_of(problem: Problem, config: PlayConfig) -> Any:
    """The game of a problem, seen as the settings say."""
    assert isinstance(problem, HasGame)
    game = problem.game
    return game.seen_by(config.view) if hasattr(game, "seen_by") else game


def whole(mapping: Mapping16, problem: Problem) -> Mapping16:
    """Mappings [..., N, H] in which decisions that a lost game never came to have their first choice."""
    return np.where((mapping < 0) & (problem.size_bytes > 0), 0, mapping).astype(np.int16)


def weights_of(policy: StoredPolicy, agent: Agent, config: PlayConfig, where: str = "--init") -> Any:
    """The weights float32 [P] of a saved policy. InputError naming `where` where it does not fit the settings."""
    if policy.metadata["kind"] != KIND:
        raise InputError(f"{where}: kind: expected {KIND!r}, found {policy.metadata['kind']!r}")
    expected = {"network": asdict(config.network), "view": asdict(config.view)}
    wanted, found = tables.dotted(expected), tables.dotted(policy.metadata["config"])
    for key in sorted({*wanted, *found}):
        if wanted.get(key) != found.get(key):
            raise InputError(
                f"{where}: {key}: expected {wanted.get(key)!r} as method.{key} has it, found {found.get(key)!r};"
                f" --set method.{key}={found.get(key)} goes on from it"
            )
    layout = layout_of(agent.net.named_parameters())
    shapes = {segment.name: segment.shape for segment in layout.segments}
    held = {name: array.shape for name, array in policy.weights.items()}
    if shapes != held:
        name = next(n for n in sorted({*shapes, *held}) if shapes.get(n) != held.get(n))
        raise InputError(f"{where}: {name}: expected shape {shapes.get(name)}, found {held.get(name)}")
    return np.concatenate([np.asarray(policy.weights[n], np.float32).reshape(-1) for n in shapes])


def serves(problem: Problem) -> str | None:
    """A game is needed, and a graph for the policy's metadata."""
    if not isinstance(problem, HasGame):
        return "the problem is no game"
    return None if problem.observation is not None else "the problem has no graph to observe"


def _check(config: PlayConfig, problems: int) -> None:
    least = problems * (1 + config.demonstrations)
    if config.slots < least:
        raise InputError(
            f"method.slots: expected at least {least} for {problems} workloads with"
            f" {config.demonstrations} demonstrations each, found {config.slots}"
        )
    if problems > 1 and config.network.ids:
        raise InputError(
            f"method.network.ids: expected 0 for {problems} workloads (numbers of tensors mean something else in each),"
            f" found {config.network.ids}"
        )
    if config.dynamics == "true" and config.searches_anew:
        raise InputError(
            "method.reanalyse: expected 0 with method.dynamics=true (states of remembered moves are not kept),"
            f" found {config.reanalyse:g}"
        )


DEFINITION = Definition(PlayConfig, MuZero, serves, PAPER, takes_policy=True, several=True)
