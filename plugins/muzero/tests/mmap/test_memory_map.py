"""Layouts in one fast memory: their numbers against counting, and what the picture says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection

from analysis.style import save
from egrl_muzero.mmap.memory_map import (
    MemoryMap,
    allocations,
    map_use,
    memory_map_figure,
    most_visits,
    visits,
)

MIB = 2**20
COLOURS = np.random.default_rng(0).uniform(0.2, 0.9, (9, 3))


def made(
    rows: list[tuple[int, int, int, int, int, int, int]], steps: int = 10, capacity: int = 64
) -> MemoryMap:
    """Rows are (tensor, first, end, offset, size, copy_first, copy_end)."""
    columns = np.array(rows, np.int64).reshape(-1, 7).T
    return MemoryMap("m", capacity, *columns, np.full(steps, 2.0), np.full(steps, 0.5))


@st.composite
def maps(draw: st.DrawFn) -> MemoryMap:
    rows = []
    for _ in range(draw(st.integers(0, 6))):
        first = draw(st.integers(0, 8))
        rows.append(
            (draw(st.integers(0, 3)), first, draw(st.integers(first + 1, 10)), *draw(places()), -1, -1)
        )
    return made(rows)


def places() -> st.SearchStrategy[tuple[int, int]]:
    return st.integers(0, 40).flatmap(lambda offset: st.tuples(st.just(offset), st.integers(1, 64 - offset)))


@given(maps())
def test_held_bytes_are_those_that_someone_holds(shown):
    taken = np.zeros((10, 64), np.bool_)
    for first, end, offset, size in zip(
        shown.first, shown.end, shown.offset_bytes, shown.size_bytes, strict=True
    ):
        taken[first:end, offset : offset + size] = True
    found = map_use(shown)
    np.testing.assert_array_equal(found.held_bytes, taken.sum(axis=1))
    assert found.mean_share == pytest.approx(taken.mean())
    assert found.height_bytes == (0 if not taken.any() else np.flatnonzero(taken.any(axis=0)).max() + 1)


@given(maps())
def test_visits_are_the_runs_of_steps_in_which_a_tensor_is_there(shown):
    for tensor in range(4):
        there = np.zeros(12, np.bool_)
        for n in np.flatnonzero(shown.tensor == tensor):
            there[shown.first[n] + 1 : shown.end[n] + 1] = True
        assert visits(shown, tensor) == np.count_nonzero(~there[:-1] & there[1:])


def test_copies_are_counted_with_their_bytes_and_seconds():
    found = map_use(made([(0, 0, 3, 0, 16, 0, 2), (1, 2, 5, 16, 8, -1, -1), (2, 4, 9, 32, 4, 5, 9)]))
    assert (found.copies, found.copied_bytes, found.copy_share) == (2, 20, 0.25)
    assert np.isnan(map_use(replace(made([]), supply_s=np.zeros(10))).copy_share)


def test_an_extension_goes_on_and_a_new_copy_does_not():
    kept = [(0, 0, 3, 8, 16, 0, 2), (0, 3, 6, 8, 16, -1, -1)]
    assert allocations(made(kept), 0) == [(0, 6, 8)]
    assert visits(made(kept), 0) == 1
    again = [(0, 0, 3, 8, 16, 0, 2), (0, 3, 6, 8, 16, 3, 5), (0, 7, 9, 0, 16, 7, 8)]
    assert allocations(made(again), 0) == [(0, 3, 8), (3, 6, 8), (7, 9, 0)]
    assert visits(made(again), 0) == 2


def test_the_tensor_that_comes_most_often_is_found_among_those_that_can_be_seen():
    often = [(0, step, step + 1, 0, 1, -1, -1) for step in (0, 2, 4)]
    seen = [(1, step, step + 1, 8, 16, -1, -1) for step in (0, 3)]
    small = made(often, capacity=128)
    assert most_visits([made([(2, 0, 9, 0, 8, -1, -1)])]) is None
    assert most_visits([small]) == 0
    assert most_visits([small, made(seen, capacity=128)]) == 1
    assert most_visits([made([*seen, (3, 0, 1, 30, 20, -1, -1), (3, 5, 6, 30, 20, -1, -1)])]) == 3


def words(figure) -> str:
    found = [text.get_text() for axes in figure.axes for text in (*axes.texts, axes.title)]
    found += [axes.get_title(loc="left") for axes in figure.axes]
    return " ".join([*found, *(text.get_text() for text in figure.legends[0].get_texts())])


@pytest.mark.slow
def test_each_layout_is_a_column_with_its_boxes_its_copies_and_the_marked_tensor(tmp_path):
    left = made([(0, 0, 4, 0, 16, 0, 2), (1, 2, 5, 16, 8, -1, -1), (0, 6, 9, 32, 16, 6, 8)])
    right = replace(made([(0, 0, 9, 0, 16, 0, 2)]), label="other")
    figure = memory_map_figure([left, right], COLOURS, "p on c", (0, "weights"))
    above = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left").splitlines()[0] for axes in above] == ["m", "other"]
    assert [sum(text.get_text() == "T" for text in axes.texts) for axes in above] == [2, 1]
    boxes = next(c for c in above[0].collections if isinstance(c, PolyCollection))
    assert len(boxes.get_paths()) == 3
    black = (boxes.get_facecolor()[:, :3] == 0).all(axis=1)
    assert black.tolist() == [True, False, True]
    assert "T: weights" in words(figure)
    save(figure, tmp_path / "m.png")
    assert (tmp_path / "m.png").stat().st_size > 10_000


def test_copies_are_hatched_where_they_are_wide_enough_to_be_seen():
    rows = [(0, 0, 100, 0, 16, 0, 90), (1, 100, 110, 16, 8, 100, 102), (2, 0, 9, 40, 8, -1, -1)]
    figure = memory_map_figure([made(rows, steps=1000)], COLOURS, "t")
    hatched = [c for c in figure.axes[0].collections if c.get_hatch()]
    assert [len(c.get_paths()) for c in hatched] == [1]
    assert hatched[0].get_paths()[0].get_extents().bounds == (0, 0, 90, 16)


@pytest.mark.slow
def test_a_memory_with_nothing_in_it_and_one_with_thousands_of_boxes_can_be_drawn(tmp_path):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2990, 9000)
    rows = [
        (int(n % 9), int(f), int(f) + 1 + int(n % 9), int(n % 60), 4, -1, -1) for n, f in enumerate(first)
    ]
    figure = memory_map_figure([made(rows, steps=3000), made([], steps=3000)], COLOURS, "$many$ boxes")
    save(figure, tmp_path / "m.png")
    strip = [patch for axes in figure.axes for patch in axes.patches]
    assert len(strip) == 4
    assert {len(patch.get_data().values) for patch in strip} == {250}
    assert {round(float(value), 6) for patch in strip for value in patch.get_data().values} == {2000.0, 500.0}


def test_the_strip_of_even_copies_is_even_whatever_the_number_of_steps():
    figure = memory_map_figure([made([], steps=300), made([], steps=300)], COLOURS, "even")
    strip = [patch for axes in figure.axes for patch in axes.patches]
    assert {round(float(value), 6) for patch in strip for value in patch.get_data().values} == {2000.0, 500.0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"end": np.array([11])},
        {"size_bytes": np.array([1, 2])},
        {"used_s": np.zeros(3)},
        {"copy_first": np.array([3]), "copy_end": np.array([12])},
    ],
)
def test_columns_that_do_not_fit_are_refused(wrong):
    shown = made([(0, 0, 3, 0, 16, -1, -1)])
    with pytest.raises(ValueError, match="memory map m: expected arrays of one length and steps up to 10"):
        replace(shown, **wrong)
