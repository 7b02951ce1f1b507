"""B search trees as flat arrays, and the two kernels that every policy shares: write a node, back up a value.

Sources: the array layout of trees is that of mctx (Apache-2.0); backing up follows MuZero (Schrittwieser et al.,
Nature 588, 2020), appendix B.

Deviations from mctx:
- values are kept as sums, not as running means: equal up to rounding;
- actions are legal or not at every node, not only at the root;
- a node whose discount is 0 or that has no legal action is terminal: it is worth 0, nothing grows below it, and
  another visit backs up the same return again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.problem import Floats

NONE = -1
ROOT = 0


class Tree(NamedTuple):
    """B trees of up to N = simulations + 1 nodes with A actions each; the node of simulation s has number s + 1.

    A simulation that ends at a terminal node makes no node: its number stays unused (`node_visits` is 0 there).

    Attributes:
        visits: int32 [B, N, A], how often an action was taken.
        q: float64 [B, N, A], reward + discount * mean value of the child; 0 where an action was not taken.
        reward, discount: float64 [B, N, A], of the step; 0 where an action was not taken.
        logits: float64 [B, N, A], prior logits; -inf where an action is illegal.
        prior: float64 [B, N, A], softmax of the logits; 0 where an action is illegal.
        child: int32 [B, N, A], number of the child; -1 = none.
        node_visits: int32 [B, N], 1 + visits of the actions (of a terminal node: of itself).
        value_sum: float64 [B, N], sum of the returns that were seen from the node on, its own raw value included.
        raw_value: float64 [B, N], the value that the network gave; 0 at terminal nodes.
        parent, action: int32 [B, N], which action of which node leads here; -1 at the root.
        terminal: bool [B, N].
    """

    visits: NDArray[np.int32]
    q: Floats
    reward: Floats
    discount: Floats
    logits: Floats
    prior: Floats
    child: NDArray[np.int32]
    node_visits: NDArray[np.int32]
    value_sum: Floats
    raw_value: Floats
    parent: NDArray[np.int32]
    action: NDArray[np.int32]
    terminal: NDArray[np.bool_]

    @property
    def value(self) -> Floats:
        """float64 [B, N], mean return from each node on; 0 at numbers that are unused."""
        return np.asarray(self.value_sum / np.maximum(self.node_visits, 1))


def new_tree(batch: int, nodes: int, actions: int) -> Tree:
    """Trees without a node."""
    edge, node = (batch, nodes, actions), (batch, nodes)
    return Tree(
        visits=np.zeros(edge, np.int32),
        q=np.zeros(edge),
        reward=np.zeros(edge),
        discount=np.zeros(edge),
        logits=np.full(edge, -np.inf),
        prior=np.zeros(edge),
        child=np.full(edge, NONE, np.int32),
        node_visits=np.zeros(node, np.int32),
        value_sum=np.zeros(node),
        raw_value=np.zeros(node),
        parent=np.full(node, NONE, np.int32),
        action=np.full(node, NONE, np.int32),
        terminal=np.zeros(node, np.bool_),
    )


@kernel
def back_up(tree: Tree, b: int, node: int, value: float) -> None:
    """Add a return seen from `node` on to it and to all nodes above it, each through its own reward and discount."""
    tree.node_visits[b, node] += 1
    tree.value_sum[b, node] += value
    # Invariant on the way up: `value` is the return from `node` on, and `node` has counted it already, so that the
    # parent's q is the mean over all that was seen below this action, the new return included.
    while node != ROOT:
        parent, action = tree.parent[b, node], tree.action[b, node]
        reward, discount = tree.reward[b, parent, action], tree.discount[b, parent, action]
        tree.visits[b, parent, action] += 1
        tree.q[b, parent, action] = reward + discount * (tree.value_sum[b, node] / tree.node_visits[b, node])
        value = reward + discount * value
        tree.node_visits[b, parent] += 1
        tree.value_sum[b, parent] += value
        node = parent


@kernel
def write_node(
    tree: Tree, b: int, node: int, discount: float, logits: Floats, value: float, legal: NDArray[np.bool_]
) -> bool:
    """Fill in a new node (logits and legal [A]) and back up its value; False where a number is not finite."""
    actions = len(logits)
    # The largest legal logit: subtracted below, so that no exponential overflows. No legal action leaves -inf.
    top = -np.inf
    for a in range(actions):
        if legal[a]:
            if not math.isfinite(logits[a]):
                return False
            top = max(top, logits[a])
    # Terminal: the game is over, or nothing can be played. It is worth 0 whatever the network says of it, so that its
    # value is not even looked at.
    if discount == 0.0 or top == -np.inf:
        tree.terminal[b, node] = True
        back_up(tree, b, node, 0.0)
        return True
    if not math.isfinite(value):
        return False
    # Softmax over legal actions; illegal ones keep the prior 0 and the logit -inf that `new_tree` gave them.
    total = 0.0
    for a in range(actions):
        if legal[a]:
            tree.logits[b, node, a] = logits[a]
            tree.prior[b, node, a] = math.exp(logits[a] - top)
            total += tree.prior[b, node, a]
    for a in range(actions):
        tree.prior[b, node, a] /= total
    tree.raw_value[b, node] = value
    back_up(tree, b, node, value)
    return True


@kernel
def write_roots(tree: Tree, logits: Floats, value: Floats, legal: NDArray[np.bool_]) -> None:
    """Fill in node 0 of every tree."""
    for b in range(len(value)):
        write_node(tree, b, ROOT, 1.0, logits[b], value[b], legal[b])


@kernel
def grow(
    tree: Tree,
    node: int,
    rows: NDArray[np.int64],
    parent: NDArray[np.int64],
    action: NDArray[np.int64],
    reward: Floats,
    discount: Floats,
    logits: Floats,
    value: Floats,
    legal: NDArray[np.bool_],
) -> int:
    """Add node number `node` to the trees in `rows`, all arrays [len(rows), …].

    Returns the first of these rows in which a number is not finite, -1 = there is none.
    """
    for i in range(len(rows)):
        b, above, taken = rows[i], parent[i], action[i]
        # Nothing is written for a step that is not finite: the caller names the row and gives the search up.
        if not (math.isfinite(reward[i]) and math.isfinite(discount[i])):
            return i
        # The edge comes before the node: backing up reads reward and discount of the edge that it goes through.
        tree.child[b, above, taken] = node
        tree.reward[b, above, taken] = reward[i]
        tree.discount[b, above, taken] = discount[i]
        tree.parent[b, node] = above
        tree.action[b, node] = taken
        if not write_node(tree, b, node, discount[i], logits[i], value[i], legal[i]):
            return i
    return NONE
