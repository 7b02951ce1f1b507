"""ES: ranks, the estimate, and whether the mean moves where rewards are higher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from egrl.core import typed_tables
from egrl.core.archive import START, Archive, proposals
from egrl.core.contracts import GENERATION
from egrl.core.method import Context
from egrl.methods import find_method
from egrl.methods.es import Es, EsConfig, centred_ranks, estimate
from hwsim.problem import Evaluation, Mapping16, Status
from policies.store import load_policy, save_policy
from toys import ToyRagged
from workloads.errors import InputError

SMALL = {"network.width": 8, "network.depth": 1, "network.attention_heads": 2}


def build(start: Mapping16 | None = None, init: object = None, **settings: object) -> Es:
    problem = ToyRagged()
    own = typed_tables.build(EsConfig, {**SMALL, **settings}, "test")
    method = find_method("es").build(Context([problem], Archive([problem]), 0, [start], init, 1), own)
    assert isinstance(method, Es)
    return method


def play(method: Es, rounds: int, failing: bool = False) -> list[Evaluation]:
    found, number = [], 0
    for _ in range(rounds):
        batch = method.ask()
        assert batch is not None
        evaluation = ToyRagged().evaluate(batch.mapping, np.zeros(len(batch), np.uint64))
        if failing:
            evaluation.status[:] = Status.FAILED
            evaluation.reward[:] = np.nan
        method.tell(batch.numbered(number), evaluation)
        number += len(batch)
        found.append(evaluation)
    return found


@given(
    arrays(np.float64, st.integers(2, 30), elements=st.sampled_from([-2.0, 0.0, 1.0, 3.5, np.nan, np.inf]))
)
def test_ranks_keep_the_order_share_ties_and_put_failures_last(reward):
    ranks = centred_ranks(reward)
    known = np.where(np.isfinite(reward), reward, -np.inf)
    assert abs(ranks.sum()) < 1e-9
    assert (np.abs(ranks) <= 0.5).all()
    for a in range(len(reward)):
        for b in range(len(reward)):
            assert (ranks[a] < ranks[b]) == (known[a] < known[b])


def test_ranks_do_not_depend_on_the_scale_of_rewards():
    reward = np.array([3.0, -1.0, 7.0, 0.5])
    np.testing.assert_array_equal(centred_ranks(reward), centred_ranks(np.exp(reward)))
    np.testing.assert_allclose(centred_ranks(reward), [1 / 6, -1 / 2, 1 / 2, -1 / 6])


@given(st.integers(0, 2**32), st.integers(1, 8))
def test_the_estimate_is_the_weighted_sum_of_the_noise(seed, pairs):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((pairs, 5), dtype=np.float32)
    reward = rng.standard_normal(2 * pairs)
    expected = np.zeros(5)
    for rank, row in zip(centred_ranks(reward), np.concatenate([noise, -noise]), strict=True):
        expected += rank * row
    found = estimate(reward, noise, 0.1)
    np.testing.assert_allclose(found, expected / (2 * pairs * 0.1), rtol=1e-4, atol=1e-5)


def test_the_estimate_points_uphill_on_a_slope():
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((200, 6), dtype=np.float32)
    slope = np.array([3.0, -2.0, 0.0, 1.0, 0.0, -1.0])
    reward = np.concatenate([noise @ slope, -noise @ slope])
    found = estimate(reward, noise, 0.05)
    assert found @ slope / np.linalg.norm(found) / np.linalg.norm(slope) > 0.95


def test_rewards_that_are_all_equal_or_all_failed_move_nothing():
    noise = np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32)
    assert not estimate(np.ones(6), noise, 0.1).any()
    assert not estimate(np.full(6, np.nan), noise, 0.1).any()
    method = build()
    before = method.state_dict()["centre"].copy()
    play(method, 3, failing=True)
    np.testing.assert_array_equal(method.state_dict()["centre"], before)


def test_a_round_and_the_start_are_a_generation_and_then_the_mean_begins_each():
    problem = ToyRagged()
    method = build(start=problem.space.initial)
    start = proposals(problem.space.initial[None], START).numbered(0)
    method.tell(start, problem.evaluate(start.mapping, np.zeros(1, np.uint64)))
    first = method.ask()
    assert len(first) == GENERATION - 1
    method.tell(first.numbered(1), problem.evaluate(first.mapping, np.zeros(GENERATION - 1, np.uint64)))
    assert np.isnan(method.metrics()["deployable_speedup"])
    second = method.ask()
    assert second is not None
    evaluation = problem.evaluate(second.mapping, np.zeros(GENERATION, np.uint64))
    method.tell(second.numbered(GENERATION), evaluation)
    assert method.metrics()["deployable_speedup"] == evaluation.speedup[0]
    assert set(second.source) == {"es"}


def test_the_mean_learns_the_toy():
    method = build(sigma=0.1, learning_rate=0.05)
    found = play(method, 60)
    first = found[0].reward[1:].mean()
    last = np.mean([evaluation.reward[1:].mean() for evaluation in found[-5:]])
    assert last > first * 1.1
    assert found[-1].speedup[0] > found[0].speedup[0]


def test_its_policy_is_the_mean_and_another_run_begins_with_it(tmp_path: Path):
    method = build()
    play(method, 3)
    stored = method.policy()
    assert stored is not None
    save_policy(tmp_path / "p.safetensors", stored.weights, stored.metadata)
    again = build(init=load_policy(tmp_path / "p.safetensors"))
    np.testing.assert_array_equal(again.state_dict()["centre"], method.state_dict()["centre"])


def test_a_policy_of_another_shape_is_refused(tmp_path: Path):
    stored = build().policy()
    with pytest.raises(InputError, match=r"--init: network.width: expected 4 .* found 8"):
        build(init=stored, **{"network.width": 4})
