"""What people are told at the end of a run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import egrl
from egrl.report.searching import settings
from egrl.runs.past_run import PastRun
from egrl.runs.summary import sentence
from egrl.runs.text import about_of, doubt, percent_up, start_word, table_of, verdict
from hwsim.problem import About


def summary(**changes: Any) -> dict[str, Any]:
    best = {"speedup": 1.25, "cost": 80e-6, "source": "network"}
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
        "w on c, m: 1.25x faster than the compiler",
        "80.0 us instead of 100.0 us, found by a network",
        "within 1.23% of the best possible",
        "2 generations, 42 evaluations, 3 s",
        "run folder: runs/r",
    ]


def test_what_was_proposed_before_any_result_is_not_said_to_be_learned():
    early = {"speedup": 1.25, "cost": 80e-6, "untaught": True}
    for source, words in (
        (
            "profile_model",
            "found by a heuristic, a shipped ranking or a random draw, before anything was learned",
        ),
        ("boltzmann", "found by a chromosome of the first generation, before anything was learned"),
        ("exact", "found by exact"),
        ("start", "the start mapping itself"),
    ):
        assert sentence(summary(best={**early, "source": source}), "r").splitlines()[1].endswith(f", {words}")


@pytest.mark.parametrize("method", ["ea", "annealing"])
def test_a_search_knows_whether_its_best_was_proposed_before_it_had_results(method):
    search = egrl.Search("alexnet", method=method, start="compiler", seed=0)
    batch = search.ask()
    search.tell(batch, [1.0] * len(batch))  # the start
    assert "untaught" not in search.result().summary["best"]
    for seconds, untaught in ((0.9, True), (0.8, False)):  # a first round, and one that follows from it
        batch = search.ask()
        search.tell(batch, [seconds] * len(batch))
        assert search.result().summary["best"].get("untaught", False) == untaught


RULES = {"cost": 100e-6, "rule": "first", "best_rule": {"name": "last", "cost": 80e-6, "of": 12}}


def test_the_built_in_heuristic_is_named_beside_the_best_of_the_heuristics():
    about = {"rival": "the compiler", "stands_for": "a compiler"}
    lines = sentence(summary(about=about, baseline=RULES), "r").splitlines()
    assert lines[0] == "w on c, m: 1.25x faster than the built-in baseline heuristic"
    assert "baseline: first; best of 12 heuristics here: last, 1.25x faster" in lines
    best = {**RULES, "best_rule": {"name": "first", "cost": 100e-6, "of": 12}}
    assert "baseline: first; none of the 12 heuristics is faster here" in sentence(
        summary(about=about, baseline=best), "r"
    )


SHARES = {"mac": 0.45, "dsp": 0.24, "dram": 0.2, "overhead": 0.07, "llc": 0.04}
TIME = "where the time goes: 45% matrix engines, 24% vector units, 20% dram"


@pytest.mark.parametrize(
    ("cost", "bound", "said"),
    [
        (
            98e-6,
            99.7e-6 * 0.98,
            f"proven limit 1.0235x: at most 2.35% can be gained over the compiler; found: 2.04%\n{TIME}",
        ),
        (
            99.9e-6,
            99.7e-6,
            f"proven limit 1.0031x: placement can gain at most 0.31% over the compiler here; found: 0.10%\n{TIME}",
        ),
        (
            100e-6,
            99.7e-6,
            f"proven limit 1.0031x: placement can gain at most 0.31% over the compiler here; found: nothing\n{TIME}",
        ),
        (99.7e-6, 99.7e-6, f"proven limit 1.0030x, which the best mapping reaches\n{TIME}"),
        (100e-6, 100e-6, f"proven limit: no mapping is faster than the compiler\n{TIME}"),
        (110e-6, 105e-6, ""),
        (98e-6, None, ""),
    ],
)
def test_the_verdict_says_what_can_be_gained_and_what_takes_the_time(cost, bound, said):
    about = {"rival": "the compiler", "place": "memory"}
    best = {"speedup": 100e-6 / cost, "cost": cost, "source": "m", "bound_by": SHARES}
    gap = None if bound is None else cost / bound - 1
    found = {**summary(about=about, best=best, gap=gap), "bound": bound}
    assert verdict(found) == said
    assert verdict({**found, "evaluator": {"command": "x"}}) == ""
    assert verdict({**found, "best": None}) == ""


@pytest.mark.parametrize(
    ("error", "bound", "than"),
    [
        (0.03, 97e-6, "is gained"),
        (0.04, 97e-6, "can be gained"),
        (0.03, None, "is gained"),
        (0.01, 97e-6, ""),
        (0.0, 97e-6, ""),
    ],
)
def test_a_fitted_file_that_is_off_by_more_than_the_gain_is_doubted(error, bound, than):
    best = {"speedup": 100 / 98, "cost": 98e-6, "source": "m"}
    gap = None if bound is None else 98e-6 / bound - 1
    found = {**summary(about={"model_error": error}, best=best, gap=gap), "bound": bound}
    said = (
        f"but the fitted chip file is off by {error:.2%} on mappings it was not fitted to, more than {than}"
    )
    assert ("but the fitted chip file" in verdict(found)) == bool(than)
    assert not than or verdict(found).endswith(said)


def test_the_words_are_those_of_the_problem_and_plain_ones_in_older_summaries():
    about = About(
        "nnpi", "w", "c", baseline_name="the other", evaluated="inferences", measured=True, place="memory"
    )
    assert about_of({**summary(), "about": json.loads(json.dumps(table_of(about)))}) == about
    assert "1.25x faster than the baseline\n" in sentence(summary(about=None), "r")
    assert about_of(summary(about={"rival": 3, "measured": "yes", "other": "word"})) == About(
        "nnpi", "w", "c"
    )
    assert (start_word(about.baseline_name, "compiler"), start_word(about.baseline_name, "cold")) == (
        "other",
        "cold",
    )


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (None, "2 generations, 42 evaluations, 3 s"),
        (0.0, "proven to be the best possible"),
        (1.0000001e-9, "proven to be the best possible"),
        (-1e-12, "proven to be the best possible"),
        (1e-8, "within 0.01% of the best possible"),
    ],
)
def test_an_optimum_is_said_to_be_one(gap, words):
    assert sentence(summary(gap=gap), "r").splitlines()[2] == words


@pytest.mark.parametrize(
    ("generations", "evaluations", "words"),
    [
        (1, 21, "1 generation, 21 evaluations, 3 s"),
        (1, 2, "2 evaluations, 3 s; the method has nothing more to propose"),
        (1, 1, "1 evaluation, 3 s; the method has nothing more to propose"),
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
        (1.0, None, "no gain over the compiler: keep the compiler's mapping"),
        (0.97, None, "no gain over the compiler: keep the compiler's mapping"),
        (1.05, [1.01, 1.09], None),
        (1.05, [0.99, 1.11], "no significant gain over the compiler: keep the compiler's mapping"),
        (0.9, [0.85, 0.95], "no gain over the compiler: keep the compiler's mapping"),
    ],
)
def test_what_is_not_better_than_the_compiler_is_said_to_be_so(speedup, interval, words, tmp_path):
    found = summary(gap=None)
    found = {**found, "about": {"rival": "the compiler"}, "best": {**found["best"], "speedup": speedup}}
    if interval is not None:
        found["evaluator"] = {"speedup_interval": interval}
    lines = sentence(found, str(tmp_path)).splitlines()
    assert (words in lines) == (words is not None)
    assert any("keep" in line for line in lines) == (words is not None)
    (tmp_path / "baseline_layout.json").write_text("{}")
    if words:
        assert f"{words} (baseline_layout.json)" in sentence(found, str(tmp_path)).splitlines()


@pytest.mark.slow
def test_a_best_that_is_the_baselines_own_mapping_is_said_to_be_it(tmp_path):
    found = egrl.search("alexnet", method="annealing", evals=1, bound_seconds=0.0).summary
    assert found["best"]["is_baseline"] is True
    noisy = {
        **found,
        "best": {**found["best"], "speedup": 0.9965},
        "evaluator": {"speedup_interval": [0.99, 1.003]},
    }
    lines = sentence(noisy, str(tmp_path)).splitlines()
    assert "the best mapping found is the baseline's own" in lines
    other = egrl.search("alexnet", method="exact", bound_seconds=0.0).summary
    assert "is_baseline" not in other["best"]
    assert not any(line.endswith("'s own") for line in sentence(other, str(tmp_path)).splitlines())


def test_a_run_says_what_it_was_made_with(tmp_path):
    result = egrl.search("alexnet", method="random", gens=1, bound_seconds=0.0, out=tmp_path / "r")
    found = json.loads((tmp_path / "r" / "summary.json").read_text())["versions"]
    assert found["egrl"] == egrl.__version__
    assert found["numpy"] == np.__version__
    assert result.summary["versions"] == found
    (page,) = [s for s in settings(PastRun.read(tmp_path / "r")) if s.title == "How it was made"]
    rows = dict(page.rows)
    assert f"numpy {np.__version__}" in rows["the run was made by"]


def test_a_fitted_file_whose_error_is_above_the_gain_is_said_to_be_so_by_all():
    assert doubt(0.09, 0.04) == (
        "the fitted chip file is off by 9.00% on mappings it was not fitted to, more than is gained"
    )
    assert doubt(0.09, 0.2, 0.05).endswith("more than can be gained")
    assert doubt(0.01, 0.04) == doubt(0.09, 0.0) == doubt(0.0, 0.04) == ""
