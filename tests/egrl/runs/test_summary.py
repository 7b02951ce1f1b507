"""What people are told at the end of a run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import egrl
from egrl.core.version import VERSION
from egrl.report.searching import settings
from egrl.runs.past import PastRun
from egrl.runs.summary import percent_up, sentence
from egrl.runs.words import about_of, start_word, table_of
from hwsim.problem import About


def summary(**changes: Any) -> dict[str, Any]:
    best = {"speedup": 1.25, "cost": 80e-6, "source": "gnn"}
    values = {
        "problem": "nnpi",
        "workload": "w",
        "chip": "c",
        "method": "m",
        "about": {"rival": "the compiler"},
        "best": best,
        "baseline": {"cost": 100e-6},
    }
    return {**values, "gap": 0.0123, "generations": 2, "evaluations": 42, "seconds": 3.2, **changes}


def test_the_sentence_says_what_was_found_and_how_far_it_is_from_the_best_possible():
    assert sentence(summary(), "runs/r").splitlines() == [
        "w on c, m: 1.2500x the compiler (80.0 us against 100.0 us), found by gnn,"
        " within 1.23% of the best possible",
        "2 generations, 42 evaluations, 3 s",
        "run folder: runs/r",
    ]


def test_the_words_are_those_of_the_problem_and_plain_ones_in_older_summaries():
    about = About("nnpi", "w", "c", rival="the rival", evaluated="inferences", measured=True, place="memory")
    assert about_of({**summary(), "about": json.loads(json.dumps(table_of(about)))}) == about
    assert "1.2500x the baseline (" in sentence(summary(about=None), "r")
    assert about_of(summary(about={"rival": 3, "measured": "yes", "other": "word"})) == About(
        "nnpi", "w", "c"
    )
    assert (start_word(about, "compiler"), start_word(about, "cold")) == ("rival", "cold")


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (None, "found by gnn"),
        (0.0, "found by gnn, proven to be the best possible"),
        (1.0000001e-9, "found by gnn, proven to be the best possible"),
        (-1e-12, "found by gnn, proven to be the best possible"),
        (1e-8, "found by gnn, within 0.01% of the best possible"),
    ],
)
def test_an_optimum_is_said_to_be_one(gap, words):
    assert sentence(summary(gap=gap), "r").splitlines()[0].endswith(words)


@pytest.mark.parametrize(
    ("generations", "evaluations", "words"),
    [
        (1, 21, "1 generation, 21 evaluations, 3 s"),
        (1, 2, "2 evaluations, 3 s; that is all that the method has to propose"),
        (1, 1, "1 evaluation, 3 s; that is all that the method has to propose"),
    ],
)
def test_counts_are_in_the_singular_where_there_is_one(generations, evaluations, words):
    assert words in sentence(summary(generations=generations, evaluations=evaluations), "r").splitlines()
    found = sentence(summary(generations=generations, evaluations=evaluations, best=None), "r")
    assert f"no valid mapping found in {words}\n" in found


@pytest.mark.parametrize(
    ("share", "text"), [(0.0123, "1.23%"), (0.01231, "1.24%"), (1e-7, "0.01%"), (1.0, "100.00%")]
)
def test_a_percentage_that_bounds_is_rounded_up(share, text):
    assert percent_up(share) == text


@pytest.mark.parametrize(
    ("speedup", "interval", "words"),
    [
        (1.01, None, None),
        (1.0, None, "not better than the compiler: keep the compiler's"),
        (0.97, None, "not better than the compiler: keep the compiler's"),
        (1.05, [1.01, 1.09], None),
        (1.05, [0.99, 1.11], "not surely better than the compiler: keep the compiler's"),
        (0.9, [0.85, 0.95], "not better than the compiler: keep the compiler's"),
    ],
)
def test_what_is_not_better_than_the_compiler_is_said_to_be_so(speedup, interval, words, tmp_path):
    found = summary(gap=None)
    found = {**found, "about": {"rival": "the compiler"}, "best": {**found["best"], "speedup": speedup}}
    if interval is not None:
        found["evaluator"] = {"speedup_interval": interval}
    lines = sentence(found, str(tmp_path)).splitlines()
    assert (lines[1] if words else None) == words
    assert any("keep" in line for line in lines) == (words is not None)
    (tmp_path / "baseline_layout.json").write_text("{}")
    if words:
        assert sentence(found, str(tmp_path)).splitlines()[1] == f"{words} (baseline_layout.json)"


def test_a_run_says_what_it_was_made_with(tmp_path):
    result = egrl.search("alexnet", method="random", gens=1, bound_seconds=0.0, out=tmp_path / "r")
    found = json.loads((tmp_path / "r" / "summary.json").read_text())["versions"]
    assert found["egrl"] == VERSION
    assert found["numpy"] == np.__version__
    assert result.summary["versions"] == found
    (page,) = [s for s in settings(PastRun.read(tmp_path / "r")) if s.title == "How it was made"]
    rows = dict(page.rows)
    assert f"numpy {np.__version__}" in rows["the run was made by"]
