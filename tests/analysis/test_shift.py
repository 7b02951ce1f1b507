"""Memory map shifts: matrices against a loop over every tensor, and what the panels show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from analysis.memories import Shift, mib, percent, shift_figure, shifts


def maps(seed: int, nodes: int, heads: int, memories: int, runs: int) -> tuple[np.ndarray, ...]:
    """Random maps before [N, H] and after [R, N, H], and sizes [N, H]; some dead, some unused."""
    rng = np.random.default_rng(seed)
    size = rng.integers(0, 4, (nodes, heads))
    before = rng.integers(-1, memories, (nodes, heads))
    return before, rng.integers(-1, memories, (runs, nodes, heads)), size


def shifted(seed: int, nodes: int, heads: int, memories: int, runs: int) -> list[Shift]:
    before, after, size = maps(seed, nodes, heads, memories, runs)
    labels = [[f"m{c}" for c in range(memories)]] * heads
    return shifts(before, after, size, [f"h{h}" for h in range(heads)], labels)


def texts(figure: Figure, panel: int) -> list[str]:
    return [text.get_text() for text in figure.axes[panel].texts]


@given(st.integers(0, 99), st.integers(1, 9), st.integers(1, 3), st.integers(2, 8), st.integers(1, 3))
def test_every_live_tensor_of_every_run_is_counted_where_it_lay_and_lies(seed, nodes, heads, memories, runs):
    before, after, size = maps(seed, nodes, heads, memories, runs)
    for head, shift in enumerate(shifted(seed, nodes, heads, memories, runs)):
        for left in range(memories):
            for right in range(memories):
                moved = [
                    size[n, head]
                    for mapping in after
                    for n in range(nodes)
                    if size[n, head] > 0 and before[n, head] == left and mapping[n, head] == right
                ]
                assert shift.tensors[left, right] == len(moved)
                assert shift.sizes[left, right] == sum(moved)


@given(st.integers(0, 99), st.integers(1, 9), st.integers(2, 8))
def test_rows_add_up_to_one_and_rows_without_tensors_are_nan(seed, nodes, memories):
    for shift in shifted(seed, nodes, 2, memories, 2):
        for shares in (shift.by_count, shift.by_bytes):
            empty = shift.tensors.sum(axis=1) == 0
            np.testing.assert_allclose(shares[~empty].sum(axis=1), 1.0)
            assert np.isnan(shares[empty]).all()


def test_seeds_are_summed_and_then_normalised():
    before, size = np.array([[0], [0], [1]]), np.array([[1], [3], [5]])
    after = np.array([[[0], [1], [1]], [[1], [1], [1]]])
    (shift,) = shifts(before, after, size, ["w"], [["slow", "fast"]])
    np.testing.assert_allclose(shift.by_count, [[0.25, 0.75], [0, 1]])
    np.testing.assert_allclose(shift.by_bytes, [[1 / 8, 7 / 8], [0, 1]])


def test_cells_say_their_shares_and_rows_how_much_they_had():
    before, size = np.array([[0], [0]]), np.array([[1 << 20], [1 << 21]])
    after = np.array([[[0], [1]], [[1], [1]]])
    figure = shift_figure(shifts(before, after, size, ["w"], [["slow", "fast"]]), "net on chip")
    assert texts(figure, 0) == ["25%", "75%", "-", "-"]
    assert texts(figure, 1) == ["17%", "83%", "-", "-"]
    rows = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
    assert rows == [["slow\n2 tensors", "fast\n0 tensors"], ["slow\n3 MiB", "fast\n0 MiB"]]
    assert figure.get_suptitle() == "net on chip"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heads", "memories"),
    [
        (1, 2),
        (3, 8),
        *(
            pytest.param(heads, memories, marks=pytest.mark.exhaustive)
            for heads, memories in ((1, 3), (1, 8), (2, 2), (2, 3), (2, 8), (3, 2), (3, 3))
        ),
    ],
)
def test_labels_stay_inside_and_beside_the_panels(memories, heads):
    figure = shift_figure(shifted(0, 40, heads, memories, 1), "t")
    figure.draw_without_rendering()
    assert len(figure.axes) == 2 * heads
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    for number, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
        assert not any(box.overlaps(other) for other in boxes[:number])
    for axes in figure.axes:
        cell = axes.get_window_extent().width / memories
        assert all(text.get_window_extent().width < cell for text in axes.texts)


@pytest.mark.parametrize(
    ("share", "text"), [(np.nan, "-"), (0.0, "0%"), (0.001, "<1%"), (0.999, ">99%"), (1.0, "100%")]
)
def test_only_nothing_and_everything_are_said_to_be_so(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 MiB"), (1, "<0.001 MiB"), (3 << 19, "1.5 MiB"), (1 << 30, "1024 MiB")]
)
def test_sizes_are_in_mebibytes(size, text):
    assert mib(size) == text
