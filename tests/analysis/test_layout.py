"""The numbers behind the figure of addresses, and what it shows of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import imread

from analysis.layout import Layout, layout_figure, use
from analysis.style import save

KIB = 1024


def layout(name: str, capacity: int, tensors: list[tuple[int, int, int, int, int]]) -> Layout:
    """Tensors as (first, end, offset, size, head)."""
    columns = np.array(tensors, np.int64).reshape(-1, 5)
    return Layout(name, capacity, *columns.T)


def two_memories() -> list[Layout]:
    slow = layout("slow", 2**30, [(0, 10, 0, 3 * KIB, 0)])
    fast = layout(
        "fast", 8 * KIB, [(0, 10, 0, 2 * KIB, 0), (1, 4, 2 * KIB, 4 * KIB, 1), (4, 9, 2 * KIB, KIB, 1)]
    )
    return [slow, fast]


def drawn() -> Figure:
    return layout_figure(two_memories(), ("weight", "activation"), 10, "net on chip", "op")


def test_height_and_share_equal_sums_over_the_tensors():
    found = use(two_memories()[1], 10)
    assert found.height_bytes == 6 * KIB
    assert found.mean_share == pytest.approx((10 * 2 + 3 * 4 + 5 * 1) / (10 * 6))


def test_an_empty_memory_has_no_height_and_no_share():
    found = use(layout("m", 5, []), 10)
    assert found.height_bytes == 0
    assert math.isnan(found.mean_share)


def test_lifetimes_beyond_the_steps_are_refused():
    with pytest.raises(
        ValueError, match=r"lifetimes in 0\.\.10, received lengths \[1\] and lifetimes up to 11"
    ):
        use(layout("m", 5, [(0, 11, 0, 1, 0)]), 10)


def test_there_is_a_box_a_tensor_at_its_steps_and_addresses_fastest_memory_on_top():
    figure = drawn()
    fast, slow = figure.axes
    assert fast.get_title(loc="left") == "fast: up to 6 KiB of 8 KiB"
    assert slow.get_title(loc="left") == "slow: up to 3 KiB of 1 GiB"
    weights, activations = (c for c in fast.collections if isinstance(c, PolyCollection))
    boxes = [path.vertices[:4].tolist() for path in activations.get_paths()]
    assert boxes == [[[4, 2], [4, 3], [9, 3], [9, 2]], [[1, 2], [1, 6], [4, 6], [4, 2]]]  # the largest on top
    assert len(weights.get_paths()) == 1
    assert weights.get_hatch() != activations.get_hatch()


def test_the_capacity_is_a_line_where_it_is_near():
    fast, slow = drawn().axes
    assert [line.get_ydata()[0] for line in fast.lines] == [8]
    assert not slow.lines


def test_a_memory_that_holds_nothing_says_so():
    figure = layout_figure([layout("m", 5, [])], ("weight",), 3, "t", "op")
    assert [text.get_text() for text in figure.axes[0].texts] == ["holds nothing"]


@pytest.mark.slow
def test_equal_figures_are_equal_files(tmp_path: Path):
    for name in ("a.svg", "b.svg"):
        save(drawn(), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("first", [0, 1500, 2999])
def test_what_makes_the_peak_is_seen_however_short_it_lives(first, tmp_path):
    """One step of 3,000, beside small tensors at every step: its colour fills a column of the picture."""
    small = [(step, step + 1, 0, KIB, 0) for step in range(3000)]
    memory = layout("fast", 40 * KIB, [(first, first + 1, 0, 32 * KIB, 1), *small])
    figure = layout_figure([memory], ("weight", "activation"), 3000, "net on chip", "op")
    figure.savefig(tmp_path / "layout.png", dpi=100)
    picture = imread(tmp_path / "layout.png")[..., :3]
    orange = (picture[..., 0] - picture[..., 2] > 0.3).sum(axis=0)
    assert orange.max() > 0.25 * len(picture)
    boxes = [path.vertices for part in figure.axes[0].collections for path in part.get_paths()]
    assert min(box[:, 0].min() for box in boxes) >= 0
    assert max(box[:, 0].max() for box in boxes) <= 3000
