"""The numbers behind learning curves, and what the figure shows of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.curves import Curve, bands, learning_curves, policy_is_worth_a_line
from analysis.style import COLOURS, LINES, MARKERS


def curve(label: str, best: list[float], deployable: list[float] | None = None) -> Curve:
    evaluations = np.arange(1, len(best) + 1) * 21
    return Curve(label, evaluations, np.array(best), None if deployable is None else np.array(deployable))


def texts(figure: Figure) -> list[str]:
    axes = figure.axes[0]
    return [text.get_text() for text in axes.texts]


def names(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_band_is_mean_and_quantiles_over_the_common_evaluations():
    (band,) = bands([curve("a", [1.0, 2.0, 9.0]), curve("a", [3.0, 2.0]), curve("a", [8.0, 5.0])])
    assert band.runs == 3
    assert band.evaluations.tolist() == [21, 42]
    np.testing.assert_allclose(band.mean, [4.0, 3.0])
    np.testing.assert_allclose(band.low, [1.4, 2.0])
    np.testing.assert_allclose(band.high, [7.0, 4.4])


def test_a_band_stays_within_what_was_found_where_a_deviation_would_not():
    (band,) = bands([curve("a", [1.08]), curve("a", [1.08]), curve("a", [1.08]), curve("a", [1.0])])
    assert band.mean[0] + np.std([1.08, 1.08, 1.08, 1.0], ddof=1) > 1.08
    assert 1.0 <= band.low[0] <= band.mean[0] <= band.high[0] <= 1.08


def test_a_single_run_has_no_band_and_labels_keep_their_order():
    found = bands([curve("b", [1.0]), curve("a", [1.0])])
    assert [band.label for band in found] == ["b", "a"]
    assert found[0].low is None


def test_what_was_measured_afresh_is_drawn_with_its_interval_from_where_it_is_known():
    held = np.array([np.nan, 1.02, 1.03])
    measured = Curve("a", np.arange(1, 4) * 21, held, None, held - 0.01, held + 0.01)
    figure = learning_curves([measured], "t")
    assert figure.axes[0].get_ylabel() == "confirmed speedup over the baseline"
    (band,) = figure.axes[0].collections
    ends = band.get_paths()[0].vertices[:, 1]
    assert (ends.min(), ends.max()) == pytest.approx((1.01, 1.04))
    assert (
        learning_curves([measured, curve("b", [1.0])], "t").axes[0].get_ylabel()
        == "speedup over the baseline"
    )
    nothing = Curve("a", np.array([21]), np.array([np.nan]), None, np.array([np.nan]), np.array([np.nan]))
    learning_curves([nothing], "t").draw_without_rendering()


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        bands([])


def test_runs_that_ended_within_their_first_generation_are_held_against_each_other_where_they_ended():
    short = Curve("a", np.array([5]), np.array([1.0]))
    (band,) = bands([curve("a", [3.0, 4.0]), short])
    assert band.evaluations.tolist() == [21]
    assert band.mean.tolist() == [2.0]


def test_the_deployable_policy_is_drawn_only_where_it_differs_from_the_best():
    same, unknown = curve("a", [1.0, 2.0], [np.nan, 2.0]), curve("a", [1.0, 2.0], [np.nan, np.nan])
    other = curve("a", [1.0, 2.0], [1.0, 1.5])
    worth = [policy_is_worth_a_line(bands([c])[0]) for c in (same, unknown, curve("a", [1.0, 2.0]), other)]
    assert worth == [False, False, False, True]
    assert names(learning_curves([same], "t")) == ["a"]
    assert names(learning_curves([other], "t")) == ["a", "deployable policy"]


def test_compiler_and_bound_are_named_outside_the_axes():
    figure = learning_curves([curve("a", [1.0, 1.05])], "t", bound=1.08)
    assert texts(figure) == ["baseline", "proven\nbound"]
    assert all(text.xy[0] == 1.0 for text in figure.axes[0].texts)
    levels = [line.get_ydata()[0] for line in figure.axes[0].lines if len(set(line.get_ydata())) == 1]
    assert {1.0, 1.08} <= set(levels)
    assert texts(learning_curves([curve("a", [1.0])], "t")) == ["baseline"]


@pytest.mark.parametrize("bound", [1.0, 1.0001, 1.05])
def test_the_names_of_compiler_and_bound_do_not_overlap(bound):
    figure = learning_curves([curve("a", [1.0, 1.01])], "t", bound)
    figure.draw_without_rendering()
    lower, upper = (text.get_window_extent() for text in figure.axes[0].texts)
    assert lower.y1 <= upper.y0


def test_the_axis_has_no_offset():
    figure = learning_curves([curve("a", [1.00001, 1.00002])], "t")
    figure.draw_without_rendering()
    assert figure.axes[0].yaxis.get_major_formatter().get_offset() == ""


@pytest.mark.parametrize("count", [1, 8, 16])
def test_curves_and_legend_keep_apart_and_fit_the_figure(count):
    figure = learning_curves([curve(f"method {i}, compiler start", [1.0, 1.1]) for i in range(count)], "t")
    figure.draw_without_rendering()
    legend, axes = figure.legends[0].get_window_extent(), figure.axes[0].get_tightbbox()
    assert legend.y1 <= axes.y0
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.width
    assert legend.y0 >= 0


def test_sixteen_curves_differ_and_eight_differ_without_colours():
    figure = learning_curves([curve(str(i), [1.0, 1.1]) for i in range(16)], "t")
    looks = [
        (line.get_color(), line.get_linestyle(), line.get_marker(), str(line._dash_pattern))
        for line in figure.axes[0].lines
        if line.get_label().isdigit()
    ]
    assert len(looks) == 16
    assert all(a != b for a, b in itertools.combinations(looks, 2))
    assert all(a[2:] != b[2:] for a, b in itertools.combinations(looks[:8], 2))
    assert len(COLOURS) == len(LINES) == len(MARKERS) == 8


def test_a_curve_of_one_point_can_be_seen():
    figure = learning_curves([curve("a", [1.0]), curve("b", [1.0, 1.1])], "t")
    markers = {line.get_label(): line.get_marker() for line in figure.axes[0].lines}
    assert markers["a"] != "None"
    assert markers["b"] == "None"


@pytest.mark.parametrize("deployable", [[1.04, 1.05, 1.055], [0.2, 0.6, 1.055]])
def test_compiler_and_bound_are_within_the_frame_wherever_curves_and_policies_are(deployable):
    figure = learning_curves([curve("egrl", [1.052, 1.058, 1.0594], deployable)], "unet", 1.0595)
    low, high = figure.axes[0].get_ylim()
    assert low < 1.0 < 1.0595 < high
    assert low > 0.9  # a policy far below leaves the frame
