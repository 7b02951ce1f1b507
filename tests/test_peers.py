"""Other people's optimisers: what they are told, which names exist, and what a missing extra says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from commands import outcome
from results import results

from egrl.cli.main import main
from egrl.core import typed_tables
from egrl.core.archive import START, Archive, proposals
from egrl.core.method import Context, Method
from egrl.methods import find_method
from egrl_suite.peers import (
    FAILED,
    Nevergrad,
    NevergradConfig,
    Optuna,
    OptunaConfig,
    Peer,
    PeerConfig,
    Pymoo,
    PymooConfig,
)
from hwsim.mappings import sample_uniformly
from hwsim.problem import Evaluation, Mapping16, Problem, Status
from hwsim.space import Space
from toys import ToyRagged
from workloads.errors import InputError

NAMES = (
    "nevergrad:DiscreteLenglerOnePlusOne",
    "nevergrad:NGOpt",
    "nevergrad:TwoPointsDE",
    "nevergrad:PSO",
    "nevergrad:CMA",
    "optuna:TPESampler",
    "optuna:NSGAIISampler",
    "optuna:QMCSampler",
    "optuna:RandomSampler",
    "pymoo",
)


def build(
    name: str, problem: Problem, seed: int = 0, start: Mapping16 | None = None, **settings: object
) -> Method:
    library, _, optimiser = name.partition(":")
    definition = find_method(f"egrl_suite.peers:{library.upper()}")
    if optimiser:
        settings["optimiser"] = optimiser
    own = typed_tables.build(definition.config, settings, name)
    return definition.build(Context([problem], Archive([problem]), seed, [start]), own)


def play(
    method: Method,
    problem: Problem,
    evaluations: int,
    change: Callable[[Evaluation], Evaluation] = lambda evaluation: evaluation,
) -> tuple[np.ndarray, np.ndarray]:
    """Mappings and rewards of the first evaluations."""
    mappings: list[np.ndarray] = []
    rewards: list[float] = []
    if method._context.start[0] is not None:
        start = proposals(method._context.start[0][None], START)
        method.tell(start, problem.evaluate(start.mapping, np.zeros(1, np.uint64)))
        mappings, rewards = [start.mapping[0]], [0.0]
    while len(rewards) < evaluations:
        batch = method.ask()
        assert batch is not None
        evaluation = change(problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64)))
        method.tell(batch.numbered(len(rewards)), evaluation)
        mappings += list(batch.mapping)
        rewards += evaluation.reward.tolist()
    return np.stack(mappings)[:evaluations], np.array(rewards)[:evaluations]


@pytest.mark.parametrize("name", NAMES)
def test_it_begins_at_the_start_and_repeats_with_its_seed(name):
    problem = ToyRagged()
    start = sample_uniformly(problem, np.array([5], np.uint64))[0]
    small = {"population": 10} if name.startswith("pymoo") else {}
    first, _ = play(build(name, problem, start=start, **small), problem, 40)
    again, _ = play(build(name, problem, start=start, **small), problem, 40)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[0], start)
    other, _ = play(build(name, problem, seed=1, start=start, **small), problem, 40)
    assert name == "optuna:QMCSampler" or (first != other).any()  # its points know no seed


CHOICES = np.array([[3], [2], [3], [4], [2]], np.int16)


class Points(ToyRagged):
    """Decisions with these numbers of choices and no others, which begin at [2, 0, 1, 3, 1]."""

    def __init__(self, choices: np.ndarray = CHOICES) -> None:
        super().__init__()
        first = np.array([[2], [0], [1], [3], [1]], np.int16)[: len(choices)] % choices
        self.space = Space([f"n{k}" for k in range(len(choices))], ["h"], choices, initial=first)


def context(problem: Problem) -> Context:
    return Context([problem], Archive([problem]), 7, [None])


@pytest.mark.parametrize(
    "build",
    [
        *[
            partial(Nevergrad, config=NevergradConfig(name, encoding))
            for name in ("DiscreteLenglerOnePlusOne", "TwoPointsDE", "PSO", "CMA")
            for encoding in ("integer", "choice")
        ],
        *[partial(Optuna, config=OptunaConfig(encoding=encoding)) for encoding in ("integer", "choice")],
        partial(Pymoo, config=PymooConfig(6)),
    ],
    ids=lambda build: build.func.__name__,
)
def test_the_first_point_an_optimiser_thinks_of_is_the_first_of_its_task(build):
    optimiser = build(context(Points()))
    points = optimiser.points()
    np.testing.assert_array_equal(points[0], [2, 0, 1, 3, 1])
    for _ in range(10):
        optimiser.learn_losses(points.sum(axis=1).astype(float), points)
        points = optimiser.points()
        assert points.shape[1] == 5
        assert (points >= 0).all()
        assert (points < CHOICES[:, 0]).all()


@pytest.mark.parametrize("name", ["nevergrad:DiscreteLenglerOnePlusOne", "optuna:TPESampler", "pymoo"])
def test_it_finds_better_mappings_than_random_draws_do_on_average(name):
    problem = ToyRagged()
    _, rewards = play(build(name, problem), problem, 150)
    assert rewards[75:].mean() > rewards[1:40].mean()


@pytest.mark.parametrize("name", ["nevergrad", "optuna"])
def test_both_encodings_begin_at_the_start(name):
    problem = ToyRagged()
    start = sample_uniformly(problem, np.array([9], np.uint64))[0]
    for encoding in ("integer", "choice"):
        mappings, _ = play(build(name, problem, start=start, encoding=encoding), problem, 30)
        np.testing.assert_array_equal(mappings[0], start)
        assert len(np.unique(mappings, axis=0)) > 3
        assert (mappings < problem.space.num_choices).all()


@pytest.mark.slow
def test_a_genetic_algorithm_that_has_seen_every_point_goes_on():
    optimiser = Pymoo(context(Points(np.full((3, 1), 2, np.int16))), PymooConfig(4))
    seen = []
    for _ in range(12):
        points = optimiser.points()
        assert len(points) > 0
        optimiser.learn_losses(points.sum(axis=1).astype(float), points)
        seen += points.tolist()
    assert len({tuple(point) for point in seen}) == 8


class Recorder(Peer):
    """Proposes three points and keeps what it is told."""

    def __init__(self, context: Context, told: str = "own") -> None:
        super().__init__(context, "recorder", PeerConfig(told=told))
        self.loss: list[np.ndarray] = []
        self.ran: list[np.ndarray] = []

    def points(self) -> np.ndarray:
        return np.stack([self.task.first, self.task.choices - 1, np.zeros_like(self.task.first)])

    def learn_losses(self, loss: np.ndarray, ran: np.ndarray) -> None:
        self.loss.append(loss.copy())
        self.ran.append(ran.copy())


def test_the_start_is_measured_by_the_loop_and_its_loss_comes_first():
    problem = ToyRagged()
    recorder = Recorder(Context([problem], Archive([problem]), 0, [problem.space.initial]))
    recorder.tell(start := proposals(problem.space.initial[None], START), results(start, [0.25]))
    batch = recorder.ask()
    assert len(batch) == 2
    recorder.tell(batch, results(batch, [0.5, 1.0]))
    np.testing.assert_array_equal(recorder.loss, [[-0.25, -0.5, -1.0]])
    assert len(recorder.ask()) == 3


def test_an_optimiser_sees_the_open_decisions_and_the_negative_reward_of_its_own_points():
    problem = ToyRagged()
    peer = recorder = Recorder(context(problem))
    is_open = (problem.space.live) & (problem.space.num_choices > 1)
    np.testing.assert_array_equal(recorder.task.choices, problem.space.num_choices[is_open])
    np.testing.assert_array_equal(recorder.task.first, problem.space.initial[is_open])
    mappings, rewards = play(peer, problem, 3)
    np.testing.assert_array_equal(mappings[0], problem.space.initial)
    np.testing.assert_array_equal(mappings[1][is_open], problem.space.num_choices[is_open] - 1)
    np.testing.assert_array_equal(recorder.loss[0], -rewards)


class Moving(ToyRagged):
    """What runs has the first open decision at its first choice, whatever was asked for."""

    def evaluate(self, mapping: Mapping16, key: np.ndarray) -> Evaluation:
        settled = self.space.canonical(mapping)
        n, h = np.argwhere(self.space.live & (self.space.num_choices > 1))[0]
        settled[:, n, h] = 0
        return super().evaluate(settled, key)


def test_it_is_told_of_its_own_points_or_of_what_ran_that_of_the_start_first():
    problem = Moving()
    start = problem.space.canonical(problem.space.num_choices - 1)
    for told in ("own", "ran"):
        recorder = Recorder(Context([problem], Archive([problem]), 0, [start]), told)
        play(recorder, problem, 3)
        last = recorder.task.choices - 1
        first = last if told == "own" else [0, *last[1:]]
        np.testing.assert_array_equal(recorder.ran[0], [first, first, 0 * last])


@pytest.mark.parametrize("encoding", ["integer", "choice"])
def test_nevergrad_and_optuna_know_the_point_that_ran_beside_their_own(encoding):
    problem = Points()
    first, ran = [2, 0, 1, 3, 1], np.array([[2, 1, 0, 3, 1]])
    for kind, config in (
        (Nevergrad, NevergradConfig(encoding=encoding)),
        (Optuna, OptunaConfig(encoding=encoding)),
    ):
        optimiser = kind(context(problem), config)
        np.testing.assert_array_equal(optimiser.points(), [first])
        optimiser.learn_losses(np.array([-2.0]), ran)
        if kind is Optuna:
            known = [list(trial.params.values()) for trial in optimiser._study.trials]
            assert known == [first, ran[0].tolist()]
        else:
            # Of two points with one loss the later is where it goes on from.
            value = optimiser._optimiser.recommend().value
            np.testing.assert_array_equal(np.hstack(value), np.hstack(optimiser._value(ran[0])))


def test_a_genetic_algorithm_goes_on_from_what_ran():
    optimiser = Pymoo(context(Points()), PymooConfig(4))
    ran = np.maximum(optimiser.points() - 1, 0)
    optimiser.learn_losses(np.arange(4.0), ran)
    population = np.asarray(optimiser._algorithm.pop.get("X")).astype(int)
    assert {tuple(row) for row in population} == {tuple(row) for row in ran}


@pytest.mark.parametrize(("name", "hears"), [("PSO", True), ("TwoPointsDE", True), ("EDA", False)])
def test_an_optimiser_that_refuses_other_points_learns_from_its_own(name, hears):
    optimiser = Nevergrad(context(Points()), NevergradConfig(name))
    optimiser.points()
    for _ in range(20):
        before = optimiser._optimiser.num_tell
        points = optimiser.points()
        optimiser.learn_losses(points.sum(axis=1).astype(float), CHOICES.T - 1 - points)
        assert optimiser._optimiser.num_tell - before == (2 if hears else 1)


def test_a_failed_measurement_is_told_as_a_very_bad_loss():
    problem = ToyRagged()

    def fail_second(evaluation: Evaluation) -> Evaluation:
        reward, status = evaluation.reward.copy(), evaluation.status.copy()
        reward[1], status[1] = np.nan, Status.FAILED
        return replace(evaluation, reward=reward, status=status)

    peer = recorder = Recorder(context(problem))
    play(peer, problem, 3, fail_second)
    assert recorder.loss[0][1] == FAILED
    assert (recorder.loss[0][[0, 2]] < 0).all()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("nevergrad:DiscreteLenglerOnePlus", "DiscreteLenglerOnePlusOne"),
        ("nevergrad:twopointsde", "TwoPointsDE"),
        ("optuna:TPE", "TPESampler"),
        ("optuna:BruteForceSampler", "TPESampler"),
    ],
)
def test_an_unknown_name_is_answered_with_close_ones(name, near):
    with pytest.raises(InputError, match=rf"method.optimiser={name.partition(':')[2]}: .*\b{near}\b"):
        build(name, ToyRagged())


def test_a_missing_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "nevergrad", None)
    with pytest.raises(InputError, match=r"^nevergrad: expected the extra: pip install 'egrl\[peers\]'"):
        build("nevergrad:PSO", ToyRagged())


def test_an_optimiser_whose_library_is_missing_is_refused_when_it_is_named():
    with pytest.raises(InputError, match=r"method.optimiser=AXP: this optimiser needs more: .*'ax'"):
        build("nevergrad:AXP", ToyRagged())


def test_a_run_by_name_is_resumed_as_if_never_stopped(tmp_path):
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "egrl_suite.peers:OPTUNA",
        "--quiet",
        "--bound-seconds",
        "0",
    ]
    assert main([*argv, "--evals", "12", "--out", str(tmp_path / "whole")]) == 0
    assert main([*argv, "--evals", "5", "--out", str(tmp_path / "parts")]) == 0
    again = ["run", "--resume", str(tmp_path / "parts"), "--method", "egrl_suite.peers:OPTUNA", "--quiet"]
    assert main([*again, "--evals", "12"]) == 0
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "parts")
