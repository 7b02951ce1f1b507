"""The tree search in plain Python: one game, a recursion, a list of floats for everything.

It shares nothing with egrl_muzero.mcts but the order of additions, so that trees are equal to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

TINY = 2.0**-1022


@dataclass
class Arrival:
    """A state that was reached: its number, and what was paid and is evaluated there."""

    state: int
    reward: float
    discount: float


class Rules:
    """A toy decision process: tables by state (and action), as lists."""

    def __init__(
        self,
        following: Sequence[Sequence[int]],
        reward: Sequence[Sequence[float]],
        discount: Sequence[Sequence[float]],
        logits: Sequence[Sequence[float]],
        value: Sequence[float],
        legal: Sequence[Sequence[bool]],
    ) -> None:
        self.following, self.reward, self.discount = following, reward, discount
        self.logits, self.value, self.legal = logits, value, legal

    def step(self, state: int, action: int) -> Arrival:
        return Arrival(
            self.following[state][action], self.reward[state][action], self.discount[state][action]
        )


@dataclass
class Node:
    """One node; children by action, with the reward and the discount on the way to them."""

    number: int
    state: int
    over: bool
    logits: list[float]
    legal: list[bool]
    raw_value: float
    returns: list[float] = field(default_factory=list)
    children: dict[int, Node] = field(default_factory=dict)
    ways: dict[int, Arrival] = field(default_factory=dict)

    @property
    def actions(self) -> range:
        return range(len(self.logits))

    @property
    def mean(self) -> float:
        total = 0.0
        for value in self.returns:
            total += value
        return total / len(self.returns)

    def visits(self, action: int) -> int:
        return len(self.children[action].returns) if action in self.children else 0

    def q(self, action: int) -> float:
        way = self.ways[action]
        return way.reward + way.discount * self.children[action].mean

    def prior(self) -> list[float]:
        top = max(x for x, legal in zip(self.logits, self.legal, strict=True) if legal)
        odds = [math.exp(x - top) if legal else 0.0 for x, legal in zip(self.logits, self.legal, strict=True)]
        total = 0.0
        for x in odds:
            total += x
        return [x / total for x in odds]


class TwinPuct:
    """MuZero's choice of an action."""

    def __init__(self, init: float, base: float) -> None:
        self.init, self.base = init, base

    def choose(self, node: Node, at_root: bool) -> int:
        n = len(node.returns)
        weight = math.sqrt(n) * (self.init + math.log((n + self.base + 1.0) / self.base))
        seen = [node.mean, *(node.q(a) for a in node.children)]
        low, span = min(seen), max(max(seen) - min(seen), 1e-8)
        prior = node.prior()
        scores = {}
        for a in node.actions:
            if node.legal[a]:
                bonus = weight * prior[a] / (node.visits(a) + 1)
                scores[a] = bonus + (node.q(a) - low) / span if a in node.children else bonus
        return max(scores, key=lambda a: scores[a])


class TwinGumbel:
    """Gumbel MuZero's choice of an action, sequential halving played out with a list of those that are left."""

    def __init__(
        self, noise: Sequence[float], most_considered: int, simulations: int, scale: float, init: float
    ) -> None:
        self.noise, self.scale, self.init = noise, scale, init
        self.most_considered, self.simulations = most_considered, simulations
        self.plan: list[int] = []

    def improved(self, node: Node) -> list[float]:
        prior = [max(TINY, p) for p in node.prior()]
        total, weighted, visits = 0.0, 0.0, 0
        for a in sorted(node.children):
            total += prior[a]
            visits += node.visits(a)
        for a in sorted(node.children):
            weighted += prior[a] * node.q(a) / total
        mixed = (node.raw_value + visits * weighted) / (visits + 1)
        completed = [node.q(a) if a in node.children else mixed for a in node.actions]
        low, span = min(completed), max(max(completed) - min(completed), 1e-8)
        most = max(node.visits(a) for a in node.actions)
        scale = (self.init + most) * self.scale
        return [x + scale * ((q - low) / span) for x, q in zip(node.logits, completed, strict=True)]

    def choose(self, node: Node, at_root: bool) -> int:
        legal = [a for a in node.actions if node.legal[a]]
        improved = self.improved(node)
        if at_root:
            self.plan = self.plan or phases(min(self.most_considered, len(legal)), self.simulations)
            return self.best(node, improved, self.plan[len(node.returns) - 1])
        top = max(improved[a] for a in legal)
        odds = [math.exp(improved[a] - top) if node.legal[a] else 0.0 for a in node.actions]
        total, visits = 0.0, 0
        for a in node.actions:
            total += odds[a]
            visits += node.visits(a)
        return max(legal, key=lambda a: odds[a] / total - node.visits(a) / (1.0 + visits))

    def best(self, node: Node, improved: Sequence[float], considered: int) -> int:
        legal = [a for a in node.actions if node.legal[a]]
        top = max(node.logits[a] for a in legal)
        among = [a for a in legal if node.visits(a) == considered]
        return max(among, key=lambda a: max(-1e9, self.noise[a] + improved[a] - top))


def phases(considered: int, simulations: int) -> list[int]:
    """Visits of the action to be tried next, simulation by simulation: each phase is a round-robin of those left."""
    tried = [0] * considered
    plan: list[int] = []
    left = considered
    while len(plan) < simulations:
        rounds = 1
        if considered > 1:
            rounds = max(1, simulations // (math.ceil(math.log2(considered)) * left))
        for _ in range(rounds):
            for a in range(left):
                plan.append(tried[a])
                tried[a] += 1
        left = max(min(2, considered), left // 2)
    return plan


class Search:
    """One search from a state: `root`, and `nodes` by number."""

    def __init__(
        self,
        rules: Rules,
        state: int,
        chooser: TwinPuct | TwinGumbel,
        simulations: int,
        logits: list[float] | None = None,
    ) -> None:
        self.rules, self.chooser = rules, chooser
        self.nodes: dict[int, Node] = {}
        self.root = self.new(0, Arrival(state, 0.0, 1.0), logits)
        for simulation in range(simulations if not self.root.over else 0):
            self.visit(self.root, simulation + 1)

    def new(self, number: int, way: Arrival, logits: list[float] | None = None) -> Node:
        legal = self.rules.legal[way.state]
        over = way.discount == 0 or not any(legal)
        value = 0.0 if over else self.rules.value[way.state]
        made = Node(
            number, way.state, over, list(logits or self.rules.logits[way.state]), list(legal), value, [value]
        )
        self.nodes[number] = made
        return made

    def visit(self, node: Node, number: int) -> float:
        """One simulation from a node on: the return that it saw."""
        if node.over:
            node.returns.append(0.0)
            return 0.0
        action = self.chooser.choose(node, node is self.root)
        if action in node.children:
            value = self.visit(node.children[action], number)
        else:
            node.ways[action] = self.rules.step(node.state, action)
            node.children[action] = self.new(number, node.ways[action])
            value = node.children[action].raw_value
        seen = node.ways[action].reward + node.ways[action].discount * value
        node.returns.append(seen)
        return seen
