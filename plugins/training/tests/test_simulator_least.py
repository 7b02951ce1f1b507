"""The least peak, and batches: beside every plan of small steps, and beside a search one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl_training.simulator.batches import Batches, are_alike, are_equal, largest, largest_near
from egrl_training.simulator.least import fastest_within, floor_bytes, least_peak, peak_of
from egrl_training.simulator.simulate import simulate
from egrl_training.simulator.tables import build_tables
from egrl_training.steps.step import Op, TrainingStep, Value

SECONDS, NEAR = 60.0, 1e-6


def chain(sizes: list[int], batch: int = 1, seconds: float = 1.0) -> TrainingStep:
    """Ops in a row, each reads what the one before made; the backward pass reads all of it in turn."""
    count = len(sizes)
    values = [Value("x", sizes[0] * batch, role="input")]
    values += [Value(f"v{n}", size * batch) for n, size in enumerate(sizes)]
    values += [Value("t", 4, role="tangent")]
    values += [Value(f"g{n}", size * batch) for n, size in enumerate(reversed(sizes))]
    tangent = count + 1
    ops = [Op(f"f{n}", "mm", "forward", (n,), (n + 1,), seconds * (n + 1)) for n in range(count)]
    ops += [
        Op(f"b{n}", "mm", "backward", (tangent + n, count - n), (tangent + n + 1,), seconds)
        for n in range(count)
    ]
    return TrainingStep("chain", tuple(values), tuple(ops), (count,), (tangent + count,))


def every_plan(step: TrainingStep) -> np.ndarray:
    """int16 [P, N]."""
    return np.array(list(itertools.product((0, 1), repeat=len(step.candidates))), np.int16)


steps = st.lists(st.integers(1, 40), min_size=2, max_size=7).map(chain)


@given(steps)
def test_no_plan_is_below_the_floor(step: TrainingStep) -> None:
    tables = build_tables(step, 0)
    assert simulate(tables, every_plan(step))[1].min() >= floor_bytes(tables)


@pytest.mark.parametrize(
    "sizes", [[8] * 8, [40, 1, 40, 1, 40, 1, 40], [5, 30, 7, 22, 9, 1, 14], [64, 32, 16, 8, 4]]
)
def test_the_least_peak_is_that_of_the_best_of_all_plans(sizes: list[int]) -> None:
    step = chain(sizes)
    tables = build_tables(step, 100)
    least = simulate(tables, every_plan(step))[1].min()
    assert peak_of(tables, least_peak(step, tables, SECONDS)) == least


@pytest.mark.slow
def test_the_fastest_plan_within_a_limit_is_the_fastest_of_all_that_fit() -> None:
    step = chain([8] * 5)
    tables = build_tables(step, 0)
    plans = every_plan(step)
    seconds, peaks = simulate(tables, plans)
    least = plans[peaks.argmin()]
    for limit in sorted(set(peaks.tolist())):
        found = fastest_within(tables, [least], limit, SECONDS, NEAR)
        assert found is not None
        spent, peak = simulate(tables, found[None])
        assert peak[0] <= limit
        assert spent[0] == pytest.approx(seconds[peaks <= limit].min())
    assert fastest_within(tables, [least], int(peaks.min()) - 1, SECONDS, NEAR) is None


def test_a_step_without_decisions_has_one_plan() -> None:
    values = (Value("x", 8, role="input"), Value("y", 4), Value("t", 4, role="tangent"), Value("g", 8))
    ops = (Op("f", "sum", "forward", (0,), (1,), 1.0), Op("b", "expand", "backward", (2,), (3,), 1.0))
    step = TrainingStep("sum", values, ops, (1,), (3,))
    tables = build_tables(step, 0)
    assert not len(least_peak(step, tables, SECONDS))


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6), st.integers(1, 9), st.integers(1, 50))
def test_a_step_at_two_batches_gives_it_at_any(sizes: list[int], batch: int, wanted: int) -> None:
    def at(batch: int) -> TrainingStep:
        return chain(sizes, batch, seconds=0.5 * batch)

    batches = Batches(batch, build_tables(at(batch), 7), 2 * batch, build_tables(at(2 * batch), 7))
    assert batches.is_affine()
    assert are_equal(batches.at(wanted), build_tables(at(wanted), 7))
    assert batches.at(wanted).seconds == pytest.approx(build_tables(at(wanted), 7).seconds)


def test_sizes_that_grow_unevenly_and_other_ops_are_not_taken_for_affine() -> None:
    def between(one: TrainingStep, other: TrainingStep) -> Batches:
        return Batches(4, build_tables(one, 0), 8, build_tables(other, 0))

    step = chain([8, 4])
    assert not between(step, chain([9, 4])).is_affine()
    assert between(step, chain([12, 4])).is_affine()
    assert not between(step, chain([8, 4, 4])).is_affine()
    assert are_alike(build_tables(step, 0), build_tables(chain([12, 4]), 0))
    assert not are_equal(build_tables(step, 0), build_tables(chain([12, 4]), 0))


@given(st.integers(0, 5000), st.integers(-3, 3))
def test_the_largest_batch_is_found_near_a_guess_in_a_few_questions(most: int, off: int) -> None:
    asked: list[int] = []

    def fits(batch: int) -> bool:
        asked.append(batch)
        return batch <= most

    assert largest_near(fits, most + off) == most
    assert len(asked) <= 6
    assert min(asked) > 0
    assert largest_near(fits, 7 * most // 3) == most


@given(st.integers(0, 5000), st.integers(1, 600))
def test_the_largest_batch_is_found_from_anywhere(most: int, first: int) -> None:
    asked: list[int] = []

    def fits(batch: int) -> bool:
        asked.append(batch)
        return batch <= most

    assert largest(fits, first) == most
    assert len(asked) <= 30
    assert min(asked) > 0
