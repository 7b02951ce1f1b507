"""Placing nodes on chips by score: features as plain loops, partitions that follow the scores where rules let them."""

from __future__ import annotations

import numpy as np
import pytest

import egrl
from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import load_package
from hwsim.mcm.placer import FARTHEST, FEATURE_NAMES
from hwsim.mcm.problem import McmProblem
from policies.places import Places
from policies.ranker import by_hand
from workloads.load import load

NONE_FREE = np.zeros(1)


def problem_of(workload: str = "resnet18", chips: int = 6) -> McmProblem:
    return McmProblem(load(workload), load_package("mcm36"), McmConfig(chips=chips))


@pytest.fixture(scope="module")
def problem() -> McmProblem:
    return problem_of()


def test_distances_are_those_of_plain_loops(problem):
    """Of the share of the network before a node, its own half included, from the middle of a chip, in chips."""
    tables, found = problem.tables, problem.placer.features
    sent = dict.fromkeys(range(len(tables.compute_s)), 0.0) | dict(
        zip(tables.source.tolist(), tables.tensor_s.tolist(), strict=True)
    )
    measures = {
        "seconds": tables.compute_s.tolist(),
        "weights": tables.weight_bytes.tolist(),
        "sent": list(sent.values()),
        "number": [1.0] * len(sent),
    }
    assert all(u < v for u, v in tables.edges.tolist())  # the order is that of the numbers here
    assert not found[:, 0].any()
    for name, values in measures.items():
        at, before = FEATURE_NAMES.index(f"distance_by_{name}"), 0.0
        for node, value in enumerate(values):
            where = (before + value / 2) / sum(values) * tables.chips
            before += value
            for chip in range(tables.chips):
                distance = min(abs(where - chip - 0.5), FARTHEST)
                assert found[node, chip + 1, at] == pytest.approx(distance, abs=1e-4)
                assert found[node, chip + 1, at + 1] == pytest.approx(distance**2 / FARTHEST, abs=1e-4)


def test_the_rule_by_hand_balances_the_seconds_of_chips(problem):
    placer = problem.placer
    seen = Places.of(placer, problem.space.shape)
    scores = seen.linear(by_hand(FEATURE_NAMES, 1)[None, :-1].reshape(1, 1, 2, -1))
    mapping = placer.place(scores, NONE_FREE)
    assert problem.judge(mapping[0]) == []
    loads = np.bincount(mapping[0, :, 0], weights=problem.tables.compute_s, minlength=6)
    assert loads.max() < 1.5 * loads.mean()
    assert np.array_equal(placer.place(scores, NONE_FREE), mapping)


def test_a_chip_that_suits_a_node_much_better_is_taken_before_others_are():
    """All nodes like chip 0 a little, one in the middle likes chip 1 a lot: it gets it, with those that read it."""
    problem = problem_of(chips=3)
    nodes = len(problem.placer.node)
    scores = np.zeros((1, nodes, 4), np.float32)
    scores[:, :, 1] = 0.1
    scores[0, nodes // 2, 2] = 5.0
    placed = problem.placer.place(scores, NONE_FREE)[0, :, 0]
    assert placed[nodes // 2] == 1
    assert (placed[: nodes // 4] == 0).all()


def test_there_is_no_placer_without_a_solver():
    without = McmProblem(load("resnet18"), load_package("mcm36"), McmConfig(chips=6, solver=False))
    assert not hasattr(without, "placer")


@pytest.mark.slow
def test_ranking_policies_find_more_than_those_that_name_chips():
    """After 63 partitions without loads, on three networks together."""

    def best(*settings: str) -> float:
        found = [
            egrl.search(name, problem="mcm", method="ea", evals=63, seed=0, settings=settings).speedup
            for name in ("resnext101", "regnet_x", "conv_lstm")
        ]
        return float(np.log(found).sum())

    assert best() > best("method.readout=greedy") + 0.2


def test_what_is_proposed_runs_where_the_rules_let_it(problem):
    """Scores of valid partitions with noise that changes no best chip give these partitions."""
    rng = np.random.default_rng(0)
    wanted = problem.sample(None, np.arange(20, dtype=np.uint64))
    scores = rng.uniform(0.0, 1.0, (20, *problem.placer.features.shape[:2])).astype(np.float32)
    rows, nodes = np.ogrid[:20, : len(problem.placer.node)]
    scores[rows, nodes, wanted[:, :, 0] + 1] = 1.2
    assert np.array_equal(problem.placer.place(scores, np.zeros(20)), wanted)
