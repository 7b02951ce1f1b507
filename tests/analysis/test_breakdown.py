"""The numbers behind what bounds each op, and what the figure shows of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.breakdown import Inference, breakdown, breakdown_figure, cause_fills, largest_changes, micro
from analysis.style import save
from gate import gate

MEMORIES = ("dram", "llc", "sram")
CAUSES = (*MEMORIES, "mac", "dsp", "overhead", "measured")


def inference(label: str, ops: int = 40, seed: int = 0, causes: tuple[str, ...] = CAUSES) -> Inference:
    rng = np.random.default_rng((seed, ops))
    bound = tuple(causes[k] for k in rng.integers(0, len(causes), ops))
    return Inference(label, rng.random(ops) * 1e-5, bound)


def drawn(ops: int = 40, memories: tuple[str, ...] = MEMORIES) -> Figure:
    causes = (*memories, "mac", "dsp", "overhead", "measured")
    runs = inference("compiler", ops, 0, causes), inference("best", ops, 1, causes)
    return breakdown_figure(*runs, [f"op{i}" for i in range(ops)], memories, "t on c")


def test_every_second_is_counted_once_for_what_bound_its_op():
    before, after = inference("compiler", seed=0), inference("best", seed=1)
    found = breakdown(before, after, MEMORIES)
    assert found.causes == ("dram", "llc", "sram", "dsp", "mac", "measured", "overhead")
    for run, seconds in ((before, found.before_s), (after, found.after_s)):
        for cause, total in zip(found.causes, seconds, strict=True):
            ops = zip(run.bound_by, run.duration_s, strict=True)
            assert total == pytest.approx(sum(s for name, s in ops if name == cause))
        assert seconds.sum() == pytest.approx(run.duration_s.sum())
    assert found.change_s.tolist() == (after.duration_s - before.duration_s).tolist()


def test_a_cause_that_bounds_no_op_is_left_out_and_one_of_either_inference_is_in():
    before = Inference("a", np.array([1.0, 2.0]), ("mac", "mac"))
    after = Inference("b", np.array([1.0, 1.0]), ("mac", "llc"))
    found = breakdown(before, after, MEMORIES)
    assert found.causes == ("llc", "mac")
    assert (found.before_s.tolist(), found.after_s.tolist()) == ([0.0, 3.0], [1.0, 1.0])


def test_inferences_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"as many ops in both, received \[3, 4\]"):
        breakdown(inference("a", 3), inference("b", 4), MEMORIES)


@given(st.lists(st.integers(-5, 5), max_size=12), st.integers(1, 4))
def test_the_largest_changes_are_the_ends_of_a_sorted_list(values: list[int], most: int):
    found = largest_changes(np.array(values, float), most).tolist()
    faster = sorted((v, op) for op, v in enumerate(values) if v < 0)[:most]
    slower = sorted((-v, op) for op, v in enumerate(values) if v > 0)[:most]
    assert found == [op for _, op in faster] + [op for _, op in reversed(slower)]


def test_microseconds_have_about_four_digits_and_no_power_of_ten():
    shown = {0.0: "0", 1.23e-9: "0.00123", 1.5e-6: "1.500", 1.414765e-4: "141.5", 0.0123456: "12346"}
    assert {seconds: micro(seconds) for seconds in shown} == shown


def test_the_bars_are_as_long_as_the_latencies():
    before, after = inference("compiler", seed=0), inference("best", seed=1)
    upper = breakdown_figure(before, after, [f"op{i}" for i in range(40)], MEMORIES, "t").axes[0]
    bars = [patch for patch in upper.patches if isinstance(patch, Rectangle)]
    for place, run in enumerate((before, after)):
        row = [bar for bar in bars if abs(bar.get_y() + bar.get_height() / 2 - place) < 1e-9]
        assert sum(bar.get_width() for bar in row) == pytest.approx(run.duration_s.sum() * 1e6)
        assert len(row) == len(set(run.bound_by))


def test_ops_that_changed_are_named_with_microseconds_and_causes_and_the_others_summed_up():
    before = Inference("compiler", np.array([5e-6, 1e-6, 2e-6]), ("dram", "mac", "mac"))
    after = Inference("best", np.array([2e-6, 2.5e-6, 2e-6]), ("mac", "mac", "mac"))
    lower = breakdown_figure(before, after, ["slow $x$", "b", "c"], MEMORIES, "t").axes[1]
    assert [text.get_text() for text in lower.get_yticklabels()] == ["slow $x$", "b"]
    assert [text.get_text() for text in lower.texts] == [
        "−3.000 µs  dram → matrix engines",
        "+1.500 µs  matrix engines",
    ]
    assert lower.get_xlabel().endswith("Not shown: 1 as before.")


def test_what_is_not_shown_adds_up_with_what_is():
    ops = 60
    before = Inference("compiler", np.full(ops, 1e-4), ("mac",) * ops)
    after = Inference("best", 1e-4 + np.arange(-30, 30) * 1e-6, ("mac",) * ops)
    lower = breakdown_figure(before, after, [f"op{i}" for i in range(ops)], MEMORIES, "t").axes[1]
    faster, slower = -sum(range(1, 23)), sum(range(1, 22))
    expected = f"22 faster (−{-faster}.0 µs together), 21 slower (+{slower}.0 µs together), 1 as before."
    assert lower.get_xlabel().endswith(f"Not shown: {expected}")


def test_equal_inferences_are_drawn_and_said_to_be_equal():
    run = inference("compiler")
    lower = breakdown_figure(run, run, [f"op{i}" for i in range(40)], MEMORIES, "t").axes[1]
    assert [text.get_text() for text in lower.texts] == ["no op's time changed"]


@pytest.mark.slow
def test_causes_differ_by_hatch_or_by_luminance():
    figure = drawn(memories=tuple(f"m{k}" for k in range(8)), ops=300)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    looks = []
    for patch in legend.get_patches():
        red, green, blue, _ = patch.get_facecolor()
        looks.append((patch.get_hatch(), round(0.299 * red + 0.587 * green + 0.114 * blue, 2)))
    assert len(looks) == len(set(looks)) == 12


@pytest.mark.slow
@pytest.mark.parametrize("levels", gate([2, 3, 8], (3,)))
def test_no_words_leave_the_figure_or_their_part_of_a_bar(levels):
    figure = drawn(memories=tuple(f"m{k}" for k in range(levels)), ops=90)
    figure.draw_without_rendering()
    upper, lower = figure.axes
    frame = figure.bbox
    for text in [*upper.texts, *lower.texts, *lower.get_yticklabels()]:
        box = text.get_window_extent()
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= frame.x1
    bars = [bar.get_window_extent() for bar in upper.patches]
    for text in upper.texts:
        if "%" in text.get_text():
            box = text.get_window_extent()
            assert any(bar.x0 <= box.x0 and box.x1 <= bar.x1 and bar.y0 <= box.y0 <= bar.y1 for bar in bars)


@pytest.mark.slow
@pytest.mark.parametrize("ending", gate([".png", ".svg", ".pdf"], (".svg",)))
def test_names_in_letters_that_the_font_lacks_are_drawn_without_a_warning(ending: str, tmp_path: Path):
    names = [f"卷积 {i} $x_{{" for i in range(40)]
    figure = breakdown_figure(inference("compiler"), inference("best", seed=1), names, MEMORIES, "网络 on c")
    save(figure, tmp_path / f"f{ending}")
    assert (tmp_path / f"f{ending}").stat().st_size > 0


@pytest.mark.slow
def test_equal_figures_are_equal_files(tmp_path: Path):
    for name in ("a.svg", "b.svg"):
        save(drawn(), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_cause_has_one_hatch_whatever_stands_beside_it():
    def fill(name: str, *causes: str) -> object:
        return cause_fills((*causes, name), MEMORIES)[-1]

    assert fill("mac") == fill("mac", "dram", "dsp", "overhead") == fill("matrix engines", "vector units")
    assert len({str(fill(name)) for name in ("dram", "mac", "dsp", "overhead", "measured", "another")}) >= 5
