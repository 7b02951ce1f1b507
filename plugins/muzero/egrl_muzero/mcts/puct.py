"""The search policy of MuZero: PUCT over normalised values, Dirichlet noise at the root.

Source: Schrittwieser et al. (Nature 588, 2020), appendix B and C; the defaults and the normalisation (smallest and
largest value among the node and its visited children) are those of `mctx.muzero_policy`, but where the paper of the
MMapGame names others (appendix C: alpha 0.03), a caller passes them.

Deviations from mctx:
- equal scores are decided by position, not by noise of 1e-7;
- temperature 0 takes the most visited action; the first, if several are equal;
- illegal actions are masked at every node.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.mcts.noise import dirichlets, gumbels
from egrl_muzero.mcts.tree import NONE, ROOT, Tree, back_up
from hwsim.jit import kernel
from hwsim.keys import derive
from hwsim.problem import Floats, Keys

EPSILON = 1e-8
"""The least range that values are divided by (mctx)."""
_NOISE, _ACTION = 1, 2
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Puct:
    """PUCT.

    Attributes:
        dirichlet_fraction: share of Dirichlet noise in the root's prior, 0 to 1.
        dirichlet_alpha: its concentration, more than 0.
        pb_c_init, pb_c_base: c1 and c2 of the formula; c2 more than 0.
        temperature: actions are drawn in proportion to visits ** (1 / temperature); 0 = the most visited.
    """

    dirichlet_fraction: float = 0.25
    dirichlet_alpha: float = 0.3
    pb_c_init: float = 1.25
    pb_c_base: float = 19652.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.dirichlet_fraction <= 1:
            raise ValueError(f"dirichlet_fraction: expected 0 to 1, received {self.dirichlet_fraction}")
        if not (self.dirichlet_alpha > 0 and self.pb_c_base > 0):
            given = f"{self.dirichlet_alpha} and {self.pb_c_base}"
            raise ValueError(f"dirichlet_alpha, pb_c_base: expected more than 0, received {given}")
        if not self.temperature >= 0:
            raise ValueError(f"temperature: expected 0 or more, received {self.temperature}")

    def noise(self, keys: Keys, actions: int) -> Floats:
        """Dirichlet numbers float64 [B, A]."""
        return dirichlets(derive(keys, _NOISE), actions, self.dirichlet_alpha)

    def root_logits(self, logits: Floats, noise: Floats) -> Floats:
        """The root's prior mixed with noise, as logits [B, A]; illegal actions are masked after that, as in mctx."""
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        prior = odds / odds.sum(axis=1, keepdims=True)
        mixed = (1 - self.dirichlet_fraction) * prior + self.dirichlet_fraction * noise
        return np.asarray(np.log(np.maximum(mixed, _TINY)))

    def descend(
        self, tree: Tree, noise: Floats, parent: NDArray[np.int64], action: NDArray[np.int64]
    ) -> None:
        """Go down each tree to an action not taken; write node and action, -1 where it ended at a terminal node."""
        _descend(tree, _weights(tree.visits.shape[1], self.pb_c_init, self.pb_c_base), parent, action)

    def decide(self, tree: Tree, noise: Floats, keys: Keys) -> tuple[NDArray[np.int64], Floats]:
        """Actions int64 [B] drawn by visits (-1 where the root is terminal), and shares of the visits [B, A]."""
        visits = tree.visits[:, ROOT].astype(np.float64)
        shares = visits / np.maximum(visits.sum(axis=1, keepdims=True), 1)
        if self.temperature == 0:
            action = visits.argmax(axis=1)
        else:
            likely = np.log(np.maximum(shares, _TINY)) / max(self.temperature, _TINY)
            scores = (
                likely - likely.max(axis=1, keepdims=True) + gumbels(derive(keys, _ACTION), visits.shape[1])
            )
            action = np.where(visits > 0, scores, -np.inf).argmax(axis=1)
        return np.where(tree.terminal[:, ROOT], NONE, action), shares


@functools.lru_cache(maxsize=8)
def _weights(most: int, pb_c_init: float, pb_c_base: float) -> Floats:
    """float64 [most + 1]: what a prior is multiplied by at a node with so many visits."""
    return np.array(
        [math.sqrt(n) * (pb_c_init + math.log((n + pb_c_base + 1.0) / pb_c_base)) for n in range(most + 1)]
    )


@kernel
def _choose(
    visits: NDArray[np.int32], q: Floats, prior: Floats, logits: Floats, value: float, weight: float
) -> int:
    """The best action of one node, arrays [A]."""
    # Values are scaled by the smallest and largest among the node and its visited children. An action that was not
    # taken scores 0 for its value, the least of that scale.
    actions = len(visits)
    low = high = value
    for a in range(actions):
        if visits[a] > 0:
            low = min(low, q[a])
            high = max(high, q[a])
    span = max(high - low, EPSILON)
    best, best_score = NONE, -np.inf
    for a in range(actions):
        if logits[a] > -np.inf:
            score = weight * prior[a] / (visits[a] + 1)
            if visits[a] > 0:
                score += (q[a] - low) / span
            if score > best_score:  # of equal scores the first action wins
                best, best_score = a, score
    return best


@kernel
def _descend(tree: Tree, weights: Floats, parent: NDArray[np.int64], action: NDArray[np.int64]) -> None:
    for b in range(len(parent)):
        parent[b] = NONE
        # Rows of the arrays, not the tree, go to the kernel above: handing over the tree costs more than it does.
        visits, q, prior, logits = tree.visits[b], tree.q[b], tree.prior[b], tree.logits[b]
        value_sum, node_visits = tree.value_sum[b], tree.node_visits[b]
        child, terminal = tree.child[b], tree.terminal[b]
        if terminal[ROOT]:
            continue
        node = ROOT
        while True:
            count = node_visits[node]
            value, weight = value_sum[node] / count, weights[count]
            taken = _choose(visits[node], q[node], prior[node], logits[node], value, weight)
            below = child[node, taken]
            if below == NONE:  # a new node will grow here, once the network has seen it
                parent[b], action[b] = node, taken
                break
            if terminal[below]:  # nothing grows here: another visit is backed up at once
                back_up(tree, b, below, 0.0)
                break
            node = below
