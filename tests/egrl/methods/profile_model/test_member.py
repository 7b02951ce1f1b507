"""Population, learner and the profile model: when it takes turns, what it reaches, and how it survives a kill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from commands import metrics

import egrl
from egrl.core.archive import Archive, Proposals, proposals
from egrl.core.interrupts import Interrupted
from egrl.core.method import Context, Costs
from egrl.methods.named import EgrlConfig, build
from egrl.methods.placed import placed_by_rules
from egrl.methods.portfolio import Portfolio
from egrl.methods.profile_model import member as own
from egrl.methods.profile_model.accesses import read_accesses
from egrl.methods.profile_model.contract import ProfileModelConfig
from egrl.methods.profile_model.data import NOISE, gather
from egrl.methods.profile_model.member import ProfileModelMember, profile_model_of
from egrl.methods.profile_model.op_times import SEARCHES, OpTimesModel, _packed, kinds_of
from hwsim.mappings import repair, sample_uniformly
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Evaluation
from subjects import SMALL
from toys import ToyRagged
from workloads.load import load

TABLE = [f"method.{key}={value}" for key, value in SMALL["egrl"].items()]
KEYS = np.arange(6, dtype=np.uint64)
DEATHS = {"nnpi": (2, 5, 40, 90), "mcm": (2, 5, 9, 14)}
"""Pieces of thought at which a run dies."""


@pytest.fixture(scope="module")
def problem() -> NnpiProblem:
    return NnpiProblem(load("alexnet"), load_chip("nnpi"))


def context(problem: NnpiProblem, start: bool = True, measured: bool = False) -> Context:
    first = problem.baseline.mapping if start else None
    return Context([problem], Archive([problem]), 0, [first], costs=Costs(measured))


def told(
    given: Context, rows: np.ndarray, source: str | Sequence[str], evaluation: Evaluation | None = None
) -> Proposals:
    """Mappings that were measured and are in the archive."""
    batch = proposals(rows, source).numbered(len(given.archive))
    found = given.problems[0].evaluate(rows, np.arange(len(rows), dtype=np.uint64))
    given.archive.append(batch, found if evaluation is None else evaluation)
    return batch


@pytest.mark.slow
def test_it_takes_turns_where_evaluations_have_profiles_and_not_with_the_papers_settings():
    given = {"method": "egrl", "gens": 1, "settings": TABLE}
    assert "profile_model_share" in egrl.search("alexnet", **given).history
    assert "profile_model_share" not in egrl.search("alexnet", preset="paper", **given).history
    off = {**given, "settings": [*TABLE, "method.profile_model.use=off"]}
    assert "profile_model_share" not in egrl.search("alexnet", **off).history
    toy = ToyRagged()
    found = egrl.search(toy, method="egrl", gens=1, settings=TABLE)
    assert "profile_model_share" not in found.history
    assert "profile_model" not in {member["name"] for member in found.summary["members"]}


def report(member: ProfileModelMember, batch: Proposals) -> None:
    """Tell a member of results that are in the archive."""
    member.tell(batch, batch)  # type: ignore[arg-type]  # it reads the tickets alone


def member_of(given: Context, config: ProfileModelConfig) -> ProfileModelMember:
    learner = profile_model_of(given.problems[0], config)
    assert learner is not None
    return ProfileModelMember(given, learner, config.first)


@pytest.mark.parametrize("start", [True, False])
def test_it_begins_with_the_rules_unless_the_start_is_cold_and_with_placed_and_random_mappings(
    problem, start
):
    member = member_of(context(problem, start), ProfileModelConfig())
    assert member.its_turn
    rows = member.ask().mapping
    rules = {row.tobytes() for row in problem.baseline.rules().values()}
    found = {row.tobytes() for row in rows}
    assert len(found) == len(rows)
    placed = {row.tobytes() for row in placed_by_rules(problem)}
    assert rules <= found if start else not (rules - placed) & found
    assert placed & (found - rules)
    assert len(rows) == max(len(rules) * start + 4, member._model.least)
    assert not member.its_turn


def test_on_a_board_it_begins_once_profiles_have_come(problem):
    given = context(problem, measured=True)
    member = member_of(given, ProfileModelConfig(steps=2))
    rows = np.stack(list(problem.baseline.rules().values()))
    silent = replace(problem.evaluate(rows, np.zeros(len(rows), np.uint64)), parts=None)
    report(member, told(given, rows, "network", silent))
    assert not member.its_turn
    report(member, told(given, rows, "network"))
    assert member.its_turn


def run_of(problem: NnpiProblem, config: ProfileModelConfig, evaluations: int) -> Context:
    """A run of the profile model alone; it rests for no evaluation."""
    given = context(problem)
    member = member_of(given, config)
    while len(given.archive) < evaluations:
        member._until, member.rounds._due = 0, -1.0
        batch = member.ask()
        if len(batch):
            report(member, told(given, batch.mapping, "profile_model"))
        elif not member.phase:
            break
    return given


@pytest.mark.slow
def test_after_forty_noisy_profiles_it_is_where_evolution_is_after_four_hundred():
    noisy = NnpiProblem(load("resnet101"), load_chip("nnpi"), NnpiConfig(profile_noise=0.05))
    found = run_of(noisy, ProfileModelConfig(), 40).archive.column("speedup")[:].max()
    evolved = egrl.search("resnet101", method="ea", evals=400, settings=["method.network.width=8"]).speedup
    assert found > 1.16
    assert found > evolved - 0.002


def test_what_ran_of_its_own_joins_the_population(problem):
    given = context(problem)
    method = build(given, EgrlConfig())
    assert isinstance(method, Portfolio)
    batch = method.ask()
    assert set(batch.source) == {"profile_model"}
    batch = batch.numbered(0)
    evaluation = problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64))
    given.archive.append(batch, evaluation)
    method.tell(batch, evaluation)
    immigrants = {immigrant.ran.tobytes() for immigrant in method._core._immigrants}
    assert immigrants == {row.tobytes() for row in evaluation.repaired}


def test_without_gains_it_rests_longer_and_longer(problem):
    given = context(problem)
    member = member_of(given, ProfileModelConfig())
    rules = np.stack(list(problem.baseline.rules().values()))
    report(member, told(given, np.concatenate([rules] * 5), "profile_model"))
    member._measured = gather(given.archive, member._tickets(), problem.parts, len(problem.space.nodes))
    rests = []
    for estimate in (0.0, -1.0, -1.0, -1.0, -2.0, -2.0):
        member._conclude(
            np.empty((0, *problem.space.shape), np.int16), np.full(len(member._measured), estimate), None
        )
        rests.append(max(0, member._until - member._told))
    assert rests[:2] == [0, 0]
    assert rests[2:4] == [10, 12]
    assert rests[5] == 10


@pytest.mark.parametrize(
    ("rest", "noise", "factor", "most"),
    [
        (own.PATIENCE, 0.0, OpTimesModel.longer, own.BRIEF),
        (own.PATIENCE, 0.04, own.LONGER, None),
        (own.PATIENCE - 1, 0.0, own.LONGER, None),
    ],
)
def test_a_profile_model_that_stands_still_thinks_briefly_and_rests_longest_where_costs_are_exact(
    problem, monkeypatch, rest, noise, factor, most
):
    given = context(problem)
    member = member_of(given, ProfileModelConfig())
    rows = np.concatenate([np.stack(list(problem.baseline.rules().values()))] * 40)
    exact = problem.evaluate(rows, np.zeros(len(rows), np.uint64))
    off = np.exp(noise * np.random.default_rng(0).normal(size=len(rows)))
    report(member, told(given, rows, "profile_model", replace(exact, cost=exact.cost * off)))
    member._rest, member._best = rest, -1.0  # nothing that comes is a gain
    monkeypatch.setattr(OpTimesModel, "think", lambda self, measured, seen, rng, most: iter([most]))
    assert next(member._think()) == most
    assert member._measured.exact == (noise == 0.0)
    nothing = np.empty((0, *problem.space.shape), np.int16)
    member._conclude(nothing, np.zeros(len(member._measured)), None)
    assert member._rest == int(factor * rest)
    assert member._until == member._told + member._rest
    again = member_of(given, ProfileModelConfig())
    again.load_state_dict(member.state_dict())
    assert (again._rest, again._until) == (member._rest, member._until)


def test_a_brief_thought_has_some_of_the_searches_of_a_whole_one():
    rng = np.random.default_rng(0)
    whole = kinds_of(SEARCHES, 10, None, rng)
    assert whole == [*SEARCHES, *SEARCHES[:2]]
    drawn = [kinds_of(SEARCHES, len(SEARCHES), 2, rng) for _ in range(50)]
    assert all(len(set(two)) == 2 for two in drawn)
    assert {kind for two in drawn for kind in two} == set(SEARCHES)
    assert kinds_of(SEARCHES, 2, 2, rng) == list(SEARCHES[:2])


def test_repetitions_tell_the_noise_of_costs(problem):
    rows = repair(problem, sample_uniformly(problem, KEYS), KEYS)
    given = context(problem)
    told(given, np.concatenate([rows, rows]), "network")
    nodes = len(problem.space.nodes)
    found = gather(given.archive, np.arange(12), problem.parts, nodes)
    assert found.noise == 0.0
    assert found.exact
    assert found.count.tolist() == [2] * len(found)
    order = np.argsort(found.log_cost, kind="stable")
    np.testing.assert_array_equal(np.argsort(found.earned, kind="stable"), order)

    given, rng = context(problem), np.random.default_rng(0)
    both = np.concatenate([rows] * 20)
    exact = problem.evaluate(both, np.zeros(len(both), np.uint64))
    noisy = replace(exact, cost=exact.cost * np.exp(0.04 * rng.normal(size=len(both))))
    told(given, both, "network", noisy)
    found = gather(given.archive, np.arange(len(both)), problem.parts, nodes)
    assert found.noise == pytest.approx(0.04, rel=0.2)
    assert not found.exact
    fresh = gather(given.archive, np.arange(6), problem.parts, nodes)
    assert fresh.noise == pytest.approx(NOISE)


@pytest.mark.slow
def test_the_champion_is_not_the_luckiest_measurement():
    """A mapping that is some per cent slower was measured once as the fastest; the model knows better."""
    noisy = NnpiProblem(load("resnet50"), load_chip("nnpi"), NnpiConfig(profile_noise=0.05))
    given = context(noisy)
    member = member_of(given, ProfileModelConfig(steps=5))
    rows = member.ask().mapping
    evaluation = noisy.evaluate(rows, np.arange(len(rows), dtype=np.uint64))
    cost = evaluation.cost.copy()
    lucky = int(np.flatnonzero(cost > 1.02 * cost.min())[np.argmin(cost[cost > 1.02 * cost.min()])])
    cost[lucky] = 0.995 * cost.min()
    report(member, told(given, rows, "profile_model", replace(evaluation, cost=cost)))
    while not len(member.ask()):
        continue
    assert int(np.argmin(cost)) == lucky
    assert member.champion(0) not in (None, lucky)


def test_a_packed_start_gives_one_memory_to_one_head(problem):
    rng, seen = np.random.default_rng(0), set()
    for _ in range(20):
        found = _packed(problem.baseline.mapping, 3, rng)
        assert ((found >= 0) == problem.space.live).all()
        head = next(h for h in (0, 1) if len(set(found[problem.space.live[:, h], h].tolist())) == 1)
        memory = int(found[problem.space.live[:, head], head][0])
        assert memory not in found[:, 1 - head]
        seen.add((head, memory))
    assert seen == {(0, 1), (0, 2), (1, 1), (1, 2)}


def test_what_was_learned_survives_a_checkpoint(problem):
    given = run_of(problem, ProfileModelConfig(steps=2, proposals=2), 20)
    measured = gather(given.archive, np.arange(len(given.archive)), problem.parts, len(problem.space.nodes))
    one, other = (OpTimesModel(problem, ProfileModelConfig(steps=2, proposals=2)) for _ in range(2))
    _thought(one, measured, 1)
    other.load_state_dict(one.state_dict())
    for seed in (2, 3):
        np.testing.assert_array_equal(_thought(one, measured, seed), _thought(other, measured, seed))
    assert read_accesses(problem).size.shape == one._accesses.size.shape


def _thought(learner: OpTimesModel, measured, seed: int) -> np.ndarray:
    work = learner.think(measured, set(), np.random.default_rng(seed))
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "workload"),
    [("nnpi", "alexnet"), pytest.param("mcm", "conv_lstm", marks=pytest.mark.exhaustive)],
)
def test_a_run_that_dies_in_the_middle_of_a_thought_thinks_again(tmp_path, monkeypatch, kind, workload):
    given = {"method": "egrl", "seed": 4, "settings": TABLE, "problem": kind}
    egrl.search(workload, evals=90, out=tmp_path / "whole", workers=2 if kind == "mcm" else 1, **given)
    monkeypatch.setattr(own, "PAUSE_S", 0.0)
    thoughts: list[int] = []
    ask = ProfileModelMember.ask

    def dying(self: ProfileModelMember) -> Proposals:
        thoughts.append(self._told)
        if len(thoughts) in DEATHS[kind]:
            raise KeyboardInterrupt
        return ask(self)

    monkeypatch.setattr(ProfileModelMember, "ask", dying)
    path = tmp_path / "dies"
    with pytest.raises(Interrupted):
        egrl.search(workload, evals=90, out=path, checkpoint_seconds=0.0, **given)
    for _ in DEATHS[kind][1:]:
        with pytest.raises(Interrupted):
            egrl.search(resume=path)
    egrl.search(resume=path)
    assert metrics(path) == metrics(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param("ea", marks=pytest.mark.exhaustive), "pg"])
def test_a_population_or_a_learner_alone_takes_turns_with_the_profile_model_if_it_is_asked_to(method):
    table = [f"method.{key}={value}" for key, value in SMALL[method].items()]
    plain = egrl.search("alexnet", method=method, evals=60, settings=table)
    assert "profile_model_share" not in plain.history
    both = egrl.search("alexnet", method=method, evals=60, settings=[*table, "method.profile_model.use=auto"])
    assert "profile_model_share" in both.history
    assert both.speedup >= plain.speedup
