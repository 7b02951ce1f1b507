"""What a plain problem takes grows with its nodes and not with nodes times the most choices of any."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from egrl.core.archive import Archive, proposals
from hwsim.mappings import repair, sample_uniformly
from hwsim.problem import Mapping16
from toys.wide import MOST, NODES, ToyWide

ROWS = 8
A_DECISION = 16
"""Bytes of a decision of a mapping that an operation may take: int16 twice, a few masks, a float64."""


@pytest.fixture(scope="module")
def problem() -> ToyWide:
    return ToyWide()


def keys(rows: int) -> np.ndarray:
    return np.arange(rows, dtype=np.uint64)


def peak_bytes(act: Callable[[], object]) -> int:
    """The most that was allocated at once, after everything that happens only once has happened."""
    act()
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def drawn(problem: ToyWide) -> Mapping16:
    return sample_uniformly(problem, keys(ROWS))


OPERATIONS: dict[str, Callable[[ToyWide, Mapping16], object]] = {
    "sample_uniformly": lambda problem, drawn: sample_uniformly(problem, keys(ROWS)),
    "repair": lambda problem, drawn: repair(problem, drawn, keys(ROWS)),
    "check": lambda problem, drawn: problem.space.check(drawn, keys(ROWS)),
    "canonical": lambda problem, drawn: problem.space.canonical(drawn),
    "evaluate": lambda problem, drawn: problem.evaluate(drawn, keys(ROWS)),
    "baseline": lambda problem, drawn: problem.evaluate(
        np.repeat(problem.baseline.mapping[None], ROWS, axis=0), keys(ROWS)
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_operation_takes_more_than_a_few_bytes_a_decision(problem, drawn, name):
    assert peak_bytes(lambda: OPERATIONS[name](problem, drawn)) < ROWS * NODES * A_DECISION


def test_what_is_dense_would_be_seen(problem):
    dense = peak_bytes(lambda: np.ones((ROWS, *problem.space.shape, problem.space.most_choices), np.bool_))
    assert dense >= ROWS * NODES * MOST > ROWS * NODES * A_DECISION


def test_all_choices_are_drawn_where_there_are_3_and_where_there_are_800(drawn):
    assert np.unique(drawn[:, : NODES // 2]).tolist() == [0, 1, 2]
    assert drawn[:, NODES // 2].max() > MOST // 3


def test_an_archive_takes_a_number_a_decision(problem, drawn):
    def kept() -> Archive:
        archive = Archive([problem])
        archive.append(proposals(drawn, "test").numbered(0), problem.evaluate(drawn, keys(ROWS)))
        return archive

    first_rows = 256 * NODES * np.dtype(np.int16).itemsize
    assert peak_bytes(kept) < first_rows + 2 * ROWS * NODES * A_DECISION
