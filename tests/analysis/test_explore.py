"""Costs over a grid of chips: what the figure shows of one parameter and of two."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.explore import Axis, Surface, explore_figure
from analysis.style import lay_out

X = Axis("sram (MiB)", np.array([1.0, 2.0, 4.0]), 2.0)
Y = Axis("dram (GB/s)", np.array([1.0, 100.0]), 500.0)


def surface(*shape: int) -> Surface:
    cost = np.linspace(10.0, 5.0, int(np.prod(shape))).reshape(shape)
    return Surface("net", cost, cost * 0.9, cost * 1.2)


def test_one_parameter_is_a_band_from_the_bound_to_the_best_found():
    figure = explore_figure([surface(3)], [X], "cost (us)", "the compiler", "title")
    lay_out(figure)
    (panel,) = figure.axes
    edge = panel.collections[0].get_paths()[0].vertices
    assert edge[:, 1].min() == pytest.approx(4.5)
    assert edge[:, 1].max() == pytest.approx(10.0)
    assert [line.get_ydata()[0] for line in panel.lines[:3]] == [9.0, 10.0, 12.0]
    assert panel.get_title() == "net"


def test_two_parameters_are_a_map_with_the_first_across_and_the_largest_gap_above():
    figure = explore_figure([surface(3, 2)], [X, Y], "cost (us)", "the compiler", "title")
    lay_out(figure)
    panel = figure.axes[0]
    np.testing.assert_array_equal(panel.collections[0].get_array(), surface(3, 2).cost.T)
    assert panel.get_title() == "net, within 11.1% of the proven bound"
    assert (panel.get_xscale(), panel.get_yscale()) == ("linear", "log")


def test_points_that_cannot_be_are_left_out():
    one = surface(3, 2)
    one.cost[0, 0] = one.bound[0, 0] = np.nan
    figure = explore_figure([one], [X, Y], "cost (us)", "the compiler", "title")
    lay_out(figure)
    assert figure.axes[0].collections[0].get_array().mask[0, 0]


def test_more_than_two_parameters_are_a_mistake():
    with pytest.raises(ValueError, match="expected 1 or 2 parameters"):
        explore_figure([surface(3)], [X, X, X], "cost (us)", "the compiler", "title")
