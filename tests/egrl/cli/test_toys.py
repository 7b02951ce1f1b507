"""Commands speak of a stranger's problem in its own words, and ask what it can do, not what it is."""

from __future__ import annotations

import pytest

from egrl.cli import evaluate, proving
from egrl.cli.proving import certificate, certificate_text
from egrl.figures.repetitions import check_alike, check_places
from toys import ABLE, TOYS
from workloads.errors import InputError


def test_a_problem_with_a_model_is_certified_against_its_baseline():
    chain = ABLE["chain"]()
    report, best = proving.bound_report(chain, 1.0, 0, {})
    assert report["gap"] == 0
    assert chain.judge(best) == []
    lines = proving.text_of(report, chain.about).splitlines()
    assert f"{report['best_known']['speedup']:.2f}x faster than the toy" in lines[2]
    assert lines[3].startswith("  toy         ")


def test_what_ships_is_shown_where_something_is_known_at_once():
    assert proving.shipped_bound(ABLE["chain"]()) is None  # a best mapping, but no bound without a proof
    assert proving.shipped_bound(TOYS["ragged"]()) is None


def test_a_problem_with_bounded_rewards_is_certified_in_rewards():
    coins = ABLE["coins"]()
    report, best = certificate(coins, coins.bound(1.0), 0, {})
    assert 0 <= report["reward_gap"] < report["reward_bound"]
    assert coins.judge(best) == []
    assert " the baseline\n" in certificate_text(report, coins.about)


@pytest.mark.parametrize(("name", "word"), [("shelf", "bound by"), ("chain", "slowest: chip 2"), ("bag", "")])
def test_a_mapping_is_explained_as_far_as_the_problem_can(name, word):
    problem = ABLE[name]()
    mapping = problem.baseline.mapping if name != "chain" else proving.bound_report(problem, 1.0, 0, {})[1]
    text = evaluate.text_of(evaluate.evaluation_report(problem, mapping, "m"))
    assert word in text
    assert f"{'r than' if name == 'chain' else 'as fast as'} {problem.about.baseline_name}\n" in text


def test_only_places_are_drawn_as_places():
    check_places("bands", ABLE["shelf"]())
    check_places("bands", ABLE["chain"]())
    check_alike("umap", TOYS["game"]())
    with pytest.raises(InputError, match=r"'toy-game', whose choices are not places$"):
        check_places("bands", TOYS["game"]())
    with pytest.raises(InputError, match="'toy-bag', whose choices mean something else in each mapping; "):
        check_alike("umap", ABLE["bag"]())
