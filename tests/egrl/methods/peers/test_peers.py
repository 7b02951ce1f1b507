"""Other people's optimisers: what they are told, which names exist, and what a missing extra says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.method import Method, Setting
from egrl.core.proposals import Proposals
from egrl.methods import find_method
from egrl.methods.peers.nevergrad import NevergradConfig, NevergradOptimiser
from egrl.methods.peers.optuna import OptunaConfig, OptunaOptimiser
from egrl.methods.peers.peer import FAILED, Optimiser, Peer, Points, Task
from egrl.methods.peers.pymoo import PymooConfig, PymooOptimiser
from hwsim.mappings import sample_uniformly
from hwsim.problem import Evaluation, Mapping16, Problem, Status
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
    "pymoo:GA",
)


def build(
    name: str, problem: Problem, seed: int = 0, start: Mapping16 | None = None, **settings: object
) -> Method:
    definition = find_method(name)
    own = typed_tables.build(definition.config, settings, name)
    return definition.build(Setting([problem], Archive([problem]), seed, [start]), own)


def play(
    method: Method,
    problem: Problem,
    evaluations: int,
    change: Callable[[Evaluation], Evaluation] = lambda evaluation: evaluation,
) -> tuple[np.ndarray, np.ndarray]:
    """Mappings and rewards of the first evaluations."""
    mappings: list[np.ndarray] = []
    rewards: list[float] = []
    while len(rewards) < evaluations:
        batch = method.ask(evaluations - len(rewards))
        assert batch is not None
        evaluation = change(problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64)))
        method.tell(batch.numbered(len(rewards)), evaluation)
        mappings += list(batch.mapping)
        rewards += evaluation.reward.tolist()
    return np.stack(mappings), np.array(rewards)


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("evaluations", [30, 33])
def test_it_is_brought_back_by_what_it_was_told(name, evaluations):
    problem = ToyRagged()
    small = {"population": 10} if name.startswith("pymoo") else {}
    method = build(name, problem, **small)
    play(method, problem, evaluations)
    under_way = method.ask(4)
    assert under_way is not None
    again = build(name, problem, **small)
    again.load_state_dict(method.state_dict())
    for each in (method, again):
        evaluation = problem.evaluate(under_way.mapping, np.zeros(len(under_way), np.uint64))
        each.tell(under_way.numbered(evaluations), evaluation)
    np.testing.assert_array_equal(play(method, problem, 25)[0], play(again, problem, 25)[0])


TASK = Task(np.array([3, 2, 3, 4, 2]), np.array([2, 0, 1, 3, 1]), 7)


@pytest.mark.parametrize(
    "optimiser",
    [
        *[
            NevergradOptimiser(TASK, name, NevergradConfig(encoding))
            for name in ("DiscreteLenglerOnePlusOne", "TwoPointsDE", "PSO", "CMA")
            for encoding in ("integer", "choice")
        ],
        *[OptunaOptimiser(TASK, "TPESampler", OptunaConfig(encoding)) for encoding in ("integer", "choice")],
        PymooOptimiser(TASK, PymooConfig(6)),
    ],
    ids=lambda optimiser: type(optimiser).__name__,
)
def test_the_first_point_an_optimiser_thinks_of_is_the_first_of_its_task(optimiser: Optimiser):
    points = optimiser.ask()
    np.testing.assert_array_equal(points[0], TASK.first)
    for _ in range(10):
        optimiser.tell(points.sum(axis=1).astype(float))
        points = optimiser.ask()
        assert points.shape[1] == len(TASK.choices)
        assert (points >= 0).all()
        assert (points < TASK.choices).all()


@pytest.mark.parametrize("name", ["nevergrad:DiscreteLenglerOnePlusOne", "optuna:TPESampler", "pymoo:GA"])
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


def test_a_genetic_algorithm_that_has_seen_every_point_goes_on():
    optimiser = PymooOptimiser(Task(np.array([2, 2, 2]), np.zeros(3, np.int64), 0), PymooConfig(4))
    seen = []
    for _ in range(12):
        points = optimiser.ask()
        assert len(points) > 0
        optimiser.tell(points.sum(axis=1).astype(float))
        seen += points.tolist()
    assert len({tuple(point) for point in seen}) == 8


class Recorder:
    """Proposes three points and keeps what it is told."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.loss: list[np.ndarray] = []

    def ask(self) -> Points:
        return np.stack([self.task.first, self.task.choices - 1, np.zeros_like(self.task.first)])

    def tell(self, loss: np.ndarray) -> None:
        self.loss.append(loss.copy())


def recorded(problem: Problem) -> tuple[Peer, Recorder]:
    made: list[Recorder] = []

    def make(task: Task) -> Recorder:
        made.append(Recorder(task))
        return made[0]

    peer = Peer(Setting([problem], Archive([problem]), 0, [None]), "recorder", make)
    return peer, made[0]


def test_an_optimiser_sees_the_open_decisions_and_the_negative_reward_of_its_own_points():
    problem = ToyRagged()
    peer, recorder = recorded(problem)
    is_open = problem.space.live & (problem.space.num_choices > 1)
    np.testing.assert_array_equal(recorder.task.choices, problem.space.num_choices[is_open])
    np.testing.assert_array_equal(recorder.task.first, problem.space.initial[is_open])
    mappings, rewards = play(peer, problem, 3)
    np.testing.assert_array_equal(mappings[0], problem.space.initial)
    np.testing.assert_array_equal(mappings[1][is_open], problem.space.num_choices[is_open] - 1)
    np.testing.assert_array_equal(recorder.loss[0], -rewards)


def test_a_failed_measurement_is_told_as_a_very_bad_loss():
    problem = ToyRagged()

    def fail_second(evaluation: Evaluation) -> Evaluation:
        reward, status = evaluation.reward.copy(), evaluation.status.copy()
        reward[1], status[1] = np.nan, Status.FAILED
        return replace(evaluation, reward=reward, status=status)

    peer, recorder = recorded(problem)
    play(peer, problem, 3, fail_second)
    assert recorder.loss[0][1] == FAILED
    assert (recorder.loss[0][[0, 2]] < 0).all()


def test_an_optimiser_is_told_once_its_whole_batch_is_known():
    problem = ToyRagged()
    peer, recorder = recorded(problem)
    parts: list[Proposals] = []
    for number in range(3):
        part = peer.ask(1)
        assert part is not None
        parts.append(part.numbered(number))
    empty = peer.ask(5)
    assert empty is not None
    assert len(empty) == 0
    for part in parts:
        assert recorder.loss == []
        peer.tell(part, problem.evaluate(part.mapping, np.zeros(1, np.uint64)))
    assert len(recorder.loss) == 1


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("nevergrad:DiscreteLenglerOnePlus", "DiscreteLenglerOnePlusOne"),
        ("nevergrad:twopointsde", "TwoPointsDE"),
        ("optuna:TPE", "TPESampler"),
        ("optuna:BruteForceSampler", "TPESampler"),
        ("pymoo:NSGA2", "GA"),
    ],
)
def test_an_unknown_name_is_answered_with_close_ones(name, near):
    with pytest.raises(InputError, match=rf"--method {name}: .*\b{near}\b"):
        find_method(name)


@pytest.mark.parametrize("name", ["annealing:fast", "nevergrad:", "scipy:powell"])
def test_only_families_have_variants(name):
    with pytest.raises(InputError, match="--method: expected one of egrl, "):
        find_method(name)


def test_a_missing_extra_says_what_to_install():
    program = (
        "import sys; sys.modules['nevergrad'] = None\n"
        "from egrl.cli.main import main\n"
        "sys.exit(main(['run', '--workload', 'alexnet', '--method', 'nevergrad:PSO', '--gens', '1']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "egrl: error: --method nevergrad:PSO: expected the extra: pip install 'egrl[peers]'"
    )
    assert done.stderr.count("\n") == 1


def test_an_optimiser_whose_library_is_missing_is_refused_when_it_is_named():
    with pytest.raises(InputError, match=r"nevergrad:AXP: this optimiser needs more: .*'ax'"):
        find_method("nevergrad:AXP")
