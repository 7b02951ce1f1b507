"""Memory maps as bands: the numbers against a loop, colours, and what stands beside the bands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.memories import Band, band_figure, bands, memory_colours
from gate import gate


def random_bands(
    seed: int, nodes: int, heads: int, memories: int
) -> tuple[list[Band], np.ndarray, np.ndarray]:
    """Bands of a random mapping [N, H] with dead decisions, that mapping, and sizes [N, H]."""
    rng = np.random.default_rng(seed)
    mapping, size = rng.integers(0, memories, (nodes, heads)), rng.integers(0, 3, (nodes, heads))
    labels = [[f"m{c}" for c in range(memories)]] * heads
    return bands(mapping, size, [f"h{h}" for h in range(heads)], labels), mapping, size


@given(st.integers(0, 99), st.integers(1, 9), st.integers(1, 3), st.integers(2, 8))
def test_contiguity_and_shares_equal_a_loop_over_live_tensors(seed, nodes, heads, memories):
    found, mapping, size = random_bands(seed, nodes, heads, memories)
    for head, band in enumerate(found):
        live = [n for n in range(nodes) if size[n, head] > 0]
        same = [mapping[a, head] == mapping[b, head] for a, b in itertools.pairwise(live)]
        np.testing.assert_equal(band.contiguity, sum(same) / len(same) if same else np.nan)
        for memory in range(memories):
            held = sum(size[n, head] for n in live if mapping[n, head] == memory)
            total = sum(size[n, head] for n in live)
            np.testing.assert_allclose(band.byte_share[memory], held / total if live else np.nan)
        assert [n for n in range(nodes) if band.choices[n] >= 0] == live


def test_dead_decisions_do_not_break_contiguity_and_are_white():
    size = np.array([[1], [0], [1]])
    (band,) = bands(np.array([[1], [0], [1]]), size, ["w"], [["slow", "fast"]])
    assert band.contiguity == 1.0
    figure = band_figure({"best": [band]}, ["a", "b", "c"], "t")
    bars = figure.axes[0].images[0].get_array()[0]
    assert bars[1].tolist() == [1.0, 1.0, 1.0]
    assert bars[0].tolist() == bars[2].tolist() == list(memory_colours(2)[1])


@pytest.mark.parametrize("count", range(1, 9))
def test_memories_grow_lighter_and_none_is_white(count):
    grey = [0.299 * r + 0.587 * g + 0.114 * b for r, g, b in memory_colours(count)]
    assert (np.diff(grey) > 0.05).all()
    assert grey[-1] < 0.85


def test_many_memories_differ_in_height_too():
    nodes = 8
    (band,) = bands(np.arange(nodes)[:, None], np.ones((nodes, 1)), ["w"], [[f"m{c}" for c in range(nodes)]])
    bars = band_figure({"best": [band]}, list("abcdefgh"), "t").axes[0].images[0].get_array()
    coloured = (np.asarray(bars) < 1).any(axis=2)
    assert coloured.sum(axis=0).tolist() == list(range(1, nodes + 1))
    assert coloured[-1].all()


@pytest.mark.slow
def test_heads_with_other_memories_have_legends_of_their_own():
    found = bands(np.zeros((2, 2), np.int16), np.ones((2, 2)), ["w", "a"], [["x", "y"], ["z"]])
    figure = band_figure({"compiler": found, "best": found}, ["n0", "n1"], "t")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "x (w)",
        "y (w)",
        "z (a)",
        "no tensor",
    ]


@pytest.mark.parametrize(
    ("nodes", "heads", "memories"), gate([(1, 1, 2), (7, 1, 3), (60, 2, 8), (400, 3, 5)], (1, 60))
)
def test_bands_names_and_legend_keep_apart(nodes, heads, memories):
    found, _, _ = random_bands(1, nodes, heads, memories)
    names = [f"encoder.layer{n}.attention.query" for n in range(nodes)]
    figure = band_figure({"compiler": found, "best": found}, names, "t")
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert len(boxes) == 4 * heads
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert figure.legends[0].get_window_extent().y1 <= min(box.y0 for box in boxes)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_mappings_of_unequal_heads_are_refused():
    found, _, _ = random_bands(0, 3, 2, 2)
    with pytest.raises(ValueError, match="equally many heads"):
        band_figure({"compiler": found, "best": found[:1]}, ["a", "b", "c"], "t")
