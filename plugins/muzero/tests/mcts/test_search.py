"""The batched search equals its twin node for node, and does what its docstrings say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from egrl_muzero.mcts import Gumbel, Policy, Puct, Result, Root, Step, search
from egrl_muzero.mcts.embeddings import map_leaves
from egrl_muzero.mcts.noise import dirichlets, gumbels
from search_twin import Rules, Search, TwinGumbel, TwinPuct


class Tables:
    """A random decision process with S states; few different numbers, so that ties are common."""

    def __init__(self, seed: int, states: int, actions: int, legal: float, ends: float) -> None:
        rng = np.random.default_rng(seed)
        edge = (states, actions)
        self.following = rng.integers(0, states, edge)
        self.reward = rng.choice([-1.0, 0.0, 0.0, 0.5, 1.0], edge)
        self.discount = np.where(rng.random(edge) < ends, 0.0, rng.choice([1.0, 0.9], edge))
        self.logits = rng.choice([-1.0, 0.0, 0.0, 2.0], edge)
        self.value = rng.choice([-0.5, 0.0, 1.0], states)
        self.legal = rng.random(edge) < legal

    def root(self, state: NDArray[np.int64]) -> Root:
        return Root(self.logits[state], self.value[state], state, self.legal[state])

    def recurrent(self, state: NDArray[np.int64], action: NDArray[np.int64]) -> Step:
        assert self.legal[state, action].all()
        after = self.following[state, action]
        paid, kept = self.reward[state, action], self.discount[state, action]
        return Step(paid, kept, self.logits[after], self.value[after], after, self.legal[after])

    def rules(self) -> Rules:
        parts = (self.following, self.reward, self.discount, self.logits, self.value, self.legal)
        return Rules(*(part.tolist() for part in parts))


def keys(batch: int, first: int = 0) -> NDArray[np.uint64]:
    return np.arange(first, first + batch, dtype=np.uint64)


def assert_equals_twin(found: Result, b: int, twin: Search) -> None:
    """Children, visits, values and the rest of tree b, to the last bit."""
    tree = found.tree
    assert set(np.flatnonzero(tree.node_visits[b])) == set(twin.nodes)
    for number, node in twin.nodes.items():
        assert tree.node_visits[b, number] == len(node.returns)
        assert tree.value[b, number] == node.mean
        assert tree.raw_value[b, number] == node.raw_value
        assert tree.terminal[b, number] == node.over
        for a in node.actions:
            child = node.children.get(a)
            assert tree.child[b, number, a] == (child.number if child else -1)
            assert tree.visits[b, number, a] == node.visits(a)
            if child:
                assert tree.q[b, number, a] == node.q(a)
                assert (tree.parent[b, child.number], tree.action[b, child.number]) == (number, a)
                assert found.embeddings[b, child.number] == child.state


@given(
    st.integers(0, 2**32),
    st.integers(1, 8),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 40),
    st.sampled_from((1.0, 0.7, 0.4)),
    st.sampled_from((0.0, 0.2)),
    st.integers(1, 6),
    st.sampled_from(((2.0, 100.0), (1.25, 19652.0), (0.0, 1e300))),
)
def test_trees_equal_the_twins_node_for_node(
    seed: int,
    states: int,
    actions: int,
    batch: int,
    simulations: int,
    legal: float,
    ends: float,
    most: int,
    weight: tuple[float, float],
) -> None:
    tables = Tables(seed, states, actions, legal, ends)
    start = np.arange(batch) % states
    puct = Puct(pb_c_init=weight[0], pb_c_base=weight[1])
    found = search(tables.root(start), tables.recurrent, simulations, puct, keys(batch))
    for b in range(batch):
        logits = found.tree.logits[b, 0].tolist()
        assert_equals_twin(found, b, Search(tables.rules(), start[b], TwinPuct(*weight), simulations, logits))
    noise = np.random.default_rng(seed).choice([0.0, 1.0, 3.0], (batch, actions))
    policy = Gumbel(max_num_considered_actions=most, value_scale=0.05, maxvisit_init=20.0)
    found = search(tables.root(start), tables.recurrent, simulations, policy, keys(batch), noise)
    for b in range(batch):
        chooser = TwinGumbel(noise[b].tolist(), most, simulations, 0.05, 20.0)
        twin = Search(tables.rules(), start[b], chooser, simulations)
        assert_equals_twin(found, b, twin)
        if twin.root.over:
            assert found.action[b] == -1
            assert found.weights[b].sum() == 0
        else:
            most_visits = max(twin.root.visits(a) for a in twin.root.actions)
            assert found.action[b] == chooser.best(twin.root, chooser.improved(twin.root), most_visits)


def bandit(batch: int, simulations: int, policy: Policy, first_key: int = 0, over: bool = False) -> Result:
    """Three actions that pay 0, 1 and 2 and end the game; in the last row the root may be over."""
    legal = np.ones((batch, 3), np.bool_)
    legal[-1] = not over

    def recurrent(state: Any, action: NDArray[np.int64]) -> Step:
        rows = len(action)
        return Step(action.astype(float), np.zeros(rows), np.zeros((rows, 3)), np.full(rows, np.nan), state)

    root = Root(np.zeros((batch, 3)), np.ones(batch), np.zeros(batch), legal)
    return search(root, recurrent, simulations, policy, keys(batch, first_key))


@pytest.mark.parametrize("policy", [Puct(), Gumbel()])
def test_a_games_search_is_a_function_of_its_key(policy: Policy) -> None:
    tables = Tables(5, 6, 3, 0.8, 0.1)
    start = np.arange(6)
    whole = search(tables.root(start), tables.recurrent, 25, policy, keys(6))
    for b in range(6):
        alone = search(tables.root(start[b : b + 1]), tables.recurrent, 25, policy, keys(1, b))
        assert alone.action[0] == whole.action[b]
        assert all(np.array_equal(x[0], y[b]) for x, y in zip(alone.tree, whole.tree, strict=True))
    others = search(tables.root(start), tables.recurrent, 25, policy, keys(6, 100))
    assert not np.array_equal(others.tree.visits, whole.tree.visits)


@pytest.mark.parametrize("policy", [Puct(), Gumbel()])
def test_a_root_without_a_legal_action_is_not_searched(policy: Policy) -> None:
    found = bandit(3, 20, policy, over=True)
    assert found.action[2] == -1
    assert found.value[2] == 0
    assert (found.weights[2] == 0).all()
    assert (found.tree.child[2] == -1).all()
    assert np.allclose(found.weights[:2].sum(axis=1), 1)
    assert (found.action[:2] >= 0).all()


@pytest.mark.parametrize("policy", [Puct(), Gumbel()])
def test_a_game_that_is_over_is_never_evaluated_again_and_pays_again(policy: Policy) -> None:
    found = bandit(1, 50, policy)
    assert (found.tree.node_visits[0, 1:] > 0).sum() == 3
    assert found.tree.visits[0, 0].sum() == 50
    assert found.tree.q[0, 0].tolist() == [0, 1, 2]
    assert found.value[0] == (1 + found.tree.visits[0, 0] @ [0, 1, 2]) / 51


@pytest.mark.parametrize("policy", [Puct(), Gumbel()])
def test_numbers_that_nothing_legal_needs_may_be_anything(policy: Policy) -> None:
    legal = np.array([[True, False, True], [False, False, False]])
    logits = np.array([[0.0, np.nan, 1.0], [-np.inf, np.nan, np.inf]])

    def recurrent(state: Any, action: NDArray[np.int64]) -> Step:
        junk = np.full((len(action), 3), np.nan)
        return Step(np.ones(len(action)), np.ones(len(action)), junk, junk[:, 0], state, junk == 0)

    root = Root(logits, np.array([0.5, np.nan]), np.zeros(2), legal)
    found = search(root, recurrent, 10, policy, keys(2))
    assert found.tree.visits[:, 0].sum(axis=1).tolist() == [10, 0]
    assert found.tree.visits[0, 0, 1] == 0
    assert np.isfinite(found.weights).all()
    assert found.value.tolist() == [10.5 / 11, 0]


def test_temperature_0_takes_the_most_visited_action_and_1_draws_by_visits() -> None:
    still = Puct(dirichlet_fraction=0, temperature=0)
    assert (bandit(50, 30, still).action == 2).all()
    drawn = bandit(4000, 30, Puct(dirichlet_fraction=0))
    shares = np.bincount(drawn.action, minlength=3) / 4000
    assert drawn.weights[0].min() > 0.02
    assert np.abs(shares - drawn.weights[0]).max() < 4 * np.sqrt(0.25 / 4000)


def test_noise_has_the_moments_of_its_distribution() -> None:
    rows = dirichlets(keys(20_000), 4, 0.3)
    assert np.allclose(rows.sum(axis=1), 1)
    assert np.abs(rows.mean(axis=0) - 0.25).max() < 0.01
    assert np.abs(rows.var(axis=0) - 0.25 * 0.75 / 2.2).max() < 0.005
    large = dirichlets(keys(20_000), 3, 4.0)
    assert np.abs(large.var(axis=0) - (2 / 9) / 13).max() < 0.001
    small = dirichlets(keys(5000), 3, 0.001)
    assert np.isfinite(small).all()
    assert np.abs(small.mean(axis=0) - 1 / 3).max() < 0.03
    numbers = gumbels(keys(20_000), 3)
    assert np.abs(numbers.mean(axis=0) - 0.5772).max() < 0.04
    assert np.abs(numbers.var(axis=0) - np.pi**2 / 6).max() < 0.1


def test_tensors_and_nested_embeddings_give_the_same_tree_as_arrays() -> None:
    torch = pytest.importorskip("torch")
    tables = Tables(3, 6, 3, 0.8, 0.1)
    start = np.arange(4)
    plain = search(tables.root(start), tables.recurrent, 30, Gumbel(), keys(4))

    def recurrent(state: dict[str, Any], action: NDArray[np.int64]) -> Step:
        number = state["pair"][0].numpy()
        assert np.array_equal(state["pair"][1][:, 1], number)
        step = tables.recurrent(number, action)
        nested = nest(step.embedding)
        reward, logits = torch.from_numpy(step.reward), torch.from_numpy(step.prior_logits)
        return Step(reward, step.discount, logits.requires_grad_(), step.value, nested, step.legal)

    def nest(number: NDArray[np.int64]) -> dict[str, Any]:
        pair = (torch.from_numpy(number), np.stack([number, number], axis=1))
        return {"pair": pair, "nothing": np.zeros((len(number), 0))}

    root = tables.root(start)
    nested_root = Root(root.prior_logits, torch.from_numpy(root.value), nest(start), root.legal)
    nested = search(nested_root, recurrent, 30, Gumbel(), keys(4))
    assert all(np.array_equal(x, y) for x, y in zip(plain.tree, nested.tree, strict=True))
    used = plain.tree.node_visits > 0
    assert np.array_equal(nested.embeddings["pair"][0].numpy()[used], plain.embeddings[used])


def test_differently_built_embeddings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"embedding: expected tuple of \[0, 1\], received tuple of \[0\]"):
        map_leaves(lambda x, y: x, (1, 2), (1,))
    with pytest.raises(ValueError, match=r"embedding: expected dict of \['a'\], received int"):
        map_leaves(lambda x, y: x, {"a": 1}, 1)


def with_root(**changes: Any) -> None:
    given: dict[str, Any] = {
        "prior_logits": np.zeros((2, 3)),
        "value": np.zeros(2),
        "embedding": np.zeros((2, 4)),
        **changes,
    }
    with_step({}, Root(**given))


def with_step(changes: dict[str, Any], root: Root | None = None) -> None:
    step: dict[str, Any] = {
        "reward": np.zeros(2),
        "discount": np.ones(2),
        "prior_logits": np.zeros((2, 3)),
        "value": np.zeros(2),
        "embedding": np.zeros((2, 4)),
        **changes,
    }
    start = root or Root(np.zeros((2, 3)), np.zeros(2), np.zeros((2, 4)))
    search(start, lambda state, action: Step(**step), 3, Puct(), keys(2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prior_logits": np.zeros(3)}, r"root.prior_logits: expected \[B, A\], neither of them 0, received"),
        ({"value": np.zeros(3)}, r"root.value: expected shape \[2\], received \[3\]"),
        ({"value": np.array([0, np.nan])}, r"root: expected a finite value .* received nan .* in row 1"),
        ({"prior_logits": np.full((2, 3), -np.inf)}, r"root: expected .* finite logits of legal actions"),
        ({"legal": np.ones((2, 3))}, r"root.legal: expected bool \[2, 3\], received float64 \[2, 3\]"),
        ({"embedding": np.zeros((3, 4))}, r"embedding: expected arrays \[2, …\], received ndarray \[3, 4\]"),
    ],
)
def test_a_wrong_root_is_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_root(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"reward": np.zeros(3)}, r"step.reward: expected shape \[2\], received \[3\]"),
        ({"discount": np.array([1, np.inf])}, r"finite reward and discount, received 0.0 and inf in row 1"),
        ({"prior_logits": np.full((2, 3), np.nan)}, r"step: expected .* finite logits of legal actions"),
        ({"value": np.array([np.nan, 0])}, r"step: expected a finite value .* received nan .* in row 0"),
        ({"legal": np.ones((2, 2), np.bool_)}, r"step.legal: expected bool \[2, 3\], received bool \[2, 2\]"),
        (
            {"embedding": np.zeros((2, 5))},
            r"expected ndarray float64 \[2, 4\], received ndarray float64 \[2, 5\]",
        ),
        ({"embedding": np.zeros((2, 4), int)}, r"embedding: expected ndarray float64 .* ndarray int64"),
        ({"embedding": (np.zeros((2, 4)),)}, r"embedding: expected ndarray float64 .* received tuple"),
    ],
)
def test_a_wrong_step_is_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with_step({})
    with pytest.raises(ValueError, match=message):
        with_step(wrong)


def test_wrong_settings_are_refused_by_name() -> None:
    for made, message in (
        (lambda: Puct(dirichlet_fraction=2), "dirichlet_fraction: expected 0 to 1, received 2"),
        (lambda: Puct(dirichlet_alpha=0), "dirichlet_alpha, pb_c_base: expected more than 0"),
        (lambda: Puct(temperature=-1), "temperature: expected 0 or more, received -1"),
        (lambda: Gumbel(max_num_considered_actions=0), "max_num_considered_actions: expected 1 or more"),
        (lambda: Gumbel(gumbel_scale=-1), "gumbel_scale: expected 0 or more, received -1"),
        (lambda: bandit(2, 0, Puct()), "simulations: expected 1 or more, received 0"),
    ):
        with pytest.raises(ValueError, match=message):
            made()
    with pytest.raises(ValueError, match=r"keys: expected uint64 \[1\], received int64 \[1\]"):
        search(
            Root(np.zeros((1, 2)), np.zeros(1), np.zeros(1)), lambda s, a: None, 1, Puct(), np.zeros(1, int)
        )  # type: ignore
