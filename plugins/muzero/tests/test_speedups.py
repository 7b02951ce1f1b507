"""Which layouts of a run are compared, and how reward and latency go together."""

from __future__ import annotations

import numpy as np
import pytest

from egrl_muzero.paper.speedups import Sample, correlation_figure, pearson, speedup_figure, stages


def test_each_stage_gives_its_best_layout_that_ran():
    reward = np.array([0.1, 0.5, 0.3, 0.2, 0.9, 0.4])
    latency = np.array([1.0, 1.0, 1.0, 1.0, np.nan, 1.0])
    assert stages(reward, latency, 2).tolist() == [1, 5]
    assert stages(reward, latency, 10).tolist() == [0, 1, 2, 3, 5]
    assert stages(np.empty(0), np.empty(0), 10).tolist() == []


def test_a_correlation_is_pearsons_and_none_where_nothing_varies():
    x = np.array([0.1, 0.4, 0.2, 0.8])
    assert pearson(x, 3 - 2 * x) == pytest.approx(-1.0)
    y = np.array([1.0, 5.0, 2.0, 2.0])
    assert pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert pearson(x, np.ones(4)) is None
    assert pearson(x[:2], y[:2]) is None


def test_a_panel_a_program_says_its_correlation():
    x = np.linspace(0.1, 0.9, 5)
    figure = correlation_figure([Sample("down", x, 1 - x), Sample("flat", x, np.ones(5))])
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["down\nr = -1.000", "flat\nno correlation to speak of"]
    with pytest.raises(ValueError, match="at least one"):
        correlation_figure([])


def test_rewards_that_hardly_differ_are_told_in_full_below_the_axis():
    sample = Sample("p", 0.956 + 1e-5 * np.arange(4.0), 1e-3 + 1e-6 * np.arange(4.0))
    (axes,) = correlation_figure([sample]).axes
    axes.figure.draw_without_rendering()
    assert axes.xaxis.get_offset_text().get_text() == ""
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(set(labels)) == len(labels) > 1


def test_speedups_are_sorted_bars_from_one():
    figure = speedup_figure({"slow": 0.8, "quick": 1.3, "same": 1.0}, "the heuristic")
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["slow", "same", "quick"]
    edges = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert edges == [(1.0, pytest.approx(-0.2)), (1.0, 0.0), (1.0, pytest.approx(0.3))]
    with pytest.raises(ValueError, match="at least one"):
        speedup_figure({}, "the heuristic")
