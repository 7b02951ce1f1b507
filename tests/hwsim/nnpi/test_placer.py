"""Placing by score: equal to a plain loop, always valid, and the rules as scores equal to a first fit."""

from __future__ import annotations

import numpy as np
import pytest
from capability_suite import scores_of
from hypothesis import given
from hypothesis import strategies as st

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.placer import RULES, NnpiPlacer, compile_map
from hwsim.nnpi.problem import NnpiProblem
from hwsim.nnpi.tables import WEIGHT, Tables, Tensors
from strategies import chips, workloads
from workloads.load import load


def problem_of(workload, chip) -> NnpiProblem:
    return NnpiProblem(workload, chip)


class Room:
    """What each memory holds at each step, as plain lists."""

    def __init__(self, tables: Tables, found: Tensors, free_share: float) -> None:
        self._found, self._ops = found, len(tables.weight_bytes)
        self._held = [[0] * self._ops for _ in tables.capacity_bytes]
        self._limit = [float(capacity) for capacity in tables.capacity_bytes]
        self._limit[tables.into] *= 1 - free_share

    def take(self, tensor: int, memory: int) -> bool:
        """Put a tensor in a memory if it fits."""
        found, held = self._found, self._held[memory]
        steps = range(found.first[tensor], found.last[tensor] + 1)
        size = int(found.size_bytes[tensor])
        if memory > 0 and any(held[step] + size > self._limit[memory] for step in steps):
            return False
        for step in steps:
            held[step] += size
        return True


def placed_plainly(problem: NnpiProblem, scores: np.ndarray, free_share: float) -> np.ndarray:
    """The map of scores [T, L], by the definition of `hwsim.placing`."""
    found = problem.placer.tensors
    room = Room(problem.tables, found, free_share)
    best = [max(row[1:]) - row[0] for row in scores.tolist()]
    mapping = np.full((len(problem.space.nodes), 2), -1, np.int16)
    for tensor in sorted(range(len(best)), key=lambda t: (-np.float32(best[t]), t)):
        row = scores[tensor].tolist()
        wanted = sorted((m for m in range(1, len(row)) if row[m] > row[0]), key=lambda m: (-row[m], -m))
        memory = next((m for m in wanted if room.take(tensor, m)), 0)
        mapping[found.op[tensor], found.head[tensor]] = memory
    return mapping


def drawn(problem: NnpiProblem, seed: int, rows: int = 3) -> np.ndarray:
    """Scores with ties, -inf and many below those of the slowest memory."""
    rng = np.random.default_rng(seed)
    shape = (rows, *problem.placer.features.shape[:2])
    scores = np.round(rng.normal(0.3, 1, shape), 1).astype(np.float32)
    scores[:, :, 1:][rng.random((*shape[:2], shape[2] - 1)) < 0.1] = -np.inf
    return scores


@pytest.mark.slow
@given(workloads(), chips(), st.integers(0, 99), st.sampled_from([0.0, 0.125, 0.5, 1.0]))
def test_placing_is_what_a_plain_loop_over_tensors_by_priority_does(workload, chip, seed, free_share):
    problem = problem_of(workload, chip)
    scores = drawn(problem, seed)
    made = problem.placer.place(scores, np.full(len(scores), free_share))
    for mapping, row in zip(made, scores, strict=True):
        np.testing.assert_array_equal(mapping, placed_plainly(problem, row, free_share))


@pytest.mark.slow
@given(workloads(), chips(), st.integers(0, 99))
def test_what_is_placed_is_valid_and_is_what_runs(workload, chip, seed):
    problem = problem_of(workload, chip)
    made = problem.placer.place(drawn(problem, seed), np.zeros(3))
    assert all(problem.judge(mapping) == [] for mapping in made)
    np.testing.assert_array_equal(problem.rectify(made), made)


@given(workloads(), chips(), st.sampled_from(sorted(RULES)))
def test_a_rule_puts_each_tensor_in_its_order_in_the_fastest_memory_with_room(workload, chip, name):
    rule, problem = RULES[name], problem_of(workload, chip)
    tables, found = problem.tables, problem.placer.tensors
    room = Room(tables, found, rule.free_share)
    mapping = np.full((len(workload.ops), 2), -1, np.int16)
    keys = list(zip(*(key.tolist() for key in rule.order(found)), strict=True))
    for tensor in sorted(range(len(found.op)), key=lambda t: keys[t]):
        largest = rule.largest_share * tables.capacity_bytes.astype(float)
        memories = [m for m in range(len(largest) - 1, 0, -1) if found.size_bytes[tensor] <= largest[m]]
        memory = next((m for m in memories if room.take(tensor, m)), 0)
        mapping[found.op[tensor], found.head[tensor]] = memory
    np.testing.assert_array_equal(compile_map(tables, rule), mapping)


@pytest.mark.slow
@given(workloads(), chips(), st.integers(0, 99))
def test_a_valid_mapping_has_scores_that_place_it(workload, chip, seed):
    problem = problem_of(workload, chip)
    placer = problem.placer
    valid = placer.place(drawn(problem, seed), np.zeros(3))
    scores = scores_of(placer, valid)
    np.testing.assert_array_equal(placer.place(scores, np.zeros(3)), valid)


def test_the_free_share_keeps_bytes_of_the_prefetch_memory_and_of_no_other():
    problem = problem_of(load("resnet50"), load_chip("nnpi"))
    scores = np.ones((2, *problem.placer.features.shape[:2]), np.float32)
    scores[:, :, 0] = 0
    full, spared = problem.placer.place(scores, np.array([0.0, 0.5]))
    into = problem.tables.into
    most = [problem.occupancy(mapping).occupied_bytes.max(axis=0) for mapping in (full, spared)]
    assert most[1][into] <= problem.tables.capacity_bytes[into] // 2 < most[0][into]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, f: (s.astype(np.float64), f), r"scores: expected float32 \[B, 111, 3\]"),
        (lambda s, f: (s[:, 1:], f), r"scores: expected float32 \[B, 111, 3\]"),
        (lambda s, f: (np.where(s == s, np.float32(np.nan), s), f), "scores: expected finite"),
        (lambda s, f: (np.full_like(s, -np.inf), f), "scores: expected finite"),
        (lambda s, f: (s, f + 2), "free_share: expected 1 numbers in 0..1"),
        (lambda s, f: (s, np.zeros(2)), "free_share: expected 1 numbers"),
    ],
)
def test_scores_that_cannot_be_placed_are_refused(change, message):
    placer = problem_of(load("resnet50"), load_chip("nnpi")).placer
    scores, share = change(np.zeros((1, *placer.features.shape[:2]), np.float32), np.zeros(1))
    with pytest.raises(ValueError, match=message):
        placer.place(scores, share)


def test_tensors_are_named_by_node_and_decision_and_their_features_are_finite():
    problem = problem_of(load("bert"), load_chip("nnpi"))
    placer = problem.placer
    assert isinstance(placer, NnpiPlacer)
    assert problem.space.live[placer.node, placer.head].all()
    assert len(placer.node) == problem.space.live.sum()
    assert placer.features.shape == (len(placer.node), 3, len(placer.feature_names))
    assert np.isfinite(placer.features).all()
    assert not placer.features[:, 0].any()
    assert (placer.features[:, 1:, placer.feature_names.index("one")] == 1).all()
    assert (placer.tensors.head == WEIGHT).any()
