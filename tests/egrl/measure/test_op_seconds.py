"""Profiles beside latencies: what is understood, what is dropped and says so, and what is kept of them."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import egrl
from egrl.measure.board import MAX_SUM_OF_LATENCY, ProfileReader, answer_of, excerpt, mean_profile, quoted
from egrl.measure.records import LOG
from egrl.runs.past_run import PastRun
from hwsim.capabilities import Parts
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from toys import ToyRagged
from workloads.errors import Notice
from workloads.load import load

FAKE = str(Path(__file__).parents[2] / "fake_board.py")
MODEL = np.array([1.0, 3.0, 0.0, 4.0])


class Four(ToyRagged):
    """The toy with four parts, the last of which has a plus in its name."""

    def __init__(self, whole: str = "sum") -> None:
        super().__init__()
        self.parts = Parts(("conv1", "relu1", "conv2", "a+b"), whole, np.full(4, -1, np.int32))


def reader(problem=None) -> tuple[ProfileReader, list[str]]:
    log: list[str] = []
    return ProfileReader(problem or Four(), log.append), log


def read(given, latency_s: float = 10.0, model=MODEL, whole: str = "sum"):
    found, log = reader(Four(whole))
    profile = found.read(given, latency_s, model)
    assert log == []
    return profile


# ---- what is understood


def test_a_list_is_in_the_order_of_the_parts_and_a_table_by_their_names():
    assert read([1, 2.5, None, math.nan]) == (1.0, 2.5, None, None)
    assert read({"conv2": 3e-5, "a+b": 1}) == (None, None, 3e-5, 1.0)
    assert read(np.array([1.0, 2, 3, np.nan], np.float32)) == (1.0, 2.0, 3.0, None)
    assert read({"conv1": np.float32(0.5), "relu1": np.int64(2)}) == (0.5, 2.0, None, None)


def test_what_ran_as_one_is_divided_as_the_model_says_and_keeps_its_sum():
    assert read({"conv1+relu1": 8.0}) == (2.0, 6.0, None, None)
    assert read({"conv1 + relu1": 8.0}, model=None) == (4.0, 4.0, None, None)
    assert read({"conv2+conv2": 1.0}) == (None, None, 1.0, None)
    assert read({"conv1+conv2": 1.0}, model=np.zeros(4)) == (0.5, None, 0.5, None)


def test_a_part_that_is_named_twice_took_the_sum():
    assert read({"conv1": 1.0, "conv1+relu1": 4.0, "relu1": None}) == (2.0, 3.0, None, None)


def test_nothing_known_is_no_profile():
    for nothing in (None, {}, [None] * 4, [math.nan] * 4, {"conv1": None}):
        assert read(nothing) == ()


@pytest.mark.filterwarnings("ignore::workloads.errors.Notice")
def test_loads_are_not_added_up():
    assert read([9.0, 9.0, 9.0, 9.0], latency_s=9.0, whole="max") == (9.0, 9.0, 9.0, 9.0)
    found, log = reader(Four("max"))
    assert found.read({"conv1+relu1": 1.0}, 9.0, MODEL) == ()
    assert "no parts of toy-ragged" in log[0]


def test_several_profiles_of_one_mapping_are_averaged_part_by_part():
    assert mean_profile([(), (1.0, None, 3.0), (2.0, None, None)]) == (1.5, None, 3.0)
    assert mean_profile([(), ()]) == mean_profile([]) == ()


# ---- what is dropped


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("fast", "expected a list or a table, found fast"),
        (3.5, "expected a list or a table, found 3.5"),
        ([1.0], "expected a list of 4, a number or null for each, found 1"),
        ([1.0] * 5, "expected a list of 4, a number or null for each, found 5"),
        ([1.0, "x", 1, 1], "expected seconds or null for relu1, found x"),
        ([1.0, True, 1, 1], "expected seconds or null for relu1, found True"),
        ({"conv1": -1e-9}, "expected 0 or more seconds for conv1, found -1e-09"),
        ({"conv1": math.inf}, "expected 0 or more seconds for conv1, found inf"),
        ({"conv1": 10**400}, "expected 0 or more seconds for conv1, found 1000"),
        ({1: 2.0}, "expected names, found 1"),
        ([4.0, 4.0, 4.0, 3.1], "expected a sum of at most 1.5 times the latency, 10 s, found 15.1 s"),
    ],
)
def test_a_profile_that_makes_no_sense_is_dropped_with_one_line(given, says):
    found, log = reader()
    with pytest.warns(Notice, match="such profiles are dropped"):
        assert found.read(given, 10.0, MODEL) == ()
    assert found.read(given, 10.0, MODEL) == ()
    assert len(log) == 1
    assert log[0].startswith(f"op_seconds: {says}")
    assert found.read([1.0, 1.0, 1.0, 1.0], 10.0, MODEL) == (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (5 * 10**15, "expected a list or a table, found {}"),
        ([1, 1, "x5000000000000000", 1], "expected seconds or null for conv2, found x{}"),
        ({"conv1": -5 * 10**15}, "expected 0 or more seconds for conv1, found -{}"),
        ({"o5000000000000000": 1}, "no parts of toy-ragged, counted as overhead: o{}"),
    ],
)
def test_only_what_a_board_gave_is_shown_without_what_may_be_an_id(given, shown):
    """A caller's own number of 16 digits is shown as it is."""
    for quote, number in ((excerpt, "5000000000000000"), (quoted, "ID")):
        log: list[str] = []
        with pytest.warns(Notice):
            ProfileReader(Four(), log.append, quote).read(given, 10.0, MODEL)
        assert shown.format(number) in log[0]


def test_the_margin_is_for_what_profilers_add():
    assert read([4.0, 4.0, 4.0, 3.0]) != ()
    assert MAX_SUM_OF_LATENCY * 10.0 == 15.0
    found, log = reader(Four("max"))
    with pytest.warns(Notice):
        assert found.read([15.1, 0, 0, 0], 10.0, MODEL) == ()
    assert "expected parts of at most 1.5 times the latency" in log[0]


def test_unknown_names_are_overhead_and_listed_once():
    found, log = reader()
    given = {"conv1": 1.0, "memcpy": 2.0, "reorder": 1.0, "conv2+cast": 3.0, "exit": 0.1}
    with pytest.warns(Notice, match="counted as overhead"):
        assert found.read(given, 10.0, MODEL) == (1.0, None, 3.0, None)
    assert found.read({"another": 1.0, "conv1": 2.0}, 10.0, MODEL) == (2.0, None, None, None)
    assert log == [
        "op_seconds: no parts of toy-ragged, counted as overhead: memcpy, reorder, conv2+cast … (4 names)"
    ]


def test_a_problem_without_parts_takes_none():
    found, log = reader(ToyRagged())
    with pytest.warns(Notice):
        assert found.read({"n0": 1.0}, 10.0) == ()
    assert log == [
        "op_seconds: expected none for toy-ragged, whose costs have no parts; such profiles are dropped,"
        " the latencies count"
    ]


NAMES = (
    st.sampled_from(["conv1", "relu1", "conv2", "a+b", "conv1+relu1", "x", "+", "", "conv1++conv2"])
    | st.text()
)
SCALARS = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(NAMES, inner, max_size=6)
)
SENSIBLE = st.dictionaries(NAMES, st.none() | st.floats(0.0, 5.0), max_size=6) | st.lists(
    st.none() | st.floats(0.0, 5.0), min_size=4, max_size=4
)


@pytest.mark.filterwarnings("ignore::workloads.errors.Notice")
@given(ANYTHING | SENSIBLE, st.floats(1e-9, 1e3), st.sampled_from(["sum", "max"]))
def test_whatever_is_given_is_a_profile_or_none(given, latency_s, whole):
    profile = ProfileReader(Four(whole), lambda text: None).read(given, latency_s, MODEL)
    assert len(profile) in (0, 4)
    known = [s for s in profile if s is not None]
    assert all(math.isfinite(s) and s >= 0 for s in known)
    assert bool(profile) == bool(known)
    whole_s = sum(known) if whole == "sum" else max(known, default=0.0)
    assert whole_s <= MAX_SUM_OF_LATENCY * latency_s * (1 + 1e-5)
    if known and isinstance(given, dict):
        assert sum(known) <= sum(s for s in given.values() if s == s and s is not None) * (1 + 1e-5) + 1e-9


@given(st.lists(st.none() | st.floats(1e-12, 1e-3), min_size=1, max_size=5), st.integers(0, 9))
def test_an_answer_carries_what_was_said_of_ops(op_seconds, number):
    text = json.dumps({"id": number, "latency_s": 1.0, "op_seconds": op_seconds})
    assert answer_of(json.loads(text)).op_seconds == op_seconds


# ---- in a run


def profile_of(rows) -> dict[str, float]:
    """Seconds by name, a pure function of the mapping; the first op is not told."""
    return {row["node"]: 1e-6 * (2.0 - (row.get("activation") == "sram")) for row in rows[1:]}


def board(rows):
    found = profile_of(rows)
    return {"latency_s": sum(found.values()) + 1e-6, "op_seconds": found}


def evaluations(folder: Path):
    return PastRun.read(folder).evaluations()


def expected(found, problem) -> np.ndarray:
    from egrl.core.mapping_file import names_of

    rows = [profile_of(names_of(problem, mapping)) for mapping in found.mapping]
    return np.array([[row.get(name, np.nan) for name in problem.parts.names] for row in rows], np.float32)


def test_a_run_keeps_what_the_board_said_and_nothing_of_the_model(tmp_path):
    egrl.search("alexnet", method="ea", evals=45, out=tmp_path / "r", evaluator=board)
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    found = evaluations(tmp_path / "r")
    np.testing.assert_allclose(found.parts, expected(found, problem), rtol=2e-6)
    egrl.search("alexnet", method="ea", evals=21, out=tmp_path / "t", evaluator=lambda rows: 1e-3)
    assert evaluations(tmp_path / "t").parts.shape == (21, 0)


@pytest.mark.slow
def test_a_resumed_run_and_more_boards_have_the_same_profiles(tmp_path):
    given = {"workload": "alexnet", "method": "ea"}
    egrl.search(**given, evals=60, out=tmp_path / "whole", evaluator=board)
    egrl.search(**given, evals=30, out=tmp_path / "parts", evaluator=board, workers=3)
    egrl.search(resume=tmp_path / "parts", evals=60, evaluator=board)
    whole, parts = evaluations(tmp_path / "whole"), evaluations(tmp_path / "parts")
    np.testing.assert_array_equal(whole.parts, parts.parts)


def test_a_command_gives_its_profile_in_its_answer(tmp_path):
    command = f"{sys.executable} {FAKE} profile"
    egrl.search("alexnet", method="random", evals=21, out=tmp_path / "r", evaluator=command)
    found = evaluations(tmp_path / "r")
    assert np.isfinite(found.parts[:, :-1]).all()
    assert np.isnan(found.parts[:, -1]).all()
    assert not (tmp_path / "r" / LOG).exists()


def test_a_bad_profile_leaves_the_measurement_and_a_line_in_the_log(tmp_path):
    def boastful(rows):
        return {"latency_s": 1e-3, "op_seconds": [1.0] * len(rows)}

    with pytest.warns(Notice, match="expected a sum of at most"):
        result = egrl.search("alexnet", method="random", evals=21, out=tmp_path / "r", evaluator=boastful)
    assert result.summary["evaluations"] == 21
    assert evaluations(tmp_path / "r").parts.shape == (21, 0)
    assert len((tmp_path / "r" / LOG).read_text().splitlines()) == 1


def test_seconds_may_be_told_with_profiles(tmp_path):
    with egrl.Search("alexnet", method="random", out=tmp_path / "r") as search:
        while search.evaluations < 30:
            batch = search.ask(limit=30 - search.evaluations)
            profiles = [profile_of(rows) for rows in batch.names]
            seconds = [sum(profile.values()) for profile in profiles]
            with pytest.raises(ValueError, match=r"tell: expected \d+ seconds and as many profiles"):
                search.tell(batch, seconds, op_seconds=[*profiles, {}])
            search.tell(batch, seconds, op_seconds=[None if search.evaluations == 1 else p for p in profiles])
    found = evaluations(tmp_path / "r")
    want = expected(found, search.problem)
    np.testing.assert_allclose(found.parts[0], want[0], rtol=2e-6)
    assert np.isnan(found.parts[1]).all()
    with egrl.Search("alexnet", method="random") as other:
        batch = other.ask()
        evaluation = other.problem.evaluate(batch.proposals.mapping, batch.key)
        with pytest.raises(ValueError, match="received an Evaluation"):
            other.tell(batch, evaluation, op_seconds=[None] * len(batch))
