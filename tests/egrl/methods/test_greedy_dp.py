"""Greedy-DP: what one node's turn tries, what it keeps, and where the walk goes on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods.greedy_dp import GreedyDp, GreedyDpConfig, joint_choices
from hwsim.mappings import sample_uniformly
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.problem import Evaluation, Keys, Mapping16, Problem, Status
from toys import ToyRagged
from workloads.load import load


def build(*problems: Problem, start: Mapping16 | None = None, seed: int = 0, neighbours: int = 0) -> GreedyDp:
    starts = [start] * len(problems)
    return GreedyDp(Context(problems, Archive(problems), seed, starts), GreedyDpConfig(neighbours))


def drive(method: GreedyDp, problems: list[Problem], evaluations: int) -> list[tuple[int, Mapping16, float]]:
    """(problem, what ran, reward) of the first evaluations."""
    found: list[tuple[int, Mapping16, float]] = []
    while len(found) < evaluations:
        batch = method.ask()
        assert batch is not None
        batch = batch.numbered(len(found))
        key = np.zeros(len(batch), np.uint64)
        measured = problems[batch.problem].evaluate(batch.mapping, key)
        method.tell(batch, measured)
        rows = zip(measured.repaired, measured.reward, strict=True)
        found += [(batch.problem, mapping, float(reward)) for mapping, reward in rows]
    return found


def by_hand(problem: Problem, mapping: Mapping16) -> tuple[Mapping16, float]:
    """The fixed point of passes that look at every joint choice of a node, by plain loops."""
    key = np.zeros(1, np.uint64)
    reward = float(problem.evaluate(mapping[None], key).reward[0])
    moved = True
    while moved:
        moved = False
        for node in range(len(problem.space.nodes)):
            best = mapping
            for joint in np.ndindex(*problem.space.num_choices[node].tolist()):
                candidate = mapping.copy()
                candidate[node] = np.where(problem.space.size_bytes[node] > 0, joint, -1)
                found = float(problem.evaluate(candidate[None], key).reward[0])
                if found > reward:
                    best, reward, moved = candidate, found, True
            mapping = best
    return mapping, reward


def test_a_node_of_the_chip_has_eight_other_joint_choices():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    sizes = [len(joint_choices(problem, n, problem.space.initial)) for n in range(len(problem.space.nodes))]
    live = problem.space.live.sum(axis=1)
    assert sizes == [3**heads - 1 for heads in live.tolist()]
    assert 8 in sizes


@given(st.integers(0, 6), st.integers(0, 2**32))
def test_a_nodes_candidates_are_all_different_and_touch_no_other_node(node, key):
    problem = ToyRagged()
    mapping = sample_uniformly(problem, np.array([key], np.uint64))[0]
    candidates = joint_choices(problem, node, mapping)
    live = problem.space.size_bytes[node] > 0
    assert len(candidates) == np.prod(problem.space.num_choices[node][live], initial=1) - 1
    assert len(np.unique(candidates, axis=0)) == len(candidates)
    assert (np.delete(candidates, node, axis=1) == np.delete(mapping, node, axis=0)).all()
    assert not (candidates == mapping).all(axis=(1, 2)).any()
    assert (candidates[:, node, ~live] == -1).all()


def test_it_stops_where_no_node_can_be_improved_alone():
    problem = ToyRagged()
    method = build(problem)
    rewards: list[float] = []
    while True:
        rewards += [reward for _, _, reward in drive(method, [problem], 1)]
        if method.metrics()["walks"] > 1:
            break
    _, reward = by_hand(problem, problem.space.initial)
    assert max(rewards[:-1]) == reward > 1
    assert method.metrics()["passes"] >= 2


def test_the_mapping_in_place_is_measured_once_and_kept_where_nothing_is_better():
    problem = ToyRagged()
    best, reward = by_hand(problem, problem.space.initial)
    method = build(problem, start=best)
    rows = drive(method, [problem], 40)
    np.testing.assert_array_equal(rows[0][1], best)
    first_pass = sum(len(joint_choices(problem, n, best)) for n in range(len(problem.space.nodes)))
    assert all(value <= reward for _, _, value in rows[: 1 + first_pass])
    assert not any((mapping == best).all() for _, mapping, _ in rows[1 : 1 + first_pass])


def test_a_walk_that_is_stuck_begins_anew_somewhere_else():
    problem = ToyRagged()
    best, _ = by_hand(problem, problem.space.initial)
    method = build(problem, start=best)
    a_pass = sum(len(joint_choices(problem, n, best)) for n in range(len(problem.space.nodes)))
    drive(method, [problem], 1 + a_pass)
    assert (method.metrics()["walks"], method.metrics()["passes"]) == (1, 0)
    _, mapping, reward = drive(method, [problem], 1)[0]
    assert (method.metrics()["walks"], method.metrics()["passes"]) == (2, 1)
    assert method.metrics()["walk_speedup"] ** 2 == pytest.approx(reward)
    assert (mapping != best).any()


def test_beside_a_nodes_candidates_it_measures_mappings_a_few_moves_away():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    method = build(problem, neighbours=5)
    drive(method, [problem], 1)
    place = method._mapping
    batch = method.ask()
    candidates = joint_choices(problem, 0, place)
    assert len(batch) == len(candidates) + 5
    assert {row.tobytes() for row in candidates} == {row.tobytes() for row in batch.mapping[:-5]}
    method.tell(batch.numbered(1), problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64)))
    assert (batch.mapping[-5:] != place).any(axis=(1, 2)).all()
    assert (batch.mapping[-5:] != place).any(axis=2).sum(axis=1).max() > 1


def test_with_neighbours_a_walk_goes_on_where_no_node_can_be_improved_alone():
    problem = ToyRagged()
    best, _ = by_hand(problem, problem.space.initial)
    method = build(problem, start=best, neighbours=3)
    drive(method, [problem], 200)
    assert method.metrics()["walks"] == 1
    assert method.metrics()["passes"] > 2


class Moving(ToyRagged):
    """What runs has the last head of node 2 at its first choice, whatever was asked for."""

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        settled = self.space.canonical(mapping)
        settled[:, 2, 1] = 0
        every = np.ones(len(settled), np.bool_)
        return Evaluation.of_costs(
            self.costs(settled), self.baseline.cost, every, settled, np.zeros(len(settled))
        )


def test_it_goes_on_from_what_ran_and_not_from_what_it_asked_for():
    problem = Moving()
    start = problem.space.initial.copy()
    assert problem.space.num_choices[2, 1] > 1
    start[2, 1] = 1
    method = build(problem, start=start)
    drive(method, [problem], 1)
    batch = method.ask()
    assert batch is not None
    assert (batch.mapping[:, 2, 1] == 0).all()


def test_node_after_node_of_a_real_network_it_measures_all_and_keeps_the_best():
    problem = NnpiProblem(load("resnet101"), load_chip("nnpi"))
    method = build(problem)
    rows = drive(method, [problem], 200)
    mapping, reward = rows[0][1], rows[0][2]
    at = 1
    for node in range(10):
        candidates = joint_choices(problem, node, mapping)
        batch = rows[at : at + len(candidates)]
        at += len(candidates)
        asked = problem.evaluate(candidates, np.zeros(len(candidates), np.uint64))
        expected = {row.tobytes() for row in asked.repaired}
        assert {ran.tobytes() for _, ran, _ in batch} == expected
        best = max(batch, key=lambda row: row[2])
        if best[2] > reward:
            mapping, reward = best[1], best[2]
    assert at > 60


def test_a_failed_measurement_is_never_the_best():
    problem = ToyRagged()
    method = build(problem)
    batch = method.ask()
    assert batch is not None
    method.tell(batch.numbered(0), problem.evaluate(batch.mapping, np.zeros(1, np.uint64)))
    before = method.metrics()["walk_speedup"]
    batch = method.ask()
    assert batch is not None
    lost = replace(
        problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64)),
        reward=np.full(len(batch), np.nan),
        status=np.full(len(batch), Status.FAILED, np.int8),
    )
    method.tell(batch.numbered(1), lost)
    assert method.metrics()["walk_speedup"] == before
