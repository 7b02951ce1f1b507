"""Terms of instructions: what times are sums of, and local search on terms alone."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim.mmap.game import MmapGame
from hwsim.mmap.problem import MmapProblem
from hwsim.mmap.rules.state import DROP
from hwsim.mmap.tables import savings_s
from hwsim.mmap.terms import InstructionTerms
from subjects import problem as subject


@pytest.fixture(scope="module")
def problem() -> MmapProblem:
    found = subject("mmap")
    assert isinstance(found, MmapProblem)
    return found


@pytest.fixture(scope="module")
def terms(problem: MmapProblem) -> InstructionTerms:
    found = problem.parts.terms
    assert isinstance(found, InstructionTerms)
    return found


def games(problem: MmapProblem, count: int, seed: int = 0) -> np.ndarray:
    """Random games int16 [B, N, 1] as they were played."""
    wishes = np.random.default_rng(seed).integers(3, size=(count, len(problem.tables.buffer)))
    return problem.game.play(wishes.astype(np.int16)).action[:, :, None]


def drawn(terms: InstructionTerms, seed: int = 0) -> np.ndarray:
    """Terms of any size, in microseconds."""
    return np.random.default_rng(seed).uniform(0.0, 1e-6, len(terms.size))


def test_a_part_holds_its_instruction_and_the_buffers_in_hbm(problem, terms):
    """Against a loop in plain Python."""
    rows, seconds = games(problem, 5), drawn(terms)
    held = (terms.held(rows) @ seconds).reshape(5, -1)
    steps = len(problem.tables.step)
    assert held.shape == (5, len(problem.parts))
    for row, found in zip(rows[:, :, 0], held, strict=True):
        expected = [seconds[t] + seconds[steps + t] for t in range(steps)] + [0.0]
        for b, action in enumerate(row.tolist()):
            if action <= DROP:
                expected[problem.tables.buffer["step"][b]] += seconds[2 * steps + b]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_no_part_holds_terms_of_two_blocks(problem, terms):
    held = terms.held(games(problem, 3)).tocoo()
    row, column = held.coords
    np.testing.assert_array_equal(terms.block[column], row % len(problem.parts))


@pytest.mark.parametrize(
    "scale", [1.0, 1e15]
)  # the second is what a board that tells nanoseconds may come to
def test_games_on_known_terms_take_the_sum_of_the_terms_and_obey_the_same_rules(problem, terms, scale):
    rows, seconds = games(problem, 8), scale * drawn(terms)
    known = MmapGame(terms.known(seconds), problem.game.granule_bytes)
    played = known.play(rows[:, :, 0])
    np.testing.assert_array_equal(played.action, problem.game.play(rows[:, :, 0]).action)
    expected = (terms.held(played.action[:, :, None]) @ seconds).reshape(8, -1).sum(axis=1)
    np.testing.assert_allclose(played.cost_s, expected, rtol=1e-6)


def test_improving_knows_no_time_but_terms(problem, terms):
    tables = problem.tables
    other = tables._replace(buffer=tables.buffer.copy(), step=tables.step.copy(), hbm_Bps=1.0)
    other.step["compute_s"] = 1.0
    for name in ("read_bytes", "write_bytes"):
        other.buffer[name] = 1
    elsewhere = InstructionTerms(MmapGame(other, problem.game.granule_bytes))
    given = {"steps": 500, "hot": 0.02, "key": 1}
    start = problem.baseline.mapping
    here, there = (each.improve(drawn(terms), start, **given) for each in (terms, elsewhere))
    np.testing.assert_array_equal(here, there)
    assert not np.array_equal(here, start)


def test_improving_keeps_the_rules_and_can_be_repeated(problem, terms):
    start = problem.baseline.mapping
    for seed in range(3):
        seconds = drawn(terms, seed)
        given = {"steps": 2000, "hot": 0.02, "key": seed}
        found = terms.improve(seconds, start, **given)
        assert not problem.judge(found)
        np.testing.assert_array_equal(found, terms.improve(seconds, start, **given))
        np.testing.assert_array_equal(problem.game.play(found[None, :, 0]).action[0], found[:, 0])
        took = (terms.held(np.stack([start, found])) @ seconds).reshape(2, -1).sum(axis=1)
        assert took[1] < 0.98 * took[0]


def test_improving_on_true_savings_beats_the_heuristic(problem, terms):
    steps = len(problem.tables.step)
    saved = np.maximum(savings_s(problem.tables), 0.0)
    truth = np.concatenate([problem.tables.step["supply_s"], np.zeros(steps), saved])
    found = terms.improve(truth, problem.baseline.mapping, steps=5000, hot=0.02, key=0)
    reward = problem.evaluate(np.stack([problem.baseline.mapping, found]), np.zeros(2, np.uint64)).reward
    assert reward[1] > reward[0] + 0.01
    nothing = terms.improve(np.zeros(len(truth)), found, steps=500, hot=0.02, key=0)
    assert not problem.judge(nothing)
