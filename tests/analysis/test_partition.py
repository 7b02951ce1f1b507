"""Figures of partitions and of what two models say of them."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.partition import Split, agreement, agreement_figure, split_figure

SPLIT = Split(
    "best",
    np.array([2.0, 4.0, 0.0]),
    np.array([1.0, 0.0, 0.0]),
    np.array([1, 2, 0]),
    np.array([5, 6, 0]),
    np.array([7, 9, 0]),
    10,
    4.0,
)


def test_utilisation_is_the_share_of_all_chips_time():
    assert SPLIT.utilisation == 0.5


def test_a_partition_has_bars_for_chips_links_and_memory():
    times, memory = split_figure([SPLIT], "title").axes
    assert [bar.get_height() for bar in times.patches] == [2.0, 4.0, 0.0, 1.0, 0.0, 0.0]
    assert [bar.get_height() for bar in memory.patches] == [7.0, 9.0, 0.0, 5.0, 6.0, 0.0]


def test_agreement_is_over_what_runs_each_over_its_least():
    found = agreement(np.array([2.0, 4.0, 3.0, 8.0]), np.array([3.0, 6.0, np.nan, 12.0]))
    assert found.invalid == 0.25
    assert found.pearson == pytest.approx(1.0)
    assert found.predicted.tolist() == found.measured.tolist() == [1.0, 2.0, 4.0]
    assert len(agreement_figure(found, "title").axes) == 1


def test_nothing_that_runs_is_no_correlation():
    found = agreement(np.array([1.0]), np.array([np.inf]))
    assert np.isnan(found.pearson)
    assert found.invalid == 1.0
