"""In which order the loop calls a method, when it ends, and how a method without a state is resumed."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from egrl.core import loop, typed_tables
from egrl.core.archive import Archive, Proposals, proposals
from egrl.core.contracts import GENERATION, Budget, Memory
from egrl.core.flow import replay
from egrl.core.loop import SearchState, search
from egrl.core.method import Context, Method
from egrl.measure.local import InProcess
from egrl.methods import find_method
from egrl.runs.folder import RunFolder
from hwsim.problem import Evaluation, Keys
from toys import ToyRagged
from workloads.errors import InputError


def annealing(context: Context) -> Method:
    definition = find_method("annealing")
    return definition.build(context, typed_tables.build(definition.config, {}, "method"))


def toy(start: bool = False) -> Context:
    problem = ToyRagged()
    return Context([problem], Archive([problem]), 0, [problem.space.initial if start else None])


class Climber(Method):
    """A hill climber on the toy, two batches at a time; it forgets the state that it could have, and names its own
    champion: the first mapping that was as good as the best.
    """

    ahead = 1

    def __init__(self, context: Context) -> None:
        self.context, self.rng = context, context.generator("climber")
        self.best, self.reward, self.ticket = context.problems[0].space.initial, -np.inf, -1
        self.calls: list[str] = []

    def ask(self) -> Proposals:
        self.calls.append("ask")
        if len(self.calls) % 5 == 0:  # it thinks
            return proposals(self.best[None][:0], [])
        rows = np.repeat(self.best[None], 4, axis=0)
        node = int(self.rng.integers(7))
        rows[:, node] = self.rng.integers(0, self.context.problems[0].space.num_choices[node], (4, 2))
        return proposals(np.where(self.context.problems[0].space.live, rows, -1), "climber")

    def tell(self, batch: Proposals, evaluation: Evaluation) -> None:
        self.calls.append(f"tell {batch.source[0]} {len(batch)}")
        best = int(evaluation.reward.argmax())
        if evaluation.reward[best] > self.reward:
            self.reward, self.ticket = float(evaluation.reward[best]), int(batch.tickets[best])
            self.best = evaluation.repaired[best]

    def metrics(self) -> dict[str, float]:
        return {"climbed": self.reward}

    def champion(self, problem: int) -> int | None:
        return self.ticket if self.ticket >= 0 else None


def go(
    method: Method, context: Context, path: Path, evals: int, resume: bool = False, generation_evals: int = 21
) -> SearchState:
    folder = RunFolder.reopen(path) if resume else RunFolder.create(path)
    if not resume:
        folder.write_inputs("kind = 'config'\n", context.problems, {})
    try:
        return search(
            method,
            context,
            InProcess(context.problems),
            Budget(evals, None, generation_evals),
            folder,
            state=loop.resume(method, folder, context) if resume else None,
        )
    finally:
        folder.close()


def metrics(path: Path) -> list[dict[str, str]]:
    with open(path / "metrics.csv") as stream:
        return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)]


def test_the_start_is_told_first_and_batches_are_told_whole_one_ask_later(tmp_path):
    context = toy(start=True)
    method = Climber(context)
    state = go(method, context, tmp_path / "r", 40)
    assert method.calls[0] == "tell start 1"
    assert set(method.calls) == {"ask", "tell start 1", "tell climber 4"}
    asked = told = 0
    for number, call in enumerate(method.calls[1:], 1):
        if call == "ask":
            asked += (number + 1) % 5 != 0
        else:
            told += 1
            assert asked == told + 1
    assert told == 9  # of the tenth batch three rows are measured
    assert len(context.archive) == 40
    assert state.champions[0].ticket == method.ticket


def test_methods_think_with_one_thread_of_linear_algebra_here_and_when_they_are_brought_back(tmp_path):
    class Counting(Climber):
        threads: frozenset[int] = frozenset()

        def ask(self) -> Proposals:
            self.threads |= {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}
            return super().ask()

    with threadpool_limits(2, user_api="blas"):
        first, again = (Counting(toy()) for _ in range(2))
        go(first, first.context, tmp_path / "r", 40)
        go(again, again.context, tmp_path / "r", 40, resume=True)
        assert first.threads == again.threads == {1}
        assert {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"} == {2}


class Learner(Climber):
    """Has three things to learn of each batch."""

    ahead = 0
    left = 0

    def ask(self) -> Proposals:
        self.left = 3
        return super().ask()

    def learn(self) -> bool:
        self.left -= 1
        self.calls.append("learn")
        return self.left > 0


class Slow(InProcess):
    """Has results every fifth time."""

    times = 0

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        self.times += 1
        return super().ready(timeout_s) if self.times % 5 == 0 else []


@pytest.mark.parametrize(("executor", "lessons"), [(InProcess, 1), (Slow, 3)])
def test_a_method_learns_on_while_results_do_not_come_and_until_it_has_no_more(executor, lessons):
    context = toy()
    method = Learner(context)
    recorder = Memory()
    search(method, context, executor(context.problems), Budget(16, None), recorder)
    told = [i for i, call in enumerate(method.calls) if call.startswith("tell")]
    assert len(told) == 4
    parts = [method.calls[a:b] for a, b in zip([0, *told], told, strict=False)]
    assert [part.count("learn") for part in parts] == [lessons] * 4


def test_a_method_outside_the_package_goes_on_within_a_batch_without_a_state_of_its_own(tmp_path):
    whole, parts = toy(start=True), toy(start=True)
    expected = go(Climber(whole), whole, tmp_path / "a", 90)
    go(Climber(parts), parts, tmp_path / "b", 43)
    again = toy(start=True)
    found = go(Climber(again), again, tmp_path / "b", 90, resume=True)
    np.testing.assert_array_equal(
        whole.archive.mappings(np.arange(90)), again.archive.mappings(np.arange(90))
    )
    assert expected.champions[0].ticket == found.champions[0].ticket
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")


def test_a_generation_is_as_many_evaluations_as_the_budget_says(tmp_path):
    context = toy()
    state = go(annealing(context), context, tmp_path / "r", 50, generation_evals=20)
    assert [row["evaluations"] for row in metrics(tmp_path / "r")] == ["20", "40", "50"]
    assert state.generation == 2
    again = toy()
    go(annealing(again), again, tmp_path / "r", 60, resume=True, generation_evals=20)
    assert [row["evaluations"] for row in metrics(tmp_path / "r")] == ["20", "40", "60"]


def test_a_champion_that_did_not_run_is_a_mistake_of_the_method(tmp_path):
    context = toy()
    method = Climber(context)
    method.champion = lambda problem: 10_000
    with pytest.raises(ValueError, match="champion: expected the ticket of a valid evaluation"):
        go(method, context, tmp_path / "r", 30)


def test_what_the_archive_has_let_go_cannot_be_told_again():
    context = toy()
    context.archive.skip(context.archive.window + 1)
    with pytest.raises(InputError, match=r"--resume: expected at most \d+ evaluations"):
        replay(annealing(context), context)


def test_a_second_is_not_waited_for_a_generation_that_takes_longer(tmp_path, monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr(loop, "clock", lambda: now_s[0])

    class Slow(InProcess):
        """A minute a batch, which a method of one chain asks for row by row."""

        def submit(self, proposals: Proposals, key: Keys) -> None:
            now_s[0] += 60.0
            super().submit(proposals, key)

    context = toy()
    folder = RunFolder.create(tmp_path / "r")
    reached = search(annealing(context), context, Slow(context.problems), Budget(None, 360.0), folder)
    folder.close()
    assert reached.generation == 0
    assert 1 <= len(context.archive) < GENERATION
    assert reached.seconds >= 360.0
    rows = (tmp_path / "r" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 2


def test_a_method_that_names_nobody_any_more_leaves_the_highest_reward():
    class Doubting(Climber):
        """Names its first evaluation until 105 are told, and proposes nothing new in the end."""

        def ask(self) -> Proposals:
            rows = super().ask().mapping
            if len(self.context.archive) > 90:
                rows = np.repeat(self.context.archive.mappings(np.array([0])), len(rows), axis=0)
            return proposals(rows, "climber")

        def champion(self, problem: int) -> int | None:
            return 0 if len(self.context.archive) <= 105 else None

    context, rows = toy(), Memory()
    budget = Budget(126, None, 21)
    state = search(Doubting(context), context, InProcess(context.problems), budget, rows)
    reward = context.archive.column("reward")[:]
    assert reward[0] < reward.max()
    assert reward.argmax() < 105
    assert [row["best_reward"] for row in rows.rows] == [reward[0]] * 5 + [reward.max()]
    assert state.champions[0].reward == reward.max()
