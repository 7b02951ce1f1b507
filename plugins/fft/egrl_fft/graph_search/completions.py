"""Monte-Carlo completions of partial plans: by uniform choices, or by a policy that follows the best plans so far.

TAG draws completions uniformly (section 3.2); if a choice leads to a dead end, another one is drawn (the paper's
grammars have none). Where most plans are bad, such a completion says little about what is
above it, and what is good for a sub-problem is found anew wherever that occurs. Here a sub-problem has one weight a
rule, wherever it occurs, and a rule is drawn with probability softmax(weights).

Sources: nested rollout policy adaptation (Rosin, IJCAI 2011), its Adapt: the weights go along the gradient of the
log-probability of the best plan; a bias from the beginning, as in its generalisation (Cazenave, 2020).

Deviations:
- One level, no nesting: TAG's descents take the place of the levels above.
- One step of size rate / K after each evaluation towards each of the K best plans, since one measurement may be lucky.
- The state of a policy is a sub-problem, and not the path that leads to it.
- The bias is the same for every sub-problem that rules can close at once: they do with probability `close`, since
  uniform choices make long plans of small pieces.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl_fft.graph_search.decisions import Decisions
from hwsim.problem import Mapping16
from hwsim.stepwise import Derivation, RuledDerivation


class Completions(Protocol):
    """Draws complete plans, and learns from all that were measured."""

    def draw(self, plan: Hashable) -> Mapping16 | None:
        """int16 [N, H] of a complete plan below a partial one (or of itself); None where there is none."""

    def learn(self, mapping: Mapping16, reward: float) -> None:
        """The reward of a mapping int16 [N, H]; NaN where it failed."""


class Uniform:
    """Uniform choices, whatever was measured."""

    def __init__(self, derivation: Derivation, rng: np.random.Generator) -> None:
        self._derivation, self._rng = derivation, rng

    def draw(self, plan: Hashable) -> Mapping16 | None:
        """As `Derivation.completion`."""
        return self._derivation.completion(plan, self._rng)

    def learn(self, mapping: Mapping16, reward: float) -> None:
        """Nothing is learned."""


Weights = NDArray[np.float64]


@dataclass(frozen=True)
class LearnedConfig:
    """Settings of the completions."""

    completions: Annotated[
        Literal["learned", "uniform"],
        Doc(
            'how partial plans are completed: "uniform" as in the paper, or "learned" from the best'
            " plans so far"
        ),
    ] = "learned"
    elites: Annotated[int, Ge(1), Le(1000), Doc("best plans that completions learn from (K)")] = 5
    rate: Annotated[float, Gt(0), Le(10), Doc("step size of that learning, after each evaluation")] = 0.5
    close: Annotated[
        float,
        Ge(0),
        Lt(1),
        Doc(
            "probability that an open sub-problem is closed at once, if a rule can do that, before"
            " anything is learned; 0: no rule is preferred"
        ),
    ] = 0.75


def completions(derivation: Derivation, config: LearnedConfig, rng: np.random.Generator) -> Completions:
    """Those that the settings ask for; uniform ones where a derivation does not say what its plans have in common."""
    if config.completions == "learned" and isinstance(derivation, RuledDerivation):
        return LearnedRules(derivation, config, rng)
    if config.completions == "learned" and isinstance(derivation, Decisions):
        return LearnedDecisions(derivation, config, rng)
    return Uniform(derivation, rng)


class Elites:
    """The mappings with the best rewards, each once, best first; the earliest first, if several are equal."""

    def __init__(self, most: int) -> None:
        self._most, self._told = most, 0
        self._found: list[tuple[float, int, Mapping16]] = []

    def add(self, mapping: Mapping16, reward: float) -> bool:
        """Whether the mapping is among the best now."""
        self._told += 1
        full = len(self._found) == self._most
        if math.isnan(reward) or (full and -reward >= self._found[-1][0]):
            return False
        insort(self._found, (-reward, self._told, mapping))
        del self._found[self._most :]
        return True

    @property
    def mappings(self) -> list[Mapping16]:
        """int16 [N, H] each."""
        return [mapping for _, _, mapping in self._found]


def softmax(weights: Weights) -> Weights:
    """Probabilities along the last axis; a weight of -inf is never drawn."""
    grown = np.exp(weights - weights.max(axis=-1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=-1, keepdims=True))


class LearnedRules:
    """A policy over the rules of sub-problems (`Completions`)."""

    def __init__(self, derivation: RuledDerivation, config: LearnedConfig, rng: np.random.Generator) -> None:
        self._derivation, self._config, self._rng = derivation, config, rng
        self._elites = Elites(config.elites)
        self._weights: dict[Hashable, Weights] = {}
        self._wanted: dict[Hashable, Weights] = {}

    def draw(self, plan: Hashable) -> Mapping16 | None:
        """A rule by its probability at each open sub-problem."""
        return self._derivation.guided(plan, self._pick)

    def _pick(self, goal: Hashable, rules: int) -> int:
        below = np.cumsum(softmax(self._weights_of(goal, rules)))
        return min(int(np.searchsorted(below, self._rng.random(), side="right")), rules - 1)

    def _weights_of(self, goal: Hashable, rules: int) -> Weights:
        if goal not in self._weights:
            weights, closing = np.zeros(rules), list(self._derivation.closing(goal))
            if self._config.close and 0 < len(closing) < rules:
                odds = self._config.close / (1 - self._config.close)
                weights[closing] = math.log(odds * (rules - len(closing)) / len(closing))
            self._weights[goal] = weights
        return self._weights[goal]

    def learn(self, mapping: Mapping16, reward: float) -> None:
        """A step towards the best plans, of which this may be one."""
        if self._elites.add(mapping, reward):
            self._wanted = self._count()
        for goal, wanted in self._wanted.items():
            weights = self._weights_of(goal, len(wanted))
            weights += self._config.rate * (wanted - wanted.sum() * softmax(weights))

    def _count(self) -> dict[Hashable, Weights]:
        """By sub-problem, how often each rule is applied to it in an elite, on average."""
        found: dict[Hashable, Weights] = {}
        elites = self._elites.mappings
        for mapping in elites:
            for goal, rules, rule in self._derivation.chosen(mapping):
                found.setdefault(goal, np.zeros(rules))[rule] += 1 / len(elites)
        return found


class LearnedDecisions:
    """A policy over the choices of decisions that are made one by one (`Completions`)."""

    def __init__(self, derivation: Decisions, config: LearnedConfig, rng: np.random.Generator) -> None:
        self._derivation, self._config, self._rng = derivation, config, rng
        self._elites = Elites(config.elites)
        counts = derivation.counts
        self._rows = np.arange(len(counts))
        known = np.arange(counts.max(initial=1)) < counts[:, None]
        self._weights: Weights = np.where(known, 0.0, -np.inf)
        self._wanted: Weights | None = None

    def draw(self, plan: Hashable) -> Mapping16 | None:
        """A choice by its probability at each decision that is left."""
        return self._derivation.drawn(plan, softmax(self._weights), self._rng)

    def learn(self, mapping: Mapping16, reward: float) -> None:
        """A step towards the best mappings, of which this may be one."""
        if self._elites.add(mapping, reward):
            elites = self._elites.mappings
            self._wanted = np.zeros_like(self._weights)
            for elite in elites:
                self._wanted[self._rows, self._derivation.chosen(elite)] += 1 / len(elites)
        if self._wanted is not None:
            self._weights += self._config.rate * (self._wanted - softmax(self._weights))
