"""Measuring: medians and their intervals, repeating, candidates in turn, loops long enough for the clock."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.measure import (
    Measurement,
    Practice,
    interleave,
    loops,
    relative_noise,
    repeat,
    samples_needed,
)


def noisy(middle: float, sigma: float, seed: int):
    rng = np.random.default_rng(seed)
    return lambda: float(middle * (1 + sigma * rng.standard_normal()))


def test_the_interval_of_the_median_covers_it_in_about_95_of_100_cases():
    for count in (6, 11, 20):
        rng = np.random.default_rng(count)
        hits = 0
        for _ in range(2000):
            low, high = Measurement(tuple(np.exp(rng.standard_normal(count)))).interval
            hits += low <= 1.0 <= high
        assert 0.93 <= hits / 2000 <= 1.0


def test_few_samples_are_as_uncertain_as_the_noise_known_before_says():
    low, high = Measurement((1.0,), noise=0.1).interval
    assert high - 1.0 == pytest.approx(1.0 - low) == pytest.approx(1.96 * math.sqrt(math.pi / 2) * 0.1)
    assert Measurement((1.0,)).half_width == 0.0
    four = Measurement((1.0, 1.0, 1.0, 1.0), noise=0.1)
    assert four.half_width == pytest.approx((high - low) / 4)


def test_the_minimum_is_as_uncertain_as_its_runner_up_is_far():
    found = Measurement((3.0, 2.0, 2.5), "minimum")
    assert found.value == 2.0
    assert found.interval == (1.5, 2.0)


def test_a_warm_up_is_thrown_away_and_a_quiet_thing_is_measured_no_more_than_needed():
    values = iter([100.0, *[1.0] * 50])
    found = repeat(lambda: next(values), Practice(warmup=1, least=3, most=20))
    assert found.samples == (1.0, 1.0, 1.0)


def test_what_is_beyond_the_limit_is_sampled_twice_and_one_slow_sample_does_not_condemn():
    practice = Practice(warmup=0, least=4, most=20, limit_s=2.0)
    assert repeat(lambda: 2.5, practice).samples == (2.5, 2.5)
    values = iter([9.0, *[1.0] * 50])
    assert len(repeat(lambda: next(values), practice).samples) >= 4


def test_a_noisy_thing_is_measured_until_its_interval_is_narrow_or_the_cap_is_reached():
    narrow = repeat(noisy(1.0, 0.05, 0), Practice(least=3, most=1000, width=0.02))
    assert narrow.half_width <= 0.02
    assert 10 < len(narrow.samples) < 200
    assert len(repeat(noisy(1.0, 0.5, 0), Practice(most=8, width=0.001)).samples) == 8


def test_repeating_ends_after_its_seconds():
    assert (
        len(repeat(noisy(1.0, 0.5, 0), Practice(least=1, most=10**6, width=1e-9, seconds=0.0)).samples) == 1
    )


def test_what_is_raised_while_measuring_reaches_the_caller():
    def broken() -> float:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        repeat(broken, Practice())


def test_candidates_are_measured_in_turn_and_the_slow_ones_leave_the_race():
    order: list[int] = []

    def candidate(number: int, middle: float):
        sample = noisy(middle, 0.02, number)

        def run() -> float:
            order.append(number)
            return sample()

        return run

    found = interleave([candidate(0, 1.0), candidate(1, 1.03), candidate(2, 2.0)], Practice(0, 3, 30, 0.001))
    assert order[:9] == [0, 1, 2, 0, 2, 1, 2, 0, 1]
    assert len(found[2].samples) == 3
    assert min(range(3), key=lambda i: found[i].value) == 0
    assert len(found[0].samples) >= len(found[1].samples) > 3


def test_an_order_effect_that_fools_one_after_the_other_does_not_fool_taking_turns():
    clock = iter(range(10_000))

    def warming(middle: float):
        return lambda: middle * (1.5 - 0.5 * min(1.0, next(clock) / 60))

    alone = [repeat(warming(m), Practice(0, 30, 30)).value for m in (1.0, 1.05)]
    assert alone[0] > alone[1]
    clock = iter(range(10_000))
    found = interleave([warming(1.0), warming(1.05)], Practice(0, 30, 30))
    assert found[0].value < found[1].value


@given(st.floats(0, 1), st.floats(1e-3, 0.5), st.integers(1, 50))
def test_the_samples_needed_make_the_interval_narrow_or_are_the_most(noise, width, most):
    needed = samples_needed(noise, width, most)
    half = 1.96 * math.sqrt(math.pi / 2) * noise / math.sqrt(needed)
    assert 1 <= needed <= most
    assert half <= width * (1 + 1e-9) or needed == most


@given(st.floats(1e-6, 1e3), st.integers(2, 40))
def test_the_noise_of_equal_samples_is_none(value, count):
    assert relative_noise([value] * count) == pytest.approx(0.0, abs=1e-12)
    assert relative_noise([value]) == 0.0


def test_loops_are_doubled_until_a_run_is_long_enough():
    assert loops(lambda n: n * 1e-6, 1e-3) == 1024
    assert loops(lambda n: 1.0, 1e-3) == 1
    assert loops(lambda n: 0.0, 1e-3, most=64) == 64


def test_three_samples_that_happen_to_agree_do_not_end_a_race_alone():
    values = {0: iter([1.037, 1.047, 1.037, *[1.0] * 50]), 1: iter([1.02] * 53)}
    found = interleave([lambda: next(values[0]), lambda: next(values[1])], Practice(0, 3, 20, 0.005))
    assert len(found[0].samples) > 3
