"""Predicted against measured: what the panels hold, and that nothing of them is cut off."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.calibration import Predicted, calibration_figure
from analysis.style import lay_out
from gate import gate


def panels(count: int, spread: float) -> list[Predicted]:
    rng = np.random.default_rng(0)
    measured = 1e-4 * np.exp(spread * rng.random(40))
    return [
        Predicted(f"panel {k}", measured, measured * np.exp(0.1 * (k + 1) * np.resize([1.0, -1.0], 40)))
        for k in range(count)
    ]


@pytest.mark.parametrize("count", gate([1, 3], (3,)))
@pytest.mark.parametrize("spread", [0.5, 4.0])
def test_each_panel_has_every_network_and_says_its_error(count, spread):
    network = np.repeat([0, 1], 20)
    figure = calibration_figure(panels(count, spread), network, ["one", "other"])
    lay_out(figure)
    assert [axes.get_title().splitlines()[1] for axes in figure.axes] == [
        f"error {10 * (k + 1)}.0%" for k in range(count)
    ]
    for axes in figure.axes:
        assert [len(dots.get_offsets()) for dots in axes.collections] == [20, 20]
        assert axes.get_xscale() == ("log" if spread > 1 else "linear")
        assert axes.get_xlim() == axes.get_ylim()
        words = [axes.title, axes.xaxis.label]
        for box in (text.get_window_extent() for text in words):
            assert box.y0 >= 0
            assert box.y1 <= figure.bbox.height
    legend = figure.legends[0].get_window_extent()
    assert legend.y1 <= min(axes.xaxis.label.get_window_extent().y0 for axes in figure.axes) + 1


def test_no_panels_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        calibration_figure([], np.zeros(0, np.int64), [])
