"""Population, learner and twin: when the twin takes turns, how rounds are shared out, and how it survives a kill."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from commands import metrics

import egrl
from egrl.core import typed_tables
from egrl.core.archive import Archive, Proposals, proposals
from egrl.core.contracts import Budget, Memory
from egrl.core.interrupts import Interrupted
from egrl.core.loop import search
from egrl.core.method import Context, Costs
from egrl.measure.local import InProcess
from egrl.methods import find_method
from egrl.methods.named import EgrlConfig, build
from egrl.methods.portfolio import Portfolio
from egrl.methods.profile_model.contract import ProfileModelConfig
from egrl.methods.twin import method as twin_method
from egrl.methods.twin.method import Judged, TwinMember
from egrl.methods.twin.proposer import TwinConfig
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.problem import Status
from subjects import SMALL
from toys import ToyRagged
from workloads.errors import InputError
from workloads.load import load

DEATHS = (3, 7, 12, 18, 25)
"""Pieces of thought at which a run dies."""
TABLE = [f"method.{key}={value}" for key, value in SMALL["egrl"].items()]


@pytest.fixture(autouse=True)
def _the_twin_thinks_quickly(monkeypatch):
    monkeypatch.setattr(twin_method, "SETTINGS", TwinConfig(**SMALL["twin"]))


def board(rows) -> float:
    """Seconds that no model knows, equal for equal mappings."""
    return 1e-3 * (2.0 - sum(row.get("activation") == "sram" for row in rows) / len(rows))


def taken(result: egrl.Result) -> bool:
    """Whether the twin took turns."""
    return "twin_share" in result.history


@pytest.mark.slow
def test_the_twin_takes_turns_where_costs_are_measured_and_nowhere_else():
    given = {"method": "egrl", "gens": 1, "settings": TABLE}
    assert taken(egrl.search("alexnet", evaluator=board, **given))
    assert not taken(egrl.search("alexnet", **given))
    assert not taken(egrl.search("alexnet", preset="paper", evaluator=board, **given))
    off = {**given, "settings": [*TABLE, "method.twin=off"]}
    assert not taken(egrl.search("alexnet", evaluator=board, **off))
    assert taken(egrl.search("alexnet", **{**given, "settings": [*TABLE, "method.twin=on"]}))


def test_a_problem_without_a_family_is_searched_without_it_and_refused_where_it_must_be_on():
    problem = ToyRagged()
    context = Context([problem], Archive([problem]), 0, [None], costs=Costs(True))
    definition = find_method("egrl")
    method = definition.build(context, EgrlConfig())
    method.ask()
    assert "twin_share" not in method.metrics()
    with pytest.raises(InputError, match="family"):
        definition.build(context, EgrlConfig(twin="on"))


@pytest.mark.parametrize("in_seconds", [True, False])
def test_a_search_whose_caller_measures_has_the_twin_from_the_first_seconds_on(in_seconds):
    told, seen = egrl.Search("alexnet", method="egrl", settings=TABLE), []
    while told.evaluations < 30:
        batch = told.ask(limit=30 - told.evaluations)
        assert batch is not None
        seen += batch.source
        modelled = told.problem.evaluate(batch.proposals.mapping, batch.key)
        told.tell(batch, [board(rows) for rows in batch.names] if in_seconds else modelled)
    assert ("twin" in seen) == in_seconds
    assert seen[0] == "start"


@pytest.mark.slow
def test_it_begins_with_the_rules_and_the_population_follows_with_what_ran_as_immigrants():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    method = build(
        Context([problem], Archive([problem]), 0, [problem.baseline.mapping], costs=Costs(True)),
        EgrlConfig(profile_model=ProfileModelConfig(use="off"), readout="greedy"),
    )
    assert isinstance(method, Portfolio)
    first, known, told = [], [], 0
    while True:
        batch = method.ask() if told else proposals(problem.baseline.mapping[None], "start")
        if not len(batch):
            continue
        batch = batch.numbered(told)
        evaluation = problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64))
        method._context.archive.append(batch, evaluation)
        method.learn()
        method.tell(batch, evaluation)
        told += len(batch)
        first.append(str(batch.source[0]))
        if "network" in batch.source:
            break
        known += [row.tobytes() for row in evaluation.repaired]
    assert first[:3] == ["start", "twin", "twin"]
    rules = {row.tobytes() for row in problem.baseline.rules().values()}
    assert rules <= set(known)
    immigrants = {immigrant.ran.tobytes() for immigrant in method._core._immigrants}
    assert immigrants == set(known)
    archive = method._context.archive
    assert len(method._core._learner._replay) == (archive.column("status")[:] == Status.OK).sum()
    while "network" not in method.ask().source:  # the next generation is bred once everybody is asked again
        continue
    assert method._core._immigrants == []


class Scripted:
    """A surrogate that has a batch of eight at once, and judges those from one source to be the best."""

    def __init__(self, archive: Archive, shape: tuple[int, int], best: str) -> None:
        self.archive, self.shape, self.best = archive, shape, best
        self.seen = 0
        self.judged = Judged.none()

    def begin(self) -> None:
        tickets = np.arange(self.seen, len(self.archive))
        self.seen = len(self.archive)
        self.judged = Judged(tickets, self.archive.sources(tickets) == self.best)

    def advance(self, until: float) -> bool:
        return True

    def take(self) -> tuple[np.ndarray, list[str]]:
        return np.zeros((8, *self.shape), np.int16), ["mode"] * 8


@pytest.mark.parametrize(
    ("best", "low", "high"), [("twin", 0.85, 0.95), ("network", 0.08, 0.25), ("nobody", 0.4, 0.7)]
)
def test_rounds_are_shared_out_by_what_they_earn_and_nobody_starves(best, low, high):
    problem = ToyRagged()
    nnpi = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    member = TwinMember(Context([nnpi], Archive([nnpi]), 0, [None]))
    archive, rows = Archive([problem]), Counter[str]()
    member._context = Context([problem], archive, 0, [None])
    member._surrogate = Scripted(archive, problem.space.shape, best)
    while rows.total() < 1500:
        if member.its_turn:
            batch = proposals(member.ask().mapping, "twin")
        else:
            batch = proposals(np.zeros((21, *problem.space.shape), np.int16), "network")
            member.rounds.credit_others(len(batch))
        batch = batch.numbered(len(archive))
        archive.append(batch, problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64)))
        rows[str(batch.source[0])] += len(batch)
    assert low < rows["twin"] / rows.total() < high


class Dead(InProcess):
    """A board on which everything fails."""

    def submit(self, proposals: Proposals, key: np.ndarray) -> None:
        super().submit(proposals, key)
        part, evaluation = self._done.pop()
        nothing = np.full(len(part), np.nan)
        status = np.full(len(part), Status.FAILED, np.int8)
        self._done.append((part, replace(evaluation, reward=nothing, cost=nothing, status=status)))


def test_it_lives_with_a_board_on_which_everything_fails():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    context = Context([problem], Archive([problem]), 0, [None], costs=Costs(True))
    definition = find_method("egrl")
    method = definition.build(
        context, typed_tables.build(EgrlConfig, {**SMALL["egrl"], "profile_model.use": "off"}, "test")
    )
    search(method, context, Dead([problem]), Budget(150, None), Memory())
    assert set(context.archive.sources(slice(None))) == {"twin", "network", "boltzmann", "sac"}
    assert method.champion(0) is None


@pytest.mark.exhaustive
def test_while_everybodys_round_is_measured_the_next_batch_is_the_twins(monkeypatch):
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    context = Context([problem], Archive([problem]), 0, [None], costs=Costs(True))
    definition = find_method("egrl")
    method = definition.build(
        context, typed_tables.build(EgrlConfig, {**SMALL["egrl"], "profile_model.use": "off"}, "test")
    )
    seen: list[str] = []
    ask = Portfolio.ask

    def noted(self: Portfolio) -> Proposals:
        batch = ask(self)
        seen.extend(["twin" if "twin" in batch.source else "everybody"] * bool(len(batch)))
        return batch

    monkeypatch.setattr(Portfolio, "ask", noted)
    search(method, context, InProcess([problem]), Budget(110, None), Memory())
    assert method.ahead == 1
    assert seen.count("everybody") > 1
    assert ("everybody", "everybody") not in set(pairwise(seen))


@pytest.mark.exhaustive
def test_a_run_that_dies_in_the_middle_of_a_thought_thinks_again(tmp_path, monkeypatch):
    given = {"method": "egrl", "seed": 4, "settings": [*TABLE, "evaluator.contenders=0"]}
    egrl.search("alexnet", evaluator=board, evals=75, out=tmp_path / "whole", workers=3, **given)
    monkeypatch.setattr(twin_method, "PAUSE_S", 0.0)
    thoughts: list[int] = []
    advance = twin_method.Surrogate.advance

    def dying(self: twin_method.Surrogate, until: float) -> bool:
        thoughts.append(self._told)
        if len(thoughts) in DEATHS:
            raise KeyboardInterrupt
        return advance(self, until)

    monkeypatch.setattr(twin_method.Surrogate, "advance", dying)
    path = tmp_path / "dies"
    with pytest.raises(Interrupted):
        egrl.search("alexnet", evaluator=board, evals=75, out=path, checkpoint_seconds=0.0, **given)
    for _ in DEATHS[1:]:
        with pytest.raises(Interrupted):
            egrl.search(resume=path, evaluator=board)
    egrl.search(resume=path, evaluator=board)
    assert metrics(path) == metrics(tmp_path / "whole")
