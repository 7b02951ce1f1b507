"""What somebody may have meant who wrote a name that is none."""

from __future__ import annotations

from workloads.text import hint, nearest, one_of

NAMES = ["annealing", "random", "random-plans", "greedy-dp"]


def test_the_names_most_alike_come_first_and_upper_case_counts_for_nothing():
    assert nearest("randon", NAMES) == ["random", "random-plans"]
    assert nearest("ANNEALING", NAMES) == ["annealing"]
    assert nearest("randon", NAMES, most=1) == ["random"]
    assert nearest("greedy", ["TwoPointsDE", "GreedyDP"], alike=0.9) == []


def test_a_hint_names_only_what_is_about_as_much_alike_as_the_first():
    assert hint("randon", NAMES) == "; did you mean random?"
    assert hint("bat", ["bert", "cat", "hat"]) == "; did you mean hat or cat?"
    assert hint("xyz", NAMES) == ""
    assert hint("", []) == ""


def test_a_refusal_says_what_was_expected_and_found():
    assert one_of("cald", ["cold", "exact"], " or a mapping file") == (
        "expected one of cold, exact or a mapping file, found 'cald'; did you mean cold?"
    )
    assert one_of("xyz", ["cold", "exact"]) == "expected one of cold, exact, found 'xyz'"
