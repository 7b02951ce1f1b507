"""Trees equal those that mctx grew from the same network, roots and noise (`golden_trees.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from egrl_muzero.mcts import Gumbel, Puct, Result, Root, Step, search

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.npz"))
Arrays = Mapping[str, NDArray[Any]]


def searched(golden: Arrays) -> Result:
    """The same search with egrl's trees."""

    def recurrent(embedding: NDArray[np.float64], action: NDArray[np.int64]) -> Step:
        hidden = embedding @ golden["weights.hidden"] + golden["weights.taken"][action]
        h = np.tanh(hidden + golden["weights.bias"])
        raw = h @ golden["weights.discount"]
        discount = 0.9 + 0.1 / (1 + np.exp(-raw))
        if golden["endings"]:
            discount[raw > 1.5] = 0.0
        reward, value = h @ golden["weights.reward"], h @ golden["weights.value"]
        return Step(reward, discount, h @ golden["weights.logits"], value, h)

    state = golden["state"]
    root = Root(state @ golden["weights.logits"], state @ golden["weights.value"], state, golden["legal"])
    considered = int(golden["considered"])
    policy = Gumbel(max_num_considered_actions=considered) if considered else Puct()
    keys = np.zeros(len(state), np.uint64)
    return search(root, recurrent, golden["child"].shape[1] - 1, policy, keys, golden["noise"])


def not_below_an_end(golden: Arrays) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """bool [B, N] each: nodes that are over, and nodes that are neither over nor below such a node."""
    child, discount = golden["child"], golden["discount"]
    over, inside = np.zeros(child.shape[:2], np.bool_), np.zeros(child.shape[:2], np.bool_)
    inside[:, 0] = True
    for b, n in np.ndindex(child.shape[:2]):
        for a in np.flatnonzero(child[b, n] >= 0):
            over[b, child[b, n, a]] = inside[b, n] and discount[b, n, a] == 0
            inside[b, child[b, n, a]] = inside[b, n] and discount[b, n, a] != 0
    return over, inside


def test_there_are_golden_trees_of_both_policies_with_invalid_actions_and_endings() -> None:
    names = {path.stem for path in GOLDEN}
    assert names >= {f"{p}{c}" for p in ("puct", "gumbel") for c in ("", "-invalid", "-endings")}
    for name in ("puct-endings", "gumbel-endings"):
        over, inside = not_below_an_end(np.load(GOLDEN[0].parent / f"{name}.npz"))
        assert over.sum() > 5
        assert inside.sum() > 50


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_trees_equal_those_of_mctx_node_for_node(path: Path) -> None:
    golden = np.load(path)
    found = searched(golden)
    over, inside = not_below_an_end(golden)
    assert np.array_equal(found.tree.child[inside], golden["child"][inside])
    assert np.array_equal(found.tree.visits[inside], golden["visits"][inside])
    assert np.array_equal(found.tree.node_visits[inside | over], golden["node_visits"][inside | over])
    assert np.array_equal(found.tree.terminal, over)
    assert np.abs(found.tree.value - golden["value"])[inside].max() < 1e-5
    assert np.abs(found.tree.reward - golden["reward"])[inside].max() < 1e-5
    assert np.abs(found.tree.discount - golden["discount"])[inside].max() < 1e-5
    assert np.abs(found.weights - golden["weights"]).max() < 1e-5
    if golden["considered"]:
        assert np.array_equal(found.action, golden["action"])


def test_no_node_grows_below_an_end() -> None:
    for path in GOLDEN:
        golden = np.load(path)
        over, inside = not_below_an_end(golden)
        tree = searched(golden).tree
        assert (tree.child[over] == -1).all()
        assert (tree.node_visits[~(over | inside)] == 0).all()
