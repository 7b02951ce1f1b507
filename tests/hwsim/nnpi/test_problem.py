"""The problem as methods see it."""

from __future__ import annotations

import multiprocessing
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.mappings import repair
from hwsim.nnpi.chip import load_chip, parse_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Evaluation, Problem, Status
from strategies import chips, mappings, workloads
from workloads.errors import InputError
from workloads.features import static_features
from workloads.load import load
from workloads.serialize import from_json
from workloads.workload import Op, Workload


@pytest.fixture(scope="module")
def problem() -> NnpiProblem:
    return NnpiProblem(load("resnet50"), load_chip("nnpi"))


def random_batch(problem: NnpiProblem, rows: int) -> np.ndarray:
    shape = (rows, *problem.space.shape)
    return np.random.default_rng(3).integers(0, 3, shape).astype(np.int16)


def assert_same(a: Evaluation, b: Evaluation) -> None:
    for f in fields(Evaluation):
        assert np.array_equal(getattr(a, f.name), getattr(b, f.name), equal_nan=f.name == "cost"), f.name


def test_it_has_what_the_protocol_asks_for(problem: NnpiProblem):
    as_problem: Problem = problem
    n = len(as_problem.space.nodes)
    assert as_problem.about.name == "nnpi"
    assert as_problem.about.workload == "resnet50"
    assert as_problem.about.chip == "nnpi"
    assert as_problem.space.heads == ("weight", "activation")
    assert as_problem.space.labels == (("dram", "llc", "sram"),) * 2
    assert (
        as_problem.space.shape
        == as_problem.space.num_choices.shape
        == as_problem.space.size_bytes.shape
        == (n, 2)
    )
    assert as_problem.space.num_choices.dtype == np.int16
    assert (as_problem.space.num_choices == 3).all()
    assert as_problem.space.choice_rank.tolist() == [[0.0, 0.5, 1.0]] * 2
    assert as_problem.space.choice_rank.dtype == np.float32
    assert as_problem.space.size_bytes.dtype == np.int64
    assert np.array_equal(as_problem.space.initial, np.where(as_problem.space.live, 0, -1))
    assert as_problem.about.unit == "s"
    assert 0 < problem.bound(5.0).cost <= problem.baseline.cost


def test_observation_is_the_static_features_and_two_columns_of_the_current_mapping(problem: NnpiProblem):
    shown = problem.observation
    assert shown.x.dtype == np.float32
    assert np.array_equal(shown.x[:, :-2], static_features(load("resnet50")))
    assert (shown.x[:, -2:] == 0).all()
    assert shown.edge_index.dtype == np.int64
    assert (shown.edge_index[0] < shown.edge_index[1]).all()


def test_repair_runs_the_rectified_map_and_rewards_the_square_of_the_speedup(problem: NnpiProblem):
    batch = random_batch(problem, 8)
    result = problem.evaluate(batch, np.arange(8, dtype=np.uint64))
    assert (result.epsilon > 0).any()
    assert (result.status == Status.OK).all()
    assert np.array_equal(result.repaired, problem.rectify(batch))
    assert np.array_equal(result.speedup, problem.baseline.cost / result.cost)
    assert np.array_equal(result.reward, result.speedup**2)
    assert result.status.dtype == np.int8
    assert not result.partial.any()


def test_penalise_runs_nothing_where_a_map_had_to_be_moved_and_rewards_minus_epsilon(problem: NnpiProblem):
    strict = NnpiProblem(load("resnet50"), load_chip("nnpi"), NnpiConfig(invalid="penalise"))
    batch = np.concatenate([random_batch(problem, 4), strict.space.initial[None]])
    keys = np.arange(5, dtype=np.uint64)
    result, repaired = strict.evaluate(batch, keys), problem.evaluate(batch, keys)
    invalid = result.epsilon > 0
    assert invalid.tolist() == [True] * 4 + [False]
    assert (result.status == np.where(invalid, Status.INVALID, Status.OK)).all()
    assert np.isnan(result.cost[invalid]).all()
    assert (result.speedup[invalid] == 0).all()
    assert np.array_equal(result.reward[invalid], -result.epsilon[invalid])
    assert np.array_equal(result.repaired[invalid], np.where(strict.space.live, batch, -1)[invalid])
    assert_same(result.rows(~invalid), repaired.rows(~invalid))


def test_the_baseline_has_speedup_one(problem: NnpiProblem):
    result = problem.evaluate(problem.baseline.mapping[None], np.zeros(1, np.uint64))
    assert result.speedup[0] == 1
    assert result.reward[0] == 1


@pytest.mark.slow
@given(st.data())
def test_rows_do_not_influence_each_other_and_the_argument_is_left_alone(data: st.DataObject):
    workload, chip = data.draw(workloads()), data.draw(chips())
    problem = NnpiProblem(workload, chip)
    batch = data.draw(mappings(len(workload), len(chip.memories)))
    before = batch.copy()
    keys = np.array([3, 1, 2], np.uint64)
    whole = problem.evaluate(batch, keys)
    assert np.array_equal(batch, before)
    order = np.array([2, 0, 1])
    assert_same(problem.evaluate(batch[order], keys[order]), whole.rows(order))
    assert_same(
        Evaluation.concatenate([problem.evaluate(batch[i : i + 1], keys[i : i + 1]) for i in range(3)]), whole
    )


def test_an_empty_batch_gives_an_empty_evaluation(problem: NnpiProblem):
    result = problem.evaluate(np.zeros((0, *problem.space.shape), np.int16), np.zeros(0, np.uint64))
    assert len(result) == 0
    assert result.repaired.shape == (0, *problem.space.shape)


def test_repair_is_the_canonical_identity(problem: NnpiProblem):
    batch = random_batch(problem, 2)
    repaired = repair(problem, batch, np.zeros(2, np.uint64))
    assert np.array_equal(repaired, np.where(problem.space.live, batch, -1))
    with pytest.raises(ValueError, match="mapping"):
        repair(problem, batch + np.int16(7), np.zeros(2, np.uint64))


def _costs(problem: NnpiProblem, batch: np.ndarray) -> np.ndarray:
    return problem.evaluate(batch, np.arange(len(batch), dtype=np.uint64)).cost


@pytest.mark.exhaustive
def test_a_pickled_problem_gives_equal_costs_in_a_spawned_process(problem: NnpiProblem):
    batch = random_batch(problem, 5)
    copy = pickle.loads(pickle.dumps(problem))
    assert copy.fingerprint() == problem.fingerprint()
    assert np.array_equal(_costs(copy, batch), _costs(problem, batch))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply(problem.evaluate, (batch, np.arange(5, dtype=np.uint64)))
    assert_same(result, problem.evaluate(batch, np.arange(5, dtype=np.uint64)))


def test_fingerprint_changes_with_workload_chip_and_settings_and_with_nothing_else(problem: NnpiProblem):
    chip = load_chip("nnpi")
    same = NnpiProblem(load("resnet50"), chip, NnpiConfig())
    assert same.fingerprint() == problem.fingerprint()
    others = [
        NnpiProblem(load("resnet18"), chip),
        NnpiProblem(load("resnet50"), replace(chip, effects=replace(chip.effects, prefetch=False))),
        NnpiProblem(load("resnet50"), chip, NnpiConfig(invalid="penalise")),
        NnpiProblem(load("resnet50"), chip, NnpiConfig(baseline="weights-first")),
    ]
    assert len({p.fingerprint() for p in (problem, *others)}) == 5


def test_kept_files_rebuild_an_equal_problem(problem: NnpiProblem):
    kept = problem.files()
    chip = parse_chip(kept["chip.toml"], "chip.toml")
    again = NnpiProblem(from_json(kept["workload.json"], "workload.json"), chip, problem.config)
    assert again.fingerprint() == problem.fingerprint()


def test_a_workload_that_the_slowest_memory_cannot_hold_is_the_users_error():
    shape = (1, 1, 1)
    ops = (
        Op("a", "conv", (), shape, shape, 60, weight_bytes=50, vector_ops=1),
        Op("b", "conv", (), shape, shape, 70, weight_bytes=20, vector_ops=1),
    )
    base = load_chip("nnpi")
    for capacity, fits in ((140, True), (139, False)):
        memories = (replace(base.memories[0], capacity_bytes=capacity), *base.memories[1:])
        if fits:
            assert (
                NnpiProblem(Workload("w", ops), replace(base, memories=memories)).judge(
                    np.zeros((2, 2), np.int16)
                )
                == []
            )
        else:
            with pytest.raises(
                InputError, match=r"'w' on chip 'nnpi'.*dram.*demanded 140 bytes, available 139"
            ):
                NnpiProblem(Workload("w", ops), replace(base, memories=memories))


def test_a_workload_in_which_nothing_takes_time_is_the_users_error():
    base = load_chip("nnpi")
    idle = Workload("idle", (Op("a", "other", (), (1, 1, 1), (1, 1, 1), 1),))
    assert NnpiProblem(idle, base).baseline.cost > 0
    with pytest.raises(InputError, match=r"'idle'.*compute time or the overhead effect"):
        NnpiProblem(idle, replace(base, effects=replace(base.effects, overhead=False)))


def test_an_unknown_way_with_invalid_maps_is_the_users_error():
    with pytest.raises(InputError, match=r"problem.invalid: expected repair or penalise, found 'ignore'"):
        NnpiProblem(load("resnet18"), load_chip("nnpi"), NnpiConfig(invalid="ignore"))


def test_the_noise_of_profiles_is_keyed_unbiased_and_changes_nothing_else():
    workload, chip = load("alexnet"), load_chip("nnpi")
    quiet, noisy = NnpiProblem(workload, chip), NnpiProblem(workload, chip, NnpiConfig(profile_noise=0.1))
    keys = np.arange(2000, dtype=np.uint64)
    rows = np.repeat(quiet.baseline.mapping[None], len(keys), axis=0)
    true, found = quiet.evaluate(rows, keys), noisy.evaluate(rows, keys)
    np.testing.assert_array_equal(found.cost, true.cost)
    np.testing.assert_array_equal(found.parts[7:9], noisy.evaluate(rows[7:9], keys[7:9]).parts)
    factor = found.parts.astype(float) / true.parts
    np.testing.assert_allclose(factor.mean(axis=0), 1.0, atol=5 * 0.1 / np.sqrt(len(keys)))
    np.testing.assert_allclose(factor.std(axis=0), 0.1, rtol=0.1)
    assert abs(np.corrcoef(factor[:, 0], factor[:, 1])[0, 1]) < 0.1


def test_a_setting_of_profiles_leaves_runs_made_before_it_what_they_were():
    workload, chip = load("alexnet"), load_chip("nnpi")
    plain, same, other = (
        NnpiProblem(workload, chip, config).fingerprint()
        for config in (NnpiConfig(), NnpiConfig(profile_noise=0.0), NnpiConfig(profile_noise=0.1))
    )
    assert plain == same != other
