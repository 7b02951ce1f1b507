"""Cost and bound against seconds: what is drawn, and over which cost."""

from __future__ import annotations

import numpy as np
import pytest

from egrl_shard.paper.progress import Panel, Progress, least_cost, progress_figure


def run(label: str, costs: list[float], bounds: list[float]) -> Progress:
    return Progress(label, np.arange(1.0, len(costs) + 1), np.array(costs), np.array(bounds))


def panel(**levels: float) -> Panel:
    runs = [run("exact", [np.nan, 8.0, 5.0], [np.nan, 2.0, 4.0]), run("other", [50.0, 9.0], [np.nan, np.nan])]
    return Panel("A (3 nodes)", runs, levels)


def test_everything_is_over_the_lowest_cost_of_runs_and_levels():
    assert least_cost(panel()) == 5.0
    assert least_cost(panel(teams=4.5)) == 4.5
    assert least_cost(Panel("empty", [run("exact", [np.nan], [1.0])], {})) == 1.0


def test_costs_are_solid_and_bounds_dashed_and_what_is_far_off_is_cut():
    figure = progress_figure([panel(teams=4.0)])
    (axes,) = figure.axes
    solid = [line for line in axes.lines if line.get_linestyle() == "-"]
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(solid[0].get_ydata(), [2.0, 1.25])
    np.testing.assert_allclose(solid[1].get_ydata(), [12.5, 2.25])
    np.testing.assert_allclose(dashed[0].get_ydata(), [0.5, 1.0])
    assert [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == ":"] == [1.0]
    assert axes.get_yscale() == "log"
    assert 10 <= axes.get_ylim()[1] < 12.5


def test_a_narrow_frame_has_a_linear_axis():
    near = Panel("A", [run("exact", [1.2, 1.0], [0.9, 0.99])], {})
    assert progress_figure([near]).axes[0].get_yscale() == "linear"


def test_a_panel_is_needed():
    with pytest.raises(ValueError, match="expected at least one"):
        progress_figure([])
