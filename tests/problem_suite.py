"""What every problem must do. A file of tests takes all of this, with a fixture `problem` of its own."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest

from egrl.core import mapping_file
from hwsim.capabilities import HasBound, HasFiles, HasObservation
from hwsim.mappings import repair, sample, sample_uniformly
from hwsim.problem import Problem, Status
from workloads.errors import InputError


def keys(rows: int, first: int = 0) -> np.ndarray:
    return np.arange(first, first + rows, dtype=np.uint64)


def draws(problem: Problem, rows: int, first: int = 0) -> np.ndarray:
    return sample_uniformly(problem, keys(rows, first))


def same(a, b) -> None:
    for name in vars(a):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_its_arrays_agree_in_shape_and_type(problem):
    nodes, heads = problem.space.num_choices.shape
    assert problem.space.num_choices.dtype == np.int16
    assert problem.space.shape == problem.space.size_bytes.shape == (nodes, heads)
    assert problem.space.size_bytes.dtype == np.int64
    assert (len(problem.space.nodes), len(problem.space.heads), len(problem.space.labels)) == (
        nodes,
        heads,
        heads,
    )
    assert len(set(problem.space.nodes)) == nodes
    live = problem.space.live
    assert (problem.space.num_choices[live] >= 1).all()
    for head, labels in enumerate(problem.space.labels):
        assert len(labels) >= problem.space.num_choices[:, head].max()
    assert problem.space.choice_rank.shape == (heads, problem.space.most_choices)
    assert problem.space.choice_rank.min() >= 0
    assert problem.space.choice_rank.max() <= 1
    assert (problem.space.initial[~live] == -1).all()
    if isinstance(problem, HasObservation):
        assert problem.observation.x.dtype == np.float32
        assert problem.observation.x.shape[0] == nodes
        assert np.isfinite(problem.observation.x).all()
        assert problem.observation.edge_index.shape[0] == 2


def test_the_baseline_has_speedup_one_or_what_it_says_and_no_violation(problem):
    found = problem.evaluate(problem.baseline.mapping[None], keys(1))
    assert found.status[0] == Status.OK
    assert problem.judge(problem.baseline.mapping) == []
    if not _noisy(problem):
        assert found.speedup[0] == problem.baseline.cost / found.cost[0]
        if not problem.baseline.nearest:
            assert found.speedup[0] == found.reward[0] == 1.0
            assert found.cost[0] == problem.baseline.cost


def test_the_rules_that_it_knows_are_valid_and_can_be_pickled(problem):
    for name, mapping in pickle.loads(pickle.dumps(problem.baseline)).rules().items():
        assert mapping.dtype == np.int16
        assert problem.judge(mapping) == [], name
        np.testing.assert_array_equal(mapping, problem.space.canonical(mapping))


@pytest.mark.parametrize("seconds", [0, 2.0])
def test_no_mapping_is_better_than_the_bound(problem, seconds):
    if not isinstance(problem, HasBound):
        return
    bound, quiet = problem.bound(seconds), not _noisy(problem)
    found = problem.evaluate(draws(problem, 50), keys(50))
    assert bound.cost >= 0
    assert bound.proof
    assert bound.seconds >= 0
    assert found.reward.max() <= bound.reward
    if quiet and (found.status == Status.OK).any():
        assert np.nanmin(found.cost) >= bound.cost * (1 - 1e-12)


def _noisy(problem: Problem) -> bool:
    mapping = problem.baseline.mapping[None]
    return problem.evaluate(mapping, keys(1, 1)).cost[0] != problem.evaluate(mapping, keys(1, 2)).cost[0]


def test_evaluating_twice_or_row_by_row_gives_the_same(problem):
    mapping = draws(problem, 9)
    whole = problem.evaluate(mapping, keys(9))
    same(whole, problem.evaluate(mapping.copy(), keys(9)))
    for row in range(9):
        at = slice(row, row + 1)
        same(whole.rows(at), problem.evaluate(mapping[at], keys(9)[at]))


def test_evaluating_leaves_its_arguments_alone(problem):
    mapping, key = draws(problem, 4), keys(4)
    before = mapping.copy()
    problem.evaluate(mapping, key)
    repair(problem, mapping, key)
    np.testing.assert_array_equal(mapping, before)
    np.testing.assert_array_equal(key, keys(4))


def test_what_ran_has_a_finite_cost_and_no_violation_and_is_a_fixed_point(problem):
    found = problem.evaluate(draws(problem, 12), keys(12))
    ok = found.status == Status.OK
    assert np.isfinite(found.cost[ok]).all()
    assert (found.cost[ok] > 0).all()
    assert np.isfinite(found.reward).all()
    assert (found.speedup[~ok] == 0).all()
    assert np.isnan(found.cost[~ok]).all()
    assert ((found.epsilon >= 0) & (found.epsilon <= 1)).all()
    assert found.repaired.dtype == np.int16
    for mapping in found.repaired[ok]:
        assert problem.judge(mapping) == []
    again = problem.evaluate(found.repaired, keys(12))
    np.testing.assert_array_equal(again.repaired, found.repaired)
    np.testing.assert_array_equal(again.cost[ok], found.cost[ok])
    assert (again.epsilon[ok] == 0).all()


def test_what_is_invalid_breaks_a_rule_by_the_judge(problem):
    drawn = draws(problem, 40)
    found = problem.evaluate(drawn, keys(40))
    for mapping in drawn[found.status == Status.INVALID]:
        assert problem.judge(mapping) != []


def test_a_cheaper_mapping_has_a_greater_speedup_and_reward_unless_that_is_a_return(problem):
    found = problem.evaluate(draws(problem, 20), keys(20))
    ok = np.flatnonzero(found.status == Status.OK)
    order = ok[np.argsort(found.cost[ok])]
    for cheap, dear in pairwise(order):
        if problem.about.name != "mmap" or problem.config.reward != "return":
            assert found.reward[cheap] >= found.reward[dear]
        assert found.speedup[cheap] >= found.speedup[dear]


def test_samples_are_canonical_legal_and_keyed(problem):
    mapping = draws(problem, 30)
    live = problem.space.live
    assert mapping.dtype == np.int16
    assert (mapping[:, ~live] == -1).all()
    assert (mapping < problem.space.num_choices).all()
    np.testing.assert_array_equal(mapping, draws(problem, 30))
    np.testing.assert_array_equal(mapping[7:9], draws(problem, 2, 7))
    assert len(np.unique(mapping.reshape(30, -1), axis=0)) > 1


def test_certain_probabilities_return_the_mapping_they_name(problem):
    wanted = problem.baseline.mapping
    certain = np.zeros((3, *wanted.shape, problem.space.most_choices), np.float32)
    for n, h in np.argwhere(wanted >= 0):
        certain[:, n, h, wanted[n, h]] = 1.0
    np.testing.assert_array_equal(sample(problem, certain, keys(3)), np.stack([wanted] * 3))


def test_repairing_twice_changes_nothing_more(problem):
    once = repair(problem, draws(problem, 8), keys(8))
    np.testing.assert_array_equal(repair(problem, once, keys(8)), once)


@pytest.mark.parametrize("wrong", ["dtype", "shape", "choice", "key"])
def test_wrong_arrays_are_refused(problem, wrong):
    mapping, key = draws(problem, 2), keys(2)
    if wrong == "dtype":
        mapping = mapping.astype(np.int64)
    elif wrong == "shape":
        mapping = mapping[:, :-1]
    elif wrong == "choice":
        mapping[0][problem.space.live] = 99
    else:
        key = key[:1]
    with pytest.raises(ValueError, match="expected"):
        problem.evaluate(mapping, key)


def test_it_survives_pickling(problem):
    mapping = draws(problem, 5)
    copy = pickle.loads(pickle.dumps(problem))
    same(copy.evaluate(mapping, keys(5)), problem.evaluate(mapping, keys(5)))
    assert copy.fingerprint() == problem.fingerprint()


def test_a_mapping_file_gives_back_its_mapping(problem):
    for mapping in problem.evaluate(draws(problem, 3), keys(3)).repaired:
        text = mapping_file.dumps(problem, mapping)
        np.testing.assert_array_equal(mapping_file.loads(text, "f.json", problem), mapping)


def test_a_mapping_file_of_another_workload_is_refused(problem):
    text = mapping_file.dumps(problem, problem.space.initial).replace(
        f'"{problem.about.workload}"', '"other"', 1
    )
    with pytest.raises(InputError, match=r"f\.json: workload: expected .* found 'other'"):
        mapping_file.loads(text, "f.json", problem)


def test_it_names_its_inputs(problem):
    if isinstance(problem, HasFiles):
        assert problem.files()
        assert all(isinstance(content, str | bytes) and content for content in problem.files().values())
    assert len(problem.fingerprint()) == 64
