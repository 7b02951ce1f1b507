"""The archive: rows by ticket, mappings within a window."""

from __future__ import annotations

import numpy as np
import pytest

from egrl.core.archive import Archive
from egrl.core.proposals import proposals
from hwsim.mappings import sample_uniformly
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
    np.testing.assert_array_equal(archive.column("cost"), np.concatenate([part.cost for part in parts]))
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


def test_a_gap_in_the_tickets_is_refused():
    problem = ToyRagged()
    archive = Archive([problem])
    with pytest.raises(ValueError, match="ticket: expected 0, received 3"):
        fill(archive, problem, 2, 3)
