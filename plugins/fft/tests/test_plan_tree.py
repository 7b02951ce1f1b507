"""Plans as trees and searches as curves: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest

from egrl_fft.paper.plan_tree import plan_figure, tree
from egrl_fft.paper.search_time import Growth, SearchCurve, growth_figure, medians, search_figure


def test_a_plan_is_read_as_the_tree_that_its_text_writes():
    root = tree("t(32,l8(fs(16,f(2,4))))")
    assert (root.label, [child.label for child in root.children]) == ("t", ["32", "l8"])
    (split,) = root.children[1].children
    assert [child.label for child in split.children] == ["16", "f"]
    leaves = [root.children[0], split.children[0], *split.children[1].children]
    assert [leaf.x for leaf in leaves] == [0, 1, 2, 3]
    assert [leaf.depth for leaf in leaves] == [1, 3, 4, 4]


@pytest.mark.parametrize("text", ["", "f(2,4", "f(2,4))", "f(,4)", "f(2;4)"])
def test_a_text_that_is_no_plan_is_refused(text):
    with pytest.raises(ValueError, match="plan: expected"):
        tree(text)


def test_the_figure_names_each_plan_and_writes_each_rule():
    figure = plan_figure({"one": "16", "two": "fs(8,l8(r(2)))"})
    assert [axes.get_title() for axes in figure.axes] == ["one", "two"]
    assert sorted(text.get_text() for text in figure.axes[1].texts) == ["2", "8", "fs", "l8", "r"]


def test_medians_are_those_of_the_best_known_at_each_point():
    curves = [
        SearchCurve("a", [1.0, 4.0], [8.0, 2.0], 16.0),
        SearchCurve("a", [2.0], [6.0], 8.0),
        SearchCurve("a", [1.0], [7.0], 16.0),
    ]
    grid, middle, low, high = medians(curves)
    assert (grid[0], grid[-1]) == pytest.approx((1, 16))
    assert (middle[0], low[0], high[0]) == (8, 7, np.inf)
    at = np.searchsorted(grid, 2.5)
    assert (middle[at], low[at], high[at]) == (7, 6, 8)
    assert (middle[-1], low[-1], high[-1]) == (6, 2, 7)


def test_search_figures_have_a_panel_a_problem_and_a_line_a_method():
    curves = [SearchCurve(label, [1, 2], [3.0, 2.0], 5) for label in ("a", "b", "a")]
    figure = search_figure({"x": curves, "y": curves[:1], "z": curves}, "seconds")
    assert [axes.get_title() for axes in figure.axes if axes.get_visible()] == ["x", "y", "z"]
    assert [len(axes.lines) for axes in figure.axes if axes.get_visible()] == [2, 1, 2]
    grown = growth_figure([Growth("a", [2, 3, 4]), Growth("b", [1, 5])])
    assert [len(line.get_xdata()) for line in grown.axes[0].lines] == [3, 2, 2]
