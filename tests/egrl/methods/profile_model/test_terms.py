"""The critic of terms: what it learns of loads and of times of instructions, and what it proposes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import egrl
from egrl.methods.profile_model import terms
from egrl.methods.profile_model.contract import ProfileModelConfig
from egrl.methods.profile_model.data import NOTHING_S, Measured
from egrl.methods.profile_model.member import profile_model_of
from egrl.methods.profile_model.op_times import OpTimesModel
from egrl.methods.profile_model.terms import PART_NOISE, Belief, Blocks, TermsModel
from egrl.problems import build_problem
from hwsim.mappings import sample_uniformly
from hwsim.mcm.config import McmConfig
from hwsim.mcm.cost import loads
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.mmap.problem import MmapProblem
from hwsim.problem import Status
from subjects import SMALL
from subjects import problem as subject
from workloads.load import load

CONFIG = ProfileModelConfig(steps=20, proposals=4)


@pytest.fixture(scope="module")
def problem() -> McmProblem:
    return McmProblem(load("conv_lstm"), load_package("mcm36"))


def critic(problem: McmProblem) -> TermsModel:
    found = profile_model_of(problem, CONFIG)
    assert isinstance(found, TermsModel)
    return found


def measured(problem: McmProblem, count: int, noise: float = 0.0, seed: int = 0) -> Measured:
    """Random partitions, the loads of their chips and links with noise, and their costs with a fifth of it."""
    rng = np.random.default_rng(seed)
    rows = problem.sample(None, np.arange(1000 * seed, 1000 * seed + count, dtype=np.uint64))
    exact = loads(problem.tables, rows[:, :, 0])
    cost = exact.max(axis=1) * np.exp(0.2 * noise * rng.standard_normal(count))
    seen = np.maximum(exact * np.exp(noise * rng.standard_normal(exact.shape)), NOTHING_S)
    ones = np.ones(count, np.int64)
    return Measured(np.arange(count), rows, np.log(cost), np.log(seen), ones, 0.2 * noise, "max", cost**-2.0)


def thought(learner: TermsModel, data: Measured, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Belief]:
    seen = {row.tobytes() for row in data.mapping}
    work = learner.think(data, seen, np.random.default_rng(seed))
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def unseen_error(problem: McmProblem, seconds: np.ndarray) -> float:
    """The median relative error of the costs of other random partitions."""
    fresh = measured(problem, 50, seed=9)
    assert problem.parts.terms is not None
    predicted = (problem.parts.terms.held(fresh.mapping) @ seconds).reshape(50, -1).max(axis=1)
    return float(np.median(np.abs(np.log(predicted) - fresh.log_cost)))


def test_which_critic_learns_what(problem):
    assert isinstance(profile_model_of(subject("nnpi"), CONFIG), OpTimesModel)
    assert isinstance(profile_model_of(subject("mmap"), CONFIG), TermsModel)
    assert profile_model_of(subject("toy-bag"), CONFIG) is None
    device = McmProblem(load("resnet50"), load_package("mcm36"), McmConfig(model="device"))
    assert profile_model_of(device, CONFIG) is None
    assert critic(problem).least < OpTimesModel.least


def test_exact_loads_teach_what_other_partitions_cost(problem):
    errors = []
    for count in (4, 60):
        *_, belief = thought(critic(problem), measured(problem, count))
        errors.append(unseen_error(problem, belief.seconds))
    assert errors[1] < 0.02
    assert errors[1] < errors[0] / 3


@pytest.mark.exhaustive
def test_noisy_loads_teach_nearly_as_much_and_how_noisy_they_are(problem):
    learner, data = critic(problem), measured(problem, 60, noise=0.1)
    for _ in range(3):
        *_, belief = thought(learner, data)
    assert learner.metrics()["profile_model_noise"] == pytest.approx(0.1, rel=0.25)
    assert unseen_error(problem, belief.seconds) < 0.06
    quiet = critic(problem)
    for _ in range(3):
        thought(quiet, measured(problem, 60, noise=0.02))
    assert quiet.metrics()["profile_model_noise"] < 0.03 < PART_NOISE


def test_loads_that_are_not_known_are_left_out(problem):
    data = measured(problem, 80, noise=0.02)
    hidden = np.random.default_rng(0).random(data.log_seconds.shape) < 0.4
    data.log_seconds[hidden] = np.nan
    *_, belief = thought(critic(problem), data)
    assert unseen_error(problem, belief.seconds) < 0.05


@pytest.mark.parametrize("said", [np.nan, NOTHING_S])
def test_profiles_that_say_nothing_lead_to_no_proposal(problem, said):
    data = measured(problem, 6)
    data.log_seconds[:] = np.log(said)
    batch, estimate, _ = thought(critic(problem), data)
    assert batch.shape == (0, *data.mapping.shape[1:])
    np.testing.assert_array_equal(estimate, data.earned)


def test_profiles_of_what_did_not_run_are_no_reason_to_begin(problem):
    with egrl.Search(problem, method="egrl", seed=0) as search:
        while search.evaluations < 40 and (batch := search.ask(limit=8)) is not None:
            found = problem.evaluate(batch.proposals.mapping, batch.key)
            status = np.full(len(found.status), Status.INVALID, np.int8)
            search.tell(batch, replace(found, status=status, cost=np.full(len(status), np.nan)))
    assert search.evaluations >= 40


def test_draws_are_near_where_much_is_known_and_far_where_little_is(problem):
    spreads = []
    for count in (4, 60):
        learner = critic(problem)
        posterior = learner._learned(measured(problem, count, noise=0.05))
        rng = np.random.default_rng(0)
        draws = np.stack([posterior.draw(rng) for _ in range(40)])
        assert (draws >= 0).all()
        spreads.append(float((draws.std(axis=0) / posterior.spread)[: len(problem.space.nodes)].mean()))
    assert spreads[1] < 0.7 * spreads[0]


def test_proposals_are_new_valid_and_better(problem):
    data = measured(problem, 60)
    batch, estimate, _ = thought(critic(problem), data)
    assert len(batch) == CONFIG.proposals
    assert not {row.tobytes() for row in batch} & {row.tobytes() for row in data.mapping}
    assert not any(problem.judge(row) for row in batch)
    np.testing.assert_array_equal(estimate, data.earned)  # exact costs are believed
    assert loads(problem.tables, batch[:, :, 0]).max(axis=1).min() < np.exp(data.log_cost.min())


@pytest.mark.slow
def test_what_was_learned_survives_a_checkpoint(problem):
    data, (one, other) = measured(problem, 30, noise=0.05), (critic(problem), critic(problem))
    _, _, belief = thought(one, data)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    for mine, theirs in zip(thought(one, data, 3)[:2], thought(other, data, 3)[:2], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    again = other.belief_of(belief.state_dict())
    np.testing.assert_array_equal(other.estimate(again, data), one.estimate(belief, data))


def test_blocks_are_solved_as_one_matrix_would_be():
    """Against dense algebra, with blocks of several sizes that lie mixed."""
    rng = np.random.default_rng(0)
    block = rng.permutation(np.repeat([0, 1, 2, 3, 4], [1, 3, 3, 1, 7]))
    rows = rng.standard_normal((40, 15)) * (block == rng.integers(0, 5, 40)[:, None])
    told = rows.T @ rows
    blocks = Blocks(block)
    factors = blocks.factor(sparse.coo_array(told))
    right, matrix = rng.standard_normal((15, 2)), told + np.eye(15)
    np.testing.assert_allclose(blocks.solve(factors, right), np.linalg.solve(matrix, right), atol=1e-12)
    np.testing.assert_allclose(
        blocks.solve(factors, right[:, 0]), np.linalg.solve(matrix, right[:, 0]), atol=1e-12
    )
    # x = L'^-1 z of unit normals z has the inverse for its covariance.
    back = blocks.solve(factors, np.eye(15), only_back=True)
    np.testing.assert_allclose(back @ back.T, np.linalg.inv(matrix), atol=1e-12)


def played(problem: MmapProblem, count: int, seed: int = 0) -> Measured:
    """Random games, the times of their instructions and their costs."""
    keys = np.arange(1000 * seed, 1000 * seed + count, dtype=np.uint64)
    rows = problem.evaluate(sample_uniformly(problem, keys), keys)
    seconds = np.log(np.maximum(rows.parts, NOTHING_S))
    ones = np.ones(count, np.int64)
    return Measured(
        np.arange(count), rows.repaired, np.log(rows.cost), seconds, ones, 0.01, "sum", rows.reward
    )


def test_instructions_teach_what_others_take_though_some_wait(monkeypatch):
    """Of games not seen: three times better than the prior, and than with all parts believed alike."""
    program = subject("mmap")
    assert isinstance(program, MmapProblem)
    data, fresh = played(program, 60), played(program, 40, seed=9)
    assert data.exact

    def error(seconds: np.ndarray) -> float:
        held, known = critic(program)._known(fresh)
        return float(np.median(np.abs(held @ np.maximum(seconds, 0.0) / known - 1.0)))

    learner = critic(program)
    learned = error(learner._learned(data).mean)
    prior = error(learner._prior(*learner._known(data)))
    monkeypatch.setattr(terms, "_tails", lambda off, heavy: (0.05, np.ones(len(off))))
    alike = error(critic(program)._learned(data).mean)
    assert learned < 0.02
    assert prior > 3 * learned
    assert alike > 1.5 * learned


@pytest.mark.slow
def test_rewards_rank_where_costs_are_exact():
    """The reward of this problem is a return, and no function of the cost."""
    program = subject("mmap")
    assert isinstance(program, MmapProblem)
    data = played(program, 30)
    by_reward = np.argsort(-data.reward)
    assert not np.array_equal(by_reward, np.argsort(data.log_cost))
    _, estimate, _ = thought(critic(program), data)
    np.testing.assert_array_equal(np.argsort(estimate), by_reward)


@pytest.mark.exhaustive
def test_instructions_save_games():
    """Twenty-five games with it reach more than a hundred without."""
    program = build_problem("mmap", "rnn_2", "", [])
    table = [f"method.{key}={value}" for key, value in SMALL["egrl"].items()]
    given = {"method": "egrl", "seed": 0, "quiet": True, "bound_seconds": 0.0}
    learned = egrl.search(program, evals=25, settings=table, **given)
    plain = egrl.search(program, evals=100, settings=[*table, "method.profile_model.use=off"], **given)
    assert learned.history["best_reward"][-1] > plain.history["best_reward"][-1] + 0.01


@pytest.mark.slow
def test_loads_save_samples():
    """Sixty samples with it reach more than three hundred without, where good partitions are no pipelines."""
    problem = McmProblem(load("mixer_s16"), load_package("mcm36"))
    table = [f"method.{key}={value}" for key, value in SMALL["egrl"].items()]
    given = {"method": "egrl", "seed": 1, "quiet": True, "bound_seconds": 0.0}
    learned = egrl.search(problem, evals=60, settings=table, **given)
    plain = egrl.search(problem, evals=300, settings=[*table, "method.profile_model.use=off"], **given)
    assert learned.history["champion_source"][-1] == "profile_model"
    assert learned.speedup > 1.2 * plain.speedup
    assert "profile_model_share" not in plain.history
