"""Intervals of speedups that were measured in turn: they hold the truth as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hwsim.measure import Measurement, Practice, interleave
from hwsim.paired import Noise, confirmable, of_median, paired_interval, pooled, student95


def test_noise_is_pooled_over_mappings_and_one_odd_answer_does_not_make_it():
    rng = np.random.default_rng(0)
    groups = [scale * np.exp(0.02 * rng.standard_normal(8)) for scale in (1.0, 3.0, 0.2, 7.0) * 4]
    found = pooled(groups)
    assert found.freedom == 112
    assert found.relative == pytest.approx(0.02, rel=0.15)
    groups[0][3] *= 10
    assert pooled(groups).relative < 0.025
    assert pooled([[1.0], []]) == Noise()


def test_quantiles_and_medians_are_those_of_tables():
    assert [round(student95(freedom), 2) for freedom in (1, 4, 10, 30)] == [12.71, 2.78, 2.23, 2.04]
    assert student95(0) == 1.96
    rng = np.random.default_rng(1)
    for count in (3, 5, 7, 15):
        spread = np.median(rng.standard_normal((20_000, count)), axis=1).std() * math.sqrt(count)
        assert of_median(count) == pytest.approx(spread, rel=0.02)


@pytest.mark.parametrize(("rounds", "noises"), [(2, (0.02, 0.02)), (7, (0.02, 0.02)), (7, (0.01, 0.03))])
@pytest.mark.parametrize("spikes", [0.0, 0.05])
def test_an_interval_holds_the_truth_nineteen_times_in_twenty(rounds, noises, spikes):
    rng, held, true = np.random.default_rng(7), 0, 1.05

    def samples(latency, noise, count):
        spike = np.where(rng.random(count) < spikes, 1.3, 1.0)
        return tuple((latency * np.exp(noise * rng.standard_normal(count)) * spike).tolist())

    for _ in range(1000):
        before, others = samples(true, noises[0], 5), [samples(1.0, noises[1], 2) for _ in range(3)]
        baseline, best = samples(true, noises[0], rounds), samples(1.0, noises[1], rounds)
        known = pooled([before, *others, baseline, best])
        low, high = paired_interval(Measurement(best), Measurement(baseline), known)
        held += low <= true <= high
    assert held >= 935


def test_what_can_be_confirmed_shrinks_with_the_rounds_and_is_nothing_without_noise():
    assert confirmable(0.02, 28) < confirmable(0.02, 7) < 0.03
    assert confirmable(0.0, 1) == 0.0


def test_a_candidate_that_can_no_longer_be_measured_leaves_the_race_and_the_others_go_on():
    answers = iter([1.0, math.inf])
    race = Practice(0, 3, 3, 0.0)
    found = interleave([lambda: 2.0, lambda: next(answers)], race, 0.1)
    assert found[1].samples == (math.inf,)
    assert found[0].samples == (2.0, 2.0, 2.0)
    nobody = interleave([lambda: math.inf], race, 0.1)
    assert nobody[0].value == math.inf
