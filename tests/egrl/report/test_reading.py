"""What helps a reader of a page who did not run the search: round ticks, parts of the network, the words."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl.report.changes import gained
from egrl.report.page import MEANINGS, TITLE, glossary
from egrl.report.render import page, ticks
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.problem import About
from hwsim.sections import Bars, Table
from workloads.load import load

PARTS = "Where in the network"


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_round_and_inside(low, width):
    found = ticks(low, low + width)
    assert 2 <= len(found) <= 6
    assert all(low - 1e-6 * width <= at <= low + width * (1 + 1e-6) for at in found)
    step = float(f"{found[1] - found[0]:.0e}")
    assert f"{step:.1e}"[:3] in ("1.0", "2.0", "5.0")
    assert all(abs(at / step - round(at / step)) < 1e-3 for at in found)


def test_an_axis_of_one_value_has_one_tick():
    assert ticks(3.0, 3.0) == [3.0]


def test_the_parts_of_a_network_have_all_its_ops_and_all_its_gain():
    problem = NnpiProblem(load("resnet18"), load_chip("nnpi"))
    best = np.where(problem.space.live, 0, problem.baseline.mapping).astype(
        np.int16
    )  # all in the slowest memory
    sections = {section.title: section for section in gained(problem, best)}
    parts, causes = sections[PARTS], sections["What bounds the time"]
    assert isinstance(parts, Table)
    assert isinstance(causes, Bars)
    before, after = (sum(values) for values in causes.series.values())
    assert sum(row[1] for row in parts.rows) == len(best)
    assert sum(row[2] for row in parts.rows) == pytest.approx(before)
    assert sum(row[3] for row in parts.rows) == pytest.approx(after)
    assert sum(row[4] for row in parts.rows) == pytest.approx(before - after)
    assert before != after
    assert [row[0] for row in parts.rows][:3] == ["conv1", "maxpool", "layer1.0"]


def test_names_without_parts_tell_of_no_parts():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    assert PARTS not in [section.title for section in gained(problem, problem.baseline.mapping)]


def test_the_words_are_those_of_the_page_and_the_baseline_comes_first():
    about = About("nnpi", "alexnet", "nnpi", baseline_name="the compiler")
    shown = Table("What moved", "Two weights lie elsewhere.", [("from", "")], [["dram"], ["llc"]])
    rows = glossary(about, [shown], "first", False).rows
    assert [row[0] for row in rows] == ["the compiler", "weight", "dram", "llc"]
    assert all(row[1] == MEANINGS[row[0]] for row in rows[1:])
    other = glossary(dataclasses.replace(about, baseline_name="the heuristic"), [], "greedy", False)
    assert [row[0] for row in other.rows] == ["the heuristic"]
    ((word, meaning),) = glossary(
        dataclasses.replace(about, stands_for="a compiler"), [], "first", False
    ).rows
    assert (word, "that of the built-in baseline heuristic 'first'" in meaning) == (
        "the baseline",
        True,
    )
    given = glossary(dataclasses.replace(about, baseline_name="vela.csv"), [], "vela.csv", True)
    assert given.rows == [["vela.csv", "the mapping to beat: vela.csv, which --baseline names"]]
    assert f"<h2>{TITLE}</h2>" in page("t", "h", "s", [other])


def test_only_a_command_can_be_copied_by_itself():
    table = Table(
        "How it was made",
        "",
        [("what", ""), ("value", "")],
        [["again", "egrl run --config x"], ["by", "egrl 0.2"]],
    )
    assert page("t", "h", "s", [table]).count('<td class="command">') == 1
