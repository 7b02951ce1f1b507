"""Figures of policies on other workloads."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.transfer import Transfer, means, transfer_curves


@pytest.mark.parametrize(("speedups", "lowest"), [((1.3, 1.46), 1.0), ((0.4, 1.2), 0.4)])
def test_the_baseline_at_1_is_always_in_the_frame(speedups, lowest):
    given = Transfer("r", ("a",), np.array([0, 21]), ("b",), np.array([speedups]), 1)
    low, high = transfer_curves([given], "title").axes[0].get_ylim()
    assert low < lowest
    assert high > max(speedups)


@pytest.mark.parametrize("speedups", [(1.001, 1.004), (1.3, 1.46), (0.98, 0.99), (0.0, 1.2)])
def test_the_axis_spans_what_ran_and_the_baseline(speedups):
    given = Transfer("r", ("a",), np.array([0, 21]), ("b",), np.array([speedups]), 1)
    low, high = transfer_curves([given], "title").axes[0].get_ylim()
    ran = [speedup for speedup in (*speedups, 1.0) if speedup > 0]
    assert low < min(ran)
    assert high > max(ran)
    assert max(ran) - min(ran) > 0.25 * (high - low)


def test_a_mapping_that_does_not_run_counts_as_a_hundredth_in_a_mean():
    given = Transfer("r", (), np.array([0]), ("a", "b"), np.array([[0.0], [1.2]]), 0)
    assert means(given, ("a", "b"))[0] == pytest.approx((0.01 * 1.2) ** 0.5)
