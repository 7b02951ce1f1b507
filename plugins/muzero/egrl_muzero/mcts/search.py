"""A batched tree search: B games at once, networks or rules called once a simulation for all of them.

Source: MuZero (Schrittwieser et al., Nature 588, 2020), appendix B; the shape of the interface is that of mctx
(Apache-2.0). plugins/muzero/docs/explanations/mcts.md has the policies, plugins/muzero/log/mcts.md what differs from
mctx.

Deviations: `recurrent` is called with the rows that grow a node; a search that ended at a terminal node is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.mcts.embeddings import Embeddings
from egrl_muzero.mcts.tree import NONE, ROOT, Tree, grow, new_tree, write_roots
from hwsim.problem import Floats, Keys


@dataclass(frozen=True)
class Root:
    """Where B searches begin. Arrays may be numpy's or torch's.

    Attributes:
        prior_logits: [B, A].
        value: [B].
        embedding: any tree of arrays [B, …].
        legal: bool [B, A], None = all actions are legal. A row without a legal action is not searched.
    """

    prior_logits: Any
    value: Any
    embedding: Any
    legal: Any = None


@dataclass(frozen=True)
class Step:
    """What follows an action in each of R rows, as `Root` otherwise.

    Attributes:
        reward: [R].
        discount: [R]; 0 = the game is over.
        prior_logits: [R, A], of the state that follows; values of illegal actions are ignored.
        value: [R], of the state that follows; ignored where the game is over.
        embedding: any tree of arrays [R, …], built like the root's.
        legal: bool [R, A], None = all actions are legal. A row without a legal action is over.
    """

    reward: Any
    discount: Any
    prior_logits: Any
    value: Any
    embedding: Any
    legal: Any = None


Recurrent = Callable[[Any, NDArray[np.int64]], Step]
"""Embeddings [R, …] (copies) and actions int64 [R] to what follows; R is the number of rows that grow a node."""


@dataclass(frozen=True)
class Result:
    """What B searches found.

    Attributes:
        action: int64 [B], the proposed action; -1 where the root is terminal.
        weights: float64 [B, A], the policy to learn (rows sum to 1); 0 where the root is terminal.
        value: float64 [B], mean return from the root on.
        tree: the trees.
        embeddings: views [B, simulations + 1, …]; undefined where `tree.node_visits` is 0.
    """

    action: NDArray[np.int64]
    weights: Floats
    value: Floats
    tree: Tree
    embeddings: Any


class Policy(Protocol):
    """How a search goes down its trees and what it proposes in the end: `Puct`, `Gumbel`."""

    def noise(self, keys: Keys, actions: int) -> Floats: ...
    def root_logits(self, logits: Floats, noise: Floats) -> Floats: ...
    def descend(
        self, tree: Tree, noise: Floats, parent: NDArray[np.int64], action: NDArray[np.int64]
    ) -> None: ...
    def decide(self, tree: Tree, noise: Floats, keys: Keys) -> tuple[NDArray[np.int64], Floats]: ...


def search(
    root: Root,
    recurrent: Recurrent,
    simulations: int,
    policy: Policy,
    keys: Keys,
    noise: Floats | None = None,
) -> Result:
    """Search B games with `simulations` simulations each.

    Args:
        root: where the searches begin.
        recurrent: networks or rules.
        simulations: 1 or more; a tree has a node more.
        policy: `Puct` or `Gumbel`.
        keys: uint64 [B], one a game; what is random in a game's search is a function of its key.
        noise: [B, A], used in place of the numbers that `policy.noise` makes of the keys.

    Raises:
        ValueError: an argument or what `recurrent` returned has a wrong shape, or holds a number that is not finite
            where one is needed.
    """
    logits = _numbers("root.prior_logits", root.prior_logits, None)
    batch, actions = logits.shape
    value = _numbers("root.value", root.value, (batch,))
    legal = _mask("root.legal", root.legal, (batch, actions))
    if simulations < 1:
        raise ValueError(f"simulations: expected 1 or more, received {simulations}")
    keys = np.asarray(keys)
    if keys.shape != (batch,) or keys.dtype != np.uint64:
        raise ValueError(f"keys: expected uint64 [{batch}], received {keys.dtype} {list(keys.shape)}")
    drawn = policy.noise(keys, actions) if noise is None else _numbers("noise", noise, (batch, actions))

    tree = new_tree(batch, simulations + 1, actions)
    stored = Embeddings(root.embedding, batch, simulations + 1)
    write_roots(tree, policy.root_logits(_usable(logits, value, legal), drawn), value, legal)
    parent, action = np.empty(batch, np.int64), np.zeros(batch, np.int64)
    for node in range(1, simulations + 1):
        policy.descend(tree, drawn, parent, action)
        rows = np.flatnonzero(parent != NONE)
        if len(rows):
            above, taken = parent[rows], action[rows]
            step = recurrent(stored.gather(rows, above), taken.copy())
            stored.write(rows, node, step.embedding)
            _grow(tree, node, rows, above, taken, step)
    proposed, weights = policy.decide(tree, drawn, keys)
    return Result(proposed, weights, tree.value[:, ROOT], tree, stored.all())


def _usable(logits: Floats, value: Floats, legal: NDArray[np.bool_]) -> Floats:
    """The root's logits, what is not finite replaced where nothing legal needs it; refuses what is needed."""
    searched = np.asarray(legal.any(axis=1))
    wrong = (legal & ~np.isfinite(logits)).any(axis=1) | (searched & ~np.isfinite(value))
    if wrong.any():
        _refuse(logits, value, legal, int(wrong.argmax()), "root")
    return np.where(searched[:, None], np.where(np.isfinite(logits), logits, -np.inf), 0.0)


def _grow(
    tree: Tree,
    node: int,
    rows: NDArray[np.int64],
    above: NDArray[np.int64],
    taken: NDArray[np.int64],
    step: Step,
) -> None:
    count, actions = len(rows), tree.visits.shape[2]
    reward = _numbers("step.reward", step.reward, (count,))
    discount = _numbers("step.discount", step.discount, (count,))
    logits = _numbers("step.prior_logits", step.prior_logits, (count, actions))
    value = _numbers("step.value", step.value, (count,))
    legal = _mask("step.legal", step.legal, (count, actions))
    wrong = grow(tree, node, rows, above, taken, reward, discount, logits, value, legal)
    if wrong != NONE and not np.isfinite([reward[wrong], discount[wrong]]).all():
        received = f"{reward[wrong]} and {discount[wrong]}"
        raise ValueError(f"step: expected a finite reward and discount, received {received} in row {wrong}")
    _refuse(logits, value, legal, wrong, "step")


def _refuse(logits: Floats, value: Floats, legal: NDArray[np.bool_], wrong: int, what: str) -> None:
    if wrong != NONE:
        received = f"{value[wrong]} and {logits[wrong][legal[wrong]].tolist()} in row {wrong}"
        raise ValueError(
            f"{what}: expected a finite value and finite logits of legal actions, received {received}"
        )


def _numbers(name: str, given: Any, shape: tuple[int, ...] | None) -> Floats:
    """float64, contiguous; shape None = [B, A], neither 0."""
    array = np.ascontiguousarray(_on_host(given), np.float64)
    if shape is None:
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"{name}: expected [B, A], neither of them 0, received {list(array.shape)}")
    elif array.shape != shape:
        raise ValueError(f"{name}: expected shape {list(shape)}, received {list(array.shape)}")
    return array


def _mask(name: str, given: Any, shape: tuple[int, int]) -> NDArray[np.bool_]:
    if given is None:
        return np.ones(shape, np.bool_)
    array = np.ascontiguousarray(_on_host(given))
    if array.shape != shape or array.dtype != np.bool_:
        raise ValueError(f"{name}: expected bool {list(shape)}, received {array.dtype} {list(array.shape)}")
    return array


def _on_host(given: Any) -> Any:
    return given.detach().cpu().numpy() if hasattr(given, "detach") else given
