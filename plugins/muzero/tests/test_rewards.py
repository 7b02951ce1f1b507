"""Rewards against seconds: best so far at common instants, a panel a program."""

from __future__ import annotations

import numpy as np
import pytest

from analysis import style
from egrl_muzero.paper.rewards import Panel, RewardCurve, reward_at, reward_bands, reward_figure


def curve(label: str, seconds: list[float], reward: list[float]) -> RewardCurve:
    return RewardCurve(label, np.array(seconds), np.array(reward))


def test_the_best_known_at_an_instant_is_the_last_told_until_then():
    run = curve("es", [1.0, 2.0, 4.0], [0.1, 0.3, 0.4])
    np.testing.assert_array_equal(
        reward_at(run, np.array([0.5, 1.0, 3.9, 4.0, 9.0])), [np.nan, 0.1, 0.3, 0.4, 0.4]
    )


def test_repetitions_become_a_band_from_the_lowest_to_the_highest():
    found = reward_bands(
        [curve("es", [1, 10], [0.1, 0.4]), curve("es", [1, 5], [0.3, 0.6]), curve("random", [2], [0.2])]
    )
    assert [(band.label, band.runs) for band in found] == [("es", 2), ("random", 1)]
    es = found[0]
    assert es.seconds[0] == 1.0
    assert es.seconds[-1] == pytest.approx(10.0)
    assert (es.low[0], es.mean[0], es.high[0]) == pytest.approx((0.1, 0.2, 0.3))
    assert (es.low[-1], es.mean[-1], es.high[-1]) == pytest.approx((0.4, 0.5, 0.6))
    assert np.isnan(found[1].mean[0])
    assert found[1].mean[-1] == 0.2


def test_without_curves_there_is_nothing_to_draw():
    for wrong in ([], [curve("es", [], [])]):
        with pytest.raises(ValueError, match="expected at least one"):
            reward_bands(wrong)
    with pytest.raises(ValueError, match="panels"):
        reward_figure([])


@pytest.mark.slow
def test_equal_panels_make_equal_files_and_every_panel_is_named(tmp_path):
    panels = [
        Panel(
            f"program {i}", [curve("es", [1, 2, 3], [0.1, 0.2, 0.3]), curve("a", [1], [0.1])], {"bound": 0.9}
        )
        for i in range(3)
    ]
    for name in ("a", "b"):
        style.save(reward_figure(panels), tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    titles = [axes.get_title() for axes in reward_figure(panels).axes if axes.get_visible()]
    assert titles == ["program 0", "program 1", "program 2"]
