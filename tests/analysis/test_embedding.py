"""Mappings in two dimensions: repeatable, and what the figure shows of groups, runs and the compiler's mapping."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.embedding import FEWEST, embed, embedding_figure, hamming, measure


def two_groups(mappings: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances [M + 1, M + 1] of two groups of mappings that share little, and membership [M]."""
    rng = np.random.default_rng(0)
    best = np.arange(mappings) % 2 == 1
    rows = np.where(best[:, None], 1, 0) ^ (rng.random((mappings, 60)) < 0.1)
    return hamming(np.vstack([rows, np.zeros((1, 60), np.int64)])), best


def figure_of(runs: int, mappings: int = 24) -> Figure:
    distance, best = two_groups(mappings)
    points = np.random.default_rng(1).normal(size=(mappings + 1, 2))
    names = [f"run {number}" for number in range(runs)]
    run = np.arange(mappings) // 2 % runs
    return embedding_figure(points, best, run, names, measure(distance, best, run), "t")


@pytest.mark.slow
@pytest.mark.parametrize("mappings", [FEWEST - 1, 40])
def test_an_embedding_repeats_and_keeps_groups_together(mappings):
    distance, best = two_groups(mappings)
    points = embed(distance)
    assert points.shape == (mappings + 1, 2)
    np.testing.assert_array_equal(points, embed(distance))
    if mappings > 20:
        centres = np.stack([points[:-1][best].mean(axis=0), points[:-1][~best].mean(axis=0)])
        nearer = np.linalg.norm(points[:, None] - centres, axis=2).argmin(axis=1)
        assert nearer[:-1].tolist() == (~best).tolist()
        assert nearer[-1] == 1


def test_too_few_mappings_are_refused():
    with pytest.raises(ValueError, match=f"at least {FEWEST} mappings, received 3"):
        embed(np.zeros((3, 3)))


def test_the_legend_counts_the_groups_and_names_runs_only_where_there_are_several():
    def names(figure: Figure) -> list[str]:
        return [text.get_text() for text in figure.legends[0].get_texts()]

    assert names(figure_of(1)) == ["competitive (12)", "best (12)"]
    assert names(figure_of(2))[2:] == ["run 0", "run 1"]


def test_the_spread_in_a_run_is_told_where_there_are_several():
    one, two = (figure_of(runs).axes[0].get_title() for runs in (1, 2))
    assert one.startswith("silhouette 0.")
    assert ["in a run" in title for title in (one, two)] == [False, True]


def test_groups_differ_by_filling_and_runs_by_shape():
    marks = [mark for mark in figure_of(7, 140).axes[0].collections if len(mark.get_offsets())][:14]
    shapes = [mark.get_paths()[0].vertices.tobytes() for mark in marks]
    assert shapes[::2] == shapes[1::2]
    assert len(set(shapes)) == 7
    white = [bool((mark.get_facecolors() == 1).all()) for mark in marks]
    assert white == [True, False] * 7


def test_the_arrow_leads_to_the_compiler_and_its_word_is_clear_of_the_mappings():
    figure = figure_of(2)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    (word,) = axes.texts
    assert word.get_text() == "baseline"
    assert word.xy == pytest.approx(tuple(np.random.default_rng(1).normal(size=(25, 2))[-1]))
    drawn = axes.transData.transform(np.random.default_rng(1).normal(size=(25, 2)))
    box = word.get_window_extent()
    assert not any(box.contains(x, y) for x, y in drawn)
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
