"""The archive: rows by ticket, mappings within a window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl.core.archive import Archive, Column, proposals
from hwsim.capabilities import Parts
from hwsim.mappings import sample_uniformly
from hwsim.problem import Evaluation
from toys import ToyGame, ToyRagged


def fill(archive, problem, rows, first, number=0):
    keys = np.arange(first, first + rows, dtype=np.uint64)
    mapping = sample_uniformly(problem, keys)
    evaluation = problem.evaluate(mapping, keys)
    archive.append(proposals(mapping, "test", number).numbered(first), evaluation)
    return evaluation


def test_what_was_appended_is_found_by_ticket():
    problem = ToyRagged()
    archive = Archive([problem])
    parts = [fill(archive, problem, rows, first) for rows, first in ((5, 0), (400, 5), (1, 405))]
    repaired = np.concatenate([part.repaired for part in parts])
    at = np.array([405, 0, 77, 77])
    np.testing.assert_array_equal(archive.mappings(at), repaired[at])
    np.testing.assert_array_equal(archive.column("cost")[:], np.concatenate([part.cost for part in parts]))
    np.testing.assert_array_equal(archive.evaluation(200).repaired[0], repaired[200])


def test_two_problems_share_the_tickets_but_not_the_mappings():
    problems = [ToyRagged(), ToyGame()]
    archive = Archive(problems)
    first = fill(archive, problems[0], 3, 0, 0)
    second = fill(archive, problems[1], 4, 3, 1)
    np.testing.assert_array_equal(archive.mappings(np.array([1])), first.repaired[1:2])
    np.testing.assert_array_equal(archive.mappings(np.array([6, 3])), second.repaired[[3, 0]])
    with pytest.raises(ValueError, match="expected one problem"):
        archive.mappings(np.array([0, 4]))


def test_only_the_window_of_mappings_is_kept():
    problem = ToyRagged()
    archive = Archive([problem], window_rows=10)
    assert archive.window == 1024
    evaluations = [fill(archive, problem, 700, first) for first in (0, 700)]
    repaired = np.concatenate([part.repaired for part in evaluations])
    newest = np.arange(1400 - 1024, 1400)
    np.testing.assert_array_equal(archive.mappings(newest), repaired[newest])
    with pytest.raises(ValueError, match=r"expected 376\.\.1399"):
        archive.mappings(np.array([375]))
    assert len(archive.column("reward")) == 1400


def test_scalars_older_than_the_window_are_blank_as_after_resuming_and_take_no_memory(monkeypatch):
    monkeypatch.setattr("egrl.core.archive.SLACK", 100)
    problem = ToyRagged()
    archive = Archive([problem], window_rows=10)
    evaluations = [fill(archive, problem, 700, first) for first in range(0, 7000, 700)]
    cost = np.concatenate([part.cost for part in evaluations])
    kept = slice(7000 - 1024 - 100, 7000)
    column = archive.column("cost")
    np.testing.assert_array_equal(column[kept], cost[kept])
    np.testing.assert_array_equal(column[np.array([6999, -7, 6000])], cost[[6999, -7, 6000]])
    assert column[6500] == cost[6500]
    assert set(archive.sources(kept)) == {"test"}
    assert archive.sources(slice(0, 3)).tolist() == [""] * 3
    assert np.isnan(column[np.array([0, 3])]).all()
    assert np.isnan(column[0:5000:7][:100]).all()
    assert archive.column("status")[0] == 0
    assert len(column._data) <= 2 * 1124
    with pytest.raises(IndexError, match="expected below 7000, received 7000"):
        column[np.array([7000])]
    with pytest.raises(ValueError, match=r"expected 5976\.\.6999"):
        archive.mappings(np.array([3]))
    assert np.isnan(archive.parts(np.array([3]))).all()

    resumed = Archive([problem], window_rows=10)
    resumed.skip(7000 - 1024)
    for name in ("cost", "status"):
        np.testing.assert_array_equal(resumed.column(name)[:100], archive.column(name)[:100])


@given(st.lists(st.integers(0, 90), max_size=40), st.integers(1, 60))
def test_a_column_has_the_last_rows_at_least_and_never_more_than_twice(counts, keep):
    column, all_of = Column(np.float64, keep), np.arange(sum(counts), dtype=np.float64)
    for first, count in zip(np.cumsum([0, *counts]), counts, strict=False):
        column.extend(all_of[first : first + count])
        end = first + count
        kept = slice(max(0, end - keep), end)
        np.testing.assert_array_equal(column[kept], all_of[kept])
        found = column[:]
        assert len(found) == len(column) == end
        np.testing.assert_array_equal(found[~np.isnan(found)], all_of[:end][~np.isnan(found)])
        assert len(column._data) <= max(256, 2 * keep, keep + 90)


def test_scalars_of_several_problems_are_all_kept():
    problems = [ToyRagged(), ToyGame()]
    archive = Archive(problems, window_rows=10)
    first = fill(archive, problems[0], 3, 0, 0)
    for at in range(3, 9000, 700):
        fill(archive, problems[1], 700, at, 1)
    np.testing.assert_array_equal(archive.mappings(np.arange(3)), first.repaired)
    np.testing.assert_array_equal(archive.column("cost")[:3], first.cost)


class Profiled(ToyRagged):
    """The toy with three parts, of which every third row has none and the first is not always known."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = Parts(("a", "b", "c"), "sum", np.full(3, -1, np.int32))

    def evaluate(self, mapping, key):
        found = super().evaluate(mapping, key)
        parts = np.array([[k, k + 1, k + 2] for k in key.tolist()], np.float32)
        parts[key % 3 == 0] = np.nan
        parts[key % 2 == 0, 0] = np.nan
        return replace(found, parts=parts)


def test_profiles_are_found_by_ticket_and_those_of_old_rows_are_unknown():
    problem = Profiled()
    archive = Archive([problem], window_rows=10)
    evaluations = [fill(archive, problem, 700, first) for first in (0, 700)]
    parts = np.concatenate([part.parts for part in evaluations])
    newest = np.arange(1400 - 1024, 1400)
    np.testing.assert_array_equal(archive.parts(newest[::-1]), parts[newest[::-1]])
    assert np.isnan(archive.parts(np.array([0, 1, 375]))).all()
    np.testing.assert_array_equal(archive.evaluation(1399).parts, parts[1399:])
    assert archive.evaluation(1398).parts is None


def test_profiles_take_no_more_than_their_bytes(monkeypatch):
    monkeypatch.setattr("egrl.core.archive.PROFILE_BYTES", 1)
    problem = Profiled()
    archive = Archive([problem])
    evaluations = [fill(archive, problem, 1500, first) for first in (0, 1500)]
    parts = np.concatenate([part.parts for part in evaluations])
    known = np.flatnonzero(~np.isnan(parts).all(axis=1))
    np.testing.assert_array_equal(archive.parts(known[-1024:]), parts[known[-1024:]])
    assert np.isnan(archive.parts(known[:-1024])).all()


def test_rows_without_profiles_and_problems_without_parts_have_none():
    problems = [Profiled(), ToyGame()]
    archive = Archive(problems)
    fill(archive, problems[0], 2, 0, 0)
    fill(archive, problems[1], 2, 2, 1)
    assert archive.parts(np.array([2, 3])).shape == (2, 0)
    with pytest.raises(ValueError, match="expected one problem"):
        archive.parts(np.array([0, 3]))
    mapping = np.zeros((1, *problems[1].space.shape), np.int16)
    wrong = replace(problems[1].evaluate(mapping, np.zeros(1, np.uint64)), parts=np.zeros((1, 1), np.float32))
    with pytest.raises(ValueError, match="parts: expected 0 a row, received 1"):
        archive.append(proposals(mapping, "test", 1).numbered(4), wrong)


def test_evaluations_with_and_without_profiles_go_together():
    problem = Profiled()
    keys = np.arange(1, 3, dtype=np.uint64)
    mapping = sample_uniformly(problem, keys)
    with_parts = problem.evaluate(mapping, keys)
    without = replace(with_parts, parts=None)
    both = Evaluation.concatenate([without, with_parts, without])
    assert both.parts.shape == (6, 3)
    np.testing.assert_array_equal(both.parts[2:4], with_parts.parts)
    assert np.isnan(both.parts[[0, 1, 4, 5]]).all()
    assert Evaluation.concatenate([without, without]).parts is None
    assert without.rows(slice(1)).parts is None
    np.testing.assert_array_equal(both.rows(np.array([3])).parts, with_parts.parts[1:])


def test_a_gap_in_the_tickets_is_refused():
    problem = ToyRagged()
    archive = Archive([problem])
    with pytest.raises(ValueError, match="ticket: expected 0, received 3"):
        fill(archive, problem, 2, 3)
