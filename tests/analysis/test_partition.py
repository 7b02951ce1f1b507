"""Figures of partitions."""

from __future__ import annotations

import numpy as np

from analysis.partition import Split, split_figure

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
