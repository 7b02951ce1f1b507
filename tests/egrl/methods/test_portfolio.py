"""A portfolio of methods: who has its turn, who observes, and that time decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import egrl
from egrl.cli.main import main
from egrl.core import typed_tables
from egrl.core.archive import START, Archive, Proposals, proposals
from egrl.core.method import Context, Method
from egrl.methods import find_method
from egrl.methods.egrl.algorithm2 import Algorithm2
from egrl.methods.learner import Learner
from egrl.methods.manager import RoundShare
from egrl.methods.portfolio import Entrant, Portfolio
from egrl.runs.summary import sentence
from hwsim.problem import Evaluation
from subjects import SMALL
from toys import ToyRagged

PROBLEM = ToyRagged()
SMALL_EGRL = [f"method.{key}={value}" for key, value in SMALL["egrl"].items()]


def rows(count: int, source: str) -> Proposals:
    return proposals(np.zeros((count, *PROBLEM.space.shape), np.int16), source)


class Noting:
    """What a method is told, and what it observes."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.observed: list[str] = []

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        self.told.append(str(proposals.source[0]))

    def observe(self, proposals: Proposals, evaluation: Evaluation) -> None:
        self.observed.append(str(proposals.source[0]))


class Core(Noting, Method):
    def ask(self) -> Proposals:
        return rows(21, "core")

    def state_dict(self) -> dict[str, Any]:
        return {"told": self.told}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.told = list(state["told"])


class Scripted(Noting, Learner):
    """Answers as its script says: so many rows, 0 for nothing to propose, "" for a thought that goes on."""

    def __init__(self, name: str, script: Sequence[int | str], first: int, ahead: int = 0) -> None:
        super().__init__()
        self.name, self.ahead, self.script = name, ahead, list(script)
        self.rounds = RoundShare(name, first)

    def ask(self) -> Proposals:
        answer = self.script.pop(0)
        self.phase = "thinking" if answer == "" else ""
        self.rounds.charge(answer or 0)
        return rows(answer or 0, self.name)

    def state_dict(self) -> dict[str, Any]:
        return {"script": self.script, "told": self.told, **self.rounds.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.script, self.told = list(state["script"]), list(state["told"])
        self.rounds.load_state_dict(state)


def portfolio(*members: Scripted) -> Portfolio:
    context = Context([PROBLEM], Archive([PROBLEM]), 0, [None])
    entrants = [Entrant(member.name, lambda _, member=member: member, lambda _: True) for member in members]
    return Portfolio(context, ("core", Core()), entrants)


def measured(batch: Proposals) -> Evaluation:
    return PROBLEM.evaluate(batch.mapping, np.zeros(len(batch), np.uint64))


def test_members_have_their_turns_in_order_and_observe_what_others_measured():
    first, second = Scripted("a", [16, 16], 3), Scripted("b", [4], 1)
    both = portfolio(first, second)
    start = rows(1, START)
    both.tell(start, measured(start))
    asked = []
    for _ in range(4):
        batch = both.ask()
        asked.append(str(batch.source[0]))
        both.tell(batch, measured(batch))
    assert asked == ["a", "b", "core", "a"]
    assert first.told == [START, "a", "a"]
    assert first.observed == ["b", "core"]
    assert second.told == [START, "b"]
    assert both._core.told == [START, "core"]
    assert both._core.observed == ["a", "b", "a"]


@pytest.mark.parametrize("thoughts", [0, 1, 5])
def test_who_has_nothing_to_propose_is_not_asked_again_before_a_batch_is_out(thoughts):
    """However often the others are asked for it, which depends on time."""
    first, second = Scripted("a", [0, 3], 100), Scripted("b", [*[""] * thoughts, 4], 4)
    both = portfolio(first, second)
    batches = [both.ask() for _ in range(thoughts + 1)]
    assert [len(batch) for batch in batches] == [*[0] * thoughts, 4]
    assert first.script == [3]
    assert both.ask().source[0] == "a"


def test_while_the_cores_round_is_measured_the_last_member_fills_in():
    member = Scripted("b", [4, "", 5], first=-50, ahead=1)
    both = portfolio(member)
    assert both.ask().source[0] == "core"
    assert both.ask().source[0] == "b"
    assert len(both.ask()) == 0
    assert (both.phase, both.ahead) == ("thinking", 1)


def test_a_state_goes_on():
    one = portfolio(Scripted("a", [16, 8, 8], 3), Scripted("b", [4, 4], 4))
    other = portfolio(Scripted("a", [], 0), Scripted("b", [], 0))
    batch = one.ask()
    other.load_state_dict(one.state_dict())
    for both in (one, other):
        both.tell(batch, measured(batch))
    assert one.state_dict() == other.state_dict()
    assert dict(one.composition().kinds) == {"a": "a", "b": "b"}
    assert one.ask().source[0] == other.ask().source[0] == "b"


def test_the_papers_settings_are_algorithm_2_alone():
    definition = find_method("egrl")
    context = Context([PROBLEM], Archive([PROBLEM]), 0, [None])
    paper = definition.build(context, typed_tables.build(definition.config, definition.paper, "test"))
    assert isinstance(paper, Algorithm2)
    assert isinstance(definition.build(context, definition.config()), Portfolio)


@pytest.mark.slow
def test_a_run_says_who_its_members_are_and_what_they_made(capsys):
    found = egrl.search("alexnet", method="egrl", evals=126, quiet=True, settings=SMALL_EGRL).summary
    members = {member["name"]: member for member in found["members"]}
    kinds = {name: member["kind"] for name, member in members.items()}
    assert kinds == {
        "network": "graph_unet", "boltzmann": "boltzmann", "sac": "sac", "profile_model": "profile_model",
    }  # fmt: skip
    assert sum(member["evaluations"] for member in members.values()) == 125  # and the start
    near = [m["first_near_best"] for m in members.values() if m["first_near_best"] is not None]
    assert near
    assert max(m["best_speedup"] for m in members.values()) == pytest.approx(
        found["best"]["speedup"], rel=1e-3
    )
    text = sentence(found, "")
    assert "evaluations: networks" in text
    assert f"evaluation {min(near) + 1}" in text
    assert "of SAC's networks migrated" in text
    alone = egrl.search("alexnet", method="random", evals=2, quiet=True)
    assert "members" not in alone.summary
    assert main(["list", "methods"]) == 0
    assert "profile model: learns what every part of a cost takes" in capsys.readouterr().out
