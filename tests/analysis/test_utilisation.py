"""The numbers behind the figure of full memories, and what it shows of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.text import Text

from analysis.style import DARK, darken, save
from analysis.utilisation import NOTE, Schedule, share, utilisation, utilisation_figure
from gate import gate


def schedule(levels: int = 3, heads: int = 2, steps: int = 6, label: str = "best") -> Schedule:
    """Drawn at random, a different one for each shape."""
    rng = np.random.default_rng((levels, heads, steps))
    edges = np.concatenate([[0.0], np.cumsum(rng.random(steps))])
    return Schedule(label, edges, rng.integers(0, 1000, (steps, levels, heads)))


def drawn(levels: int, heads: int, capacity: np.ndarray | None = None, mappings: int = 2) -> Figure:
    room = np.full(levels, 1000 * heads) if capacity is None else capacity
    names = [f"memory{m}" for m in range(levels)]
    columns = [schedule(levels, heads, 6 + k, f"mapping {k}") for k in range(mappings)]
    return utilisation_figure(columns, names, [f"head{h}" for h in range(heads)], room, "t on c", "time (µs)")


def areas(axes: Axes) -> list[StepPatch]:
    return [patch for patch in axes.patches if isinstance(patch, StepPatch) and patch.get_fill()]


def test_occupied_bytes_mean_and_peak_equal_sums_over_every_step():
    given, capacity = schedule(4, 3, 7), np.array([10_000, 3000, 2000, 5000])
    found = utilisation(given, capacity)
    for memory in range(4):
        held = [sum(int(b) for b in given.by_head_bytes[t, memory]) for t in range(7)]
        lasts = [given.edges[t + 1] - given.edges[t] for t in range(7)]
        mean = sum(h * s for h, s in zip(held, lasts, strict=True)) / sum(lasts)
        assert found.occupied_bytes[:, memory].tolist() == held
        assert found.mean_share[memory] == pytest.approx(mean / capacity[memory])
        assert found.peak_share[memory] == max(held) / capacity[memory]


@pytest.mark.parametrize(
    ("edges", "capacities", "words"),
    [
        ([0.0, 1.0], 1, "3 edges"),
        ([0.0, 1.0, 2.0], 2, "1 capacities"),
        ([0.0, 0.0, 0.0], 1, "edges that rise"),
    ],
)
def test_arrays_that_do_not_agree_are_refused(edges, capacities, words):
    given = Schedule("x", np.array(edges), np.ones((2, 1, 1), np.int64))
    with pytest.raises(ValueError, match=words):
        utilisation(given, np.ones(capacities, np.int64))


@pytest.mark.parametrize(("levels", "heads", "mappings"), [(2, 1, 1), (3, 2, 2), (8, 4, 3)])
def test_there_is_a_panel_a_memory_and_mapping_with_an_area_a_head_fastest_on_top(levels, heads, mappings):
    figure = drawn(levels, heads, mappings=mappings)
    assert len(figure.axes) == levels * mappings
    for axes in figure.axes:
        assert len(areas(axes)) == heads
    first = [axes.get_ylabel().split("\n")[0] for axes in figure.axes[::mappings]]
    assert first == [f"memory{m}" for m in reversed(range(levels))]


def test_areas_are_stacked_up_to_what_is_held():
    given = schedule(2, 3)
    figure = utilisation_figure([given], ["a", "b"], ["x", "y", "z"], np.array([3000, 3000]), "t", "op")
    tops = [area.get_data() for area in areas(figure.axes[0])]
    below = np.zeros(6)
    for head, (values, edges, baseline) in enumerate(tops):
        np.testing.assert_array_equal(edges, given.edges)
        np.testing.assert_allclose(baseline, below)
        below = below + given.by_head_bytes[:, 1, head] / 1024
        np.testing.assert_allclose(values, below)


def test_a_memory_that_is_nearly_empty_has_a_scale_of_its_own_and_no_capacity_line():
    figure = drawn(3, 2, np.array([2**35, 2000, 2000]))
    fast, slow = figure.axes[0], figure.axes[-1]
    assert len(fast.lines) == 1
    assert fast.get_ylim()[1] >= 2000 / 1024
    assert not slow.lines
    assert slow.get_ylim()[1] < 10
    assert "far above" in slow.texts[0].get_text()
    assert "of 32 GiB" in slow.get_title(loc="left")


def test_a_memory_that_holds_nothing_says_so():
    empty = Schedule("best", np.arange(3.0), np.zeros((2, 2, 1), np.int64))
    figure = utilisation_figure([empty], ["a", "b"], ["x"], np.array([9, 9]), "t", "op")
    assert [axes.texts[0].get_text() for axes in figure.axes] == ["holds nothing"] * 2
    assert figure.axes[0].get_title(loc="left") == "mean 0%, peak 0% of 9 B"


def test_shares_are_readable_from_tiny_to_full():
    shown = {0.0: "0%", 1e-9: "<0.001%", 3.3e-5: "0.0033%", 0.0123: "1.2%", 0.5: "50%", 1.0: "100%"}
    assert {value: share(value) for value in shown} == shown


@pytest.mark.slow
@pytest.mark.parametrize(("levels", "mappings"), gate([(2, 1), (3, 2), (8, 2)], (3,)))
def test_no_text_overlaps_the_legend_and_the_note_is_there(levels, mappings):
    figure = drawn(levels, 3, mappings=mappings)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_title().get_text() == NOTE
    lowest = min(axes.get_tightbbox().y0 for axes in figure.axes)
    assert legend.get_window_extent().y1 <= lowest
    assert legend.get_window_extent().x0 >= 0
    assert legend.get_title().get_window_extent().x0 >= 0


@pytest.mark.exhaustive
def test_equal_figures_are_equal_files(tmp_path: Path):
    for name in ("a.svg", "b.svg"):
        save(drawn(3, 2), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def with_limits() -> Figure:
    given = schedule(2, 1, 4)
    limited = Schedule("best", given.edges, given.by_head_bytes, ("slow", "mac", "slow", "slow"))
    return utilisation_figure([limited], ["slow", "fast"], ["h"], np.array([3000, 3000]), "t", "time (µs)")


def test_a_strip_shows_what_limits_each_step_and_for_which_share_of_the_time():
    strip = with_limits().axes[-1]
    slow, mac = (area.get_data() for area in areas(strip))
    assert slow.values.tolist() == [1, 0, 1, 1]
    assert mac.values.tolist() == [0, 1, 0, 0]
    edges = schedule(2, 1, 4).edges
    by_mac = (edges[2] - edges[1]) / edges[-1]
    assert strip.get_title(loc="left") == f"limited by: {share(1 - by_mac)} slow, {share(by_mac)} mac"


def test_a_dark_figure_has_light_words_on_dark_ground_and_the_same_colours():
    figure = with_limits()
    colours = {area.get_facecolor() for axes in figure.axes[:2] for area in areas(axes)}
    darken(figure)
    assert figure.get_facecolor()[:3] == pytest.approx((DARK,) * 3)
    assert figure.axes[0].get_facecolor()[:3] == pytest.approx((DARK,) * 3)
    assert all(to_rgba(text.get_color())[0] > 0.5 for text in figure.findobj(Text) if text.get_text())
    assert {area.get_facecolor() for axes in figure.axes[:2] for area in areas(axes)} == colours
