"""Small searches find to the last bit what they found when `tests/golden.json` was written, cut off or not."""

from __future__ import annotations

import pytest

import golden

GOLDEN, HERE = golden.read(), golden.made_with()
CUT = [name for name, case in golden.CASES.items() if case.cut]


def check_comparable(name: str) -> None:
    """Skip a case whose bits are others here."""
    if reason := golden.reason_to_skip(name, GOLDEN["made_with"], HERE):
        pytest.skip(f"{reason}: `python tools/golden.py --write` on the last commit, then compare")


@pytest.mark.parametrize(
    "name",
    [
        # Where a cut search finds the same, so does a whole one.
        pytest.param(name, marks=pytest.mark.exhaustive if case.cut else pytest.mark.slow)
        for name, case in golden.CASES.items()
    ],
)
def test_a_search_finds_what_it_found(name, tmp_path):
    check_comparable(name)
    now = golden.whole(golden.CASES[name], tmp_path / "run")
    assert golden.differences(name, GOLDEN["cases"][name], now) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT)
def test_a_search_that_is_cut_off_and_goes_on_finds_what_it_found_in_one_piece(name, tmp_path):
    check_comparable(name)
    now = golden.cut(golden.CASES[name], tmp_path / "run")
    assert golden.differences(name, GOLDEN["cases"][name], now) == []


def test_every_case_is_written_and_every_kind_of_method_is_cut_off():
    assert set(GOLDEN["cases"]) == set(golden.CASES)
    methods = {case.method for case in golden.CASES.values()} - {"exact"}  # which ends before it can be cut
    assert {golden.CASES[name].method for name in CUT} == methods


def test_networks_are_compared_on_one_processor_and_everything_with_one_set_of_libraries():
    then = {"numpy": "2.4", "numba": "0.68", "scipy": "1.17", "torch": "2.13", "processor": "znver5"}
    reason = {
        name: [golden.reason_to_skip(name, then, then | {part: "other"}) for part in then]
        for name in ("nnpi ea", "nnpi exact")
    }
    assert all("other" in line for line in reason["nnpi ea"])
    assert [bool(line) for line in reason["nnpi exact"]] == [True, True, True, False, False]
    assert golden.reason_to_skip("nnpi ea", then, then) == ""


def test_a_difference_is_named_by_case_and_key():
    expected = GOLDEN["cases"]["mcm random"]
    assert golden.differences("mcm random", expected, expected | {"best cost": 1.0}) == [
        f"mcm random: best cost: expected {expected['best cost']}, found 1.0"
    ]
