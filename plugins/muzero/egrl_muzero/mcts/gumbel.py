"""The search policy of Gumbel MuZero: sequential halving at the root, a deterministic policy below it.

Source: Danihelka et al. (Policy improvement by planning with Gumbel, ICLR 2022): algorithm 2 (root), section 5
(nodes below), appendix D (mixed value), with the defaults of `mctx.gumbel_muzero_policy`; sequential halving by Karnin
et al. (ICML 2013).

Deviations from mctx: illegal actions are masked at every node. As in mctx at the root, they count as actions not
taken where values are scaled to 0..1.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.mcts.noise import gumbels
from egrl_muzero.mcts.puct import EPSILON
from egrl_muzero.mcts.tree import NONE, ROOT, Tree, back_up
from hwsim.jit import kernel
from hwsim.keys import derive
from hwsim.problem import Floats, Keys

_NOISE = 1
_LOW_LOGIT = -1e9
"""Scores are at least that, so that an action with next to no prior is visited where it is the only one considered."""
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Gumbel:
    """Gumbel MuZero.

    Attributes:
        max_num_considered_actions: the most actions that the root tries, 1 or more.
        gumbel_scale: of the noise; 0 = none.
        value_scale, maxvisit_init: sigma(q) = (maxvisit_init + most visits) * value_scale * q, q scaled to 0..1.
        least_span: the least range that q is divided by, more than 0. mctx has next to nothing, so that the smallest
            differences count in full; where values are learned, what differs by less than their error should not.
    """

    max_num_considered_actions: int = 16
    gumbel_scale: float = 1.0
    value_scale: float = 0.1
    maxvisit_init: float = 50.0
    least_span: float = EPSILON

    def __post_init__(self) -> None:
        if self.max_num_considered_actions < 1:
            received = self.max_num_considered_actions
            raise ValueError(f"max_num_considered_actions: expected 1 or more, received {received}")
        if not self.gumbel_scale >= 0:
            raise ValueError(f"gumbel_scale: expected 0 or more, received {self.gumbel_scale}")
        if not self.least_span > 0:
            raise ValueError(f"least_span: expected more than 0, received {self.least_span}")

    @property
    def _sigma(self) -> tuple[float, float, float]:
        return float(self.value_scale), float(self.maxvisit_init), float(self.least_span)

    def noise(self, keys: Keys, actions: int) -> Floats:
        """Scaled Gumbel numbers float64 [B, A]."""
        return self.gumbel_scale * gumbels(derive(keys, _NOISE), actions)

    def root_logits(self, logits: Floats, noise: Floats) -> Floats:
        """The root's logits as they are: noise only decides which actions are considered."""
        return logits

    def descend(
        self, tree: Tree, noise: Floats, parent: NDArray[np.int64], action: NDArray[np.int64]
    ) -> None:
        """Go down each tree to an action not taken; write node and action, -1 where it ended at a terminal node."""
        table = considered_visits(self.max_num_considered_actions, tree.visits.shape[1] - 1)
        _descend(tree, table, noise, *self._sigma, parent, action)

    def decide(self, tree: Tree, noise: Floats, keys: Keys) -> tuple[NDArray[np.int64], Floats]:
        """The best of the most visited actions int64 [B] (-1 where the root is terminal), improved policy [B, A]."""
        return _decide(tree, noise, *self._sigma)


@functools.lru_cache(maxsize=8)
def considered_visits(most_considered: int, simulations: int) -> NDArray[np.int32]:
    """int32 [most_considered + 1, simulations]: visits that an action must have to be considered, by simulation.

    Row m is for m actions; each phase visits all that are left equally often and then halves them, down to two.
    """
    table = np.empty((most_considered + 1, simulations), np.int32)
    for considered in range(most_considered + 1):
        if considered <= 1:
            table[considered] = np.arange(simulations)
            continue
        phases = math.ceil(math.log2(considered))
        left, visits = considered, 0
        row: list[int] = []
        while len(row) < simulations:
            for _ in range(max(1, simulations // (phases * left))):
                row += [visits] * left
                visits += 1
            left = max(2, left // 2)
        table[considered] = row[:simulations]
    return table


@kernel
def _improve(
    visits: NDArray[np.int32],
    q: Floats,
    prior: Floats,
    logits: Floats,
    raw_value: float,
    value_scale: float,
    maxvisit_init: float,
    least_span: float,
    out: Floats,
) -> None:
    """Write logits + sigma(completed q) of one node [A]; -inf where an action is illegal."""
    # The mixed value (appendix D) stands in for actions that were not taken: the network's value as one visit, and the
    # mean of the visited actions, weighted by their prior, as all others.
    actions = len(out)
    total_visits, most_visits = 0, 0
    total_prior = 0.0
    for a in range(actions):
        if visits[a] > 0:
            total_visits += visits[a]
            most_visits = max(most_visits, visits[a])
            total_prior += max(_TINY, prior[a])
    weighted = 0.0
    for a in range(actions):
        if visits[a] > 0:
            weighted += max(_TINY, prior[a]) * q[a] / total_prior
    mixed = (raw_value + total_visits * weighted) / (total_visits + 1)
    # Completed values, scaled to 0..1 over all actions of the node.
    low, high = np.inf, -np.inf
    for a in range(actions):
        out[a] = q[a] if visits[a] > 0 else mixed
        low = min(low, out[a])
        high = max(high, out[a])
    # sigma grows with the most visited action: the more was searched, the more values count against the prior.
    span = max(high - low, least_span)
    scale = (maxvisit_init + most_visits) * value_scale
    for a in range(actions):
        out[a] = logits[a] + scale * ((out[a] - low) / span)


@kernel
def _choose_below(visits: NDArray[np.int32], logits: Floats, improved: Floats) -> int:
    """The action whose share of the visits is furthest below the improved policy; overwrites `improved`."""
    # Softmax of the improved logits in place, then the action whose visits lag it most: deterministic, and in
    # the long run visits follow the improved policy.
    actions = len(improved)
    top = -np.inf
    for a in range(actions):
        top = max(top, improved[a])
    total, all_visits = 0.0, 0
    for a in range(actions):
        improved[a] = math.exp(improved[a] - top)
        total += improved[a]
        all_visits += visits[a]
    best, best_score = NONE, -np.inf
    for a in range(actions):
        if logits[a] > -np.inf:
            score = improved[a] / total - visits[a] / (1.0 + all_visits)
            if score > best_score:
                best, best_score = a, score
    return best


@kernel
def _choose_root(
    visits: NDArray[np.int32], logits: Floats, noise: Floats, improved: Floats, considered: int
) -> int:
    """Of the legal actions with so many visits the one with the highest noise + improved logits."""
    # Sequential halving: only actions with exactly `considered` visits are in the running at this simulation, so that
    # those left of a phase are visited equally often before it is halved.
    actions = len(improved)
    top = logits.max()
    best, best_score = NONE, -np.inf
    for a in range(actions):
        if logits[a] > -np.inf and visits[a] == considered:
            score = max(_LOW_LOGIT, noise[a] + improved[a] - top)
            if score > best_score:
                best, best_score = a, score
    return best


@kernel
def _descend(
    tree: Tree,
    table: NDArray[np.int32],
    noise: Floats,
    value_scale: float,
    maxvisit_init: float,
    least_span: float,
    parent: NDArray[np.int64],
    action: NDArray[np.int64],
) -> None:
    actions = noise.shape[1]
    improved = np.empty(actions)
    for b in range(len(parent)):
        parent[b] = NONE
        # Rows of the arrays, not the tree, go to the kernels below: handing over the tree costs more than they do.
        visits, q, prior, logits = tree.visits[b], tree.q[b], tree.prior[b], tree.logits[b]
        raw_value, child, terminal = tree.raw_value[b], tree.child[b], tree.terminal[b]
        if terminal[ROOT]:
            continue
        # Fewer legal actions than may be considered: their own row of the table halves them.
        legal = 0
        for a in range(actions):
            legal += logits[ROOT, a] > -np.inf
        considered = table[min(legal, len(table) - 1), tree.node_visits[b, ROOT] - 1]
        node = ROOT
        while True:
            n, x, y, z = visits[node], q[node], prior[node], logits[node]
            _improve(n, x, y, z, raw_value[node], value_scale, maxvisit_init, least_span, improved)
            if node == ROOT:
                taken = _choose_root(n, z, noise[b], improved, considered)
            else:
                taken = _choose_below(n, z, improved)
            below = child[node, taken]
            if below == NONE:  # a new node will grow here, once the network has seen it
                parent[b], action[b] = node, taken
                break
            if terminal[below]:  # nothing grows here: another visit is backed up at once
                back_up(tree, b, below, 0.0)
                break
            node = below


@kernel
def _decide(
    tree: Tree, noise: Floats, value_scale: float, maxvisit_init: float, least_span: float
) -> tuple[NDArray[np.int64], Floats]:
    rows, actions = noise.shape
    action, policy = np.full(rows, NONE, np.int64), np.zeros((rows, actions))
    for b in range(rows):
        if tree.terminal[b, ROOT]:
            continue
        improved, visits, logits = policy[b], tree.visits[b, ROOT], tree.logits[b, ROOT]
        q, prior, raw_value = tree.q[b, ROOT], tree.prior[b, ROOT], tree.raw_value[b, ROOT]
        # `improved` is a row of `policy`: logits first, from which the action is chosen, then their softmax in place.
        _improve(visits, q, prior, logits, raw_value, value_scale, maxvisit_init, least_span, improved)
        action[b] = _choose_root(visits, logits, noise[b], improved, visits.max())
        top = improved.max()
        total = 0.0
        for a in range(actions):
            improved[a] = math.exp(improved[a] - top)
            total += improved[a]
        for a in range(actions):
            improved[a] /= total
    return action, policy
