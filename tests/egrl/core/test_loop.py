"""When the loop ends: what a budget leaves room for. How a method without a state is resumed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.budget import GENERATION, Budget
from egrl.core.loop import replay, search
from egrl.core.method import Method, Setting
from egrl.core.proposals import Proposals
from egrl.measure.local import InProcess
from egrl.methods import find_method
from egrl.runs.folder import RunFolder
from egrl.runs.progress import Silent
from hwsim.problem import Keys
from toys import ToyRagged
from workloads.errors import InputError


@pytest.mark.parametrize(
    ("budget", "spent"),
    [(Budget(60, None), (False, True, True)), (Budget(None, 10.0), (False, False, True))],
    ids=["evaluations", "seconds"],
)
def test_a_budget_looks_at_what_it_limits(budget, spent):
    assert (budget.spent(59, 9.9), budget.spent(60, 9.9), budget.spent(60, 10.0)) == spent


def annealing(archive: Archive) -> Method:
    definition = find_method("annealing")
    setting = Setting([ToyRagged()], archive, 0, [None])
    return definition.build(setting, typed_tables.build(definition.config, {}, "method"))


def test_a_method_without_a_state_is_asked_and_told_again():
    problem, archive = ToyRagged(), Archive([ToyRagged()])
    first = annealing(archive)
    for _ in range(8):
        batch = first.ask(9)
        assert batch is not None
        batch = batch.numbered(len(archive))
        evaluation = problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64))
        archive.append(batch, evaluation)
        first.tell(batch, evaluation)
    again = annealing(archive)
    replay(again, archive)
    one, other = first.ask(21), again.ask(21)
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.mapping, other.mapping)


def test_what_the_archive_has_let_go_cannot_be_told_again():
    archive = Archive([ToyRagged()])
    archive.skip(archive.window + 1)
    with pytest.raises(InputError, match=r"--resume: expected at most \d+ evaluations"):
        replay(annealing(archive), archive)


def test_a_second_is_not_waited_for_a_generation_that_takes_longer(tmp_path):
    class Slow(InProcess):
        """A twentieth of a second a batch, which a method of one chain asks for row by row."""

        def submit(self, proposals: Proposals, key: Keys) -> None:
            time.sleep(0.05)
            super().submit(proposals, key)

    problem, archive = ToyRagged(), Archive([ToyRagged()])
    folder = RunFolder.create(tmp_path / "r")
    reached = search(
        annealing(archive), [problem], Slow([problem]), Budget(None, 0.3), folder,
        archive=archive, seed=0, observer=Silent(),
    )  # fmt: skip
    folder.close()
    assert reached.generation == 0
    assert 1 <= len(archive) < GENERATION
    assert reached.seconds >= 0.3
    rows = (tmp_path / "r" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 2
