"""What is learned from profiles: times of other mappings, the context, the residual, and how sure that is."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pytest

from egrl.methods.profile_model import residual
from egrl.methods.profile_model.accesses import Accesses, node_features, read_accesses
from egrl.methods.profile_model.family import NO_CONTEXT, ContextShape
from egrl.methods.profile_model.model import OpTimes, Parameters, Profiled, draw, fitted, search
from egrl.methods.profile_model.residual import Residual
from hwsim.mappings import sample_uniformly
from hwsim.nnpi.annealing import anneal
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from workloads.load import load

T = TypeVar("T")
FETCHED_AHEAD = ContextShape(1, 0, 1)
"""Weights (role 1: the op's own first head) in the slowest memory, kept in the free part of the middle one."""


def finish(work: Generator[None, None, T]) -> T:
    """The result of a piece of work."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


@pytest.fixture(scope="module")
def problem() -> NnpiProblem:
    return NnpiProblem(load("resnet101"), load_chip("nnpi"), NnpiConfig(profile_noise=0.05))


@pytest.fixture(scope="module")
def accesses(problem: NnpiProblem) -> Accesses:
    return read_accesses(problem)


@pytest.fixture(scope="module")
def data(problem: NnpiProblem) -> Profiled:
    """The twelve rules and eight random mappings, with noise of 5 % on every op; seconds of the median op are 1."""
    rows = np.concatenate(
        [
            np.stack(list(problem.baseline.rules().values())),
            sample_uniformly(problem, np.arange(8, dtype=np.uint64)),
        ]
    )
    found = problem.evaluate(rows, np.arange(len(rows), dtype=np.uint64))
    assert found.parts is not None
    return Profiled(found.repaired, np.log(found.parts / np.median(found.parts)).astype(np.float64))


@pytest.fixture(scope="module")
def model(problem: NnpiProblem, accesses: Accesses, data: Profiled) -> OpTimes:
    return OpTimes(accesses, node_features(problem, accesses), float(np.exp(data.log_seconds).mean()))


@pytest.fixture(scope="module")
def learned(model: OpTimes, data: Profiled) -> Parameters:
    return finish(search(model, data, None))


@pytest.fixture(scope="module")
def other(problem: NnpiProblem) -> tuple[np.ndarray, np.ndarray]:
    """Good mappings that nobody measured, and the true log seconds of their ops, up to a constant."""
    rules = list(problem.baseline.rules().values())
    rows = np.stack([anneal(problem.tables, rules[k], steps=300 * 8**k, key=k)[0] for k in range(4)])
    parts = NnpiProblem(load("resnet101"), load_chip("nnpi")).evaluate(rows, np.zeros(4, np.uint64)).parts
    assert parts is not None
    return rows, np.log(parts.astype(np.float64))


def totals_off(
    model: OpTimes, parameters: Parameters, other, data: Profiled, problem: NnpiProblem
) -> np.ndarray:
    """How far predicted totals are from the true ones, in log."""
    rows, truth = other
    exact = NnpiProblem(load("resnet101"), load_chip("nnpi")).evaluate(
        data.mapping, np.zeros(len(data.mapping), np.uint64)
    )
    unit = np.mean(np.log(exact.parts) - data.log_seconds)
    predicted = np.exp(model.log_seconds(parameters, rows)).sum(axis=1)
    return np.abs(np.log(predicted) + unit - np.log(np.exp(truth).sum(axis=1)))


@pytest.mark.slow
def test_twenty_profiles_predict_mappings_that_nobody_measured(problem, model, data, learned, other):
    assert learned.shape == FETCHED_AHEAD
    assert learned.noise == pytest.approx(0.05, abs=0.01)
    assert totals_off(model, learned, other, data, problem).max() < 0.04
    plain = finish(fitted(model, model.begin(data), data, 40))
    assert plain.shape == NO_CONTEXT
    assert totals_off(model, plain, other, data, problem).max() > 0.1
    assert model.loss(learned, data) < model.loss(plain, data) - 100


@pytest.mark.slow
def test_half_of_the_ops_without_a_time_cost_little(problem, model, data, other):
    rng = np.random.default_rng(0)
    hidden = np.where(rng.random(data.log_seconds.shape[1]) < 0.5, np.nan, data.log_seconds)
    begun = model.begin(Profiled(data.mapping, hidden), FETCHED_AHEAD)
    found = finish(fitted(model, begun, Profiled(data.mapping, hidden), 40))
    assert np.isfinite(found.work).all()
    assert totals_off(model, found, other, data, problem).max() < 0.15


def test_each_step_lowers_the_loss_by_the_spreads_that_it_was_taken_with(model, data):
    begun = model.begin(data)
    found = [begun, *model.fit(begun, data, 6)]
    assert len(found) == 7
    for before, after in pairwise(found):
        names = ("work_mean", "work_spread", "traffic_spread", "noise")
        spreads = {name: getattr(before, name) for name in names}
        assert model.loss(replace(after, **spreads), data) < model.loss(before, data)
    assert model.loss(found[-1], data) < model.loss(begun, data)


def test_only_the_named_groups_of_parameters_change(model, data):
    begun = model.begin(data)
    found = list(model.fit(begun, data, 2, ("overhead",)))[-1]
    changed = np.flatnonzero(found.theta != begun.theta)
    assert len(changed) == 1
    assert (found.work != begun.work).any()


@pytest.mark.parametrize("shape", [NO_CONTEXT, FETCHED_AHEAD])
def test_steps_go_down_the_gradient_of_the_loss(model, data, shape):
    at = list(model.fit(model.begin(data, shape), data, 5))[-1]
    (slope, _), curvature = model._normal_equations(at, data)
    for position, expected in zip(curvature.active, slope, strict=True):
        losses = []
        for side in (-1e-4, 1e-4):
            theta = at.theta.copy()
            theta[position] += side
            losses.append(model.loss(replace(at, theta=theta), data))
        assert (losses[0] - losses[1]) / 2e-4 == pytest.approx(expected, rel=0.05, abs=1.0)


def test_draws_scatter_about_what_was_learned_and_less_with_more_data(model, data):
    found = finish(fitted(model, model.begin(data), data, 20))
    few = Profiled(data.mapping[:4], data.log_seconds[:4])

    def spread(given: Profiled) -> float:
        rng = np.random.default_rng(1)
        curvature = model.curvature(found, given)
        rows = [draw(found, curvature, rng) for _ in range(30)]
        assert np.abs(np.mean([row.work - found.work for row in rows], axis=0)).mean() < 0.1
        return float(np.std([row.theta for row in rows], axis=0).mean())

    assert 0.0 < spread(data) < spread(few)


def test_parameters_survive_a_checkpoint(model, data):
    found = next(model.fit(model.begin(data, FETCHED_AHEAD), data, 1))
    again = Parameters.of_state(found.state_dict())
    assert again.shape == found.shape
    assert model.loss(again, data) == model.loss(found, data)


@pytest.mark.parametrize("size", [0.0, 0.1])
def test_the_residual_finds_additions_for_places_and_nothing_where_there_is_nothing(accesses, data, size):
    rng = np.random.default_rng(3)
    rows = np.repeat(data.mapping, 3, axis=0)
    truth = size * rng.normal(size=(len(accesses.node), 3))
    left = 0.03 * rng.normal(size=(len(rows), len(accesses.output)))
    op = np.repeat(np.arange(len(accesses.output)), np.diff(accesses.start))
    np.add.at(left.T, op, truth[np.arange(len(op)), rows[:, accesses.node, accesses.head]].T)
    found = Residual(accesses, rows, left, 0.05)
    assert found.noise == pytest.approx(0.03, rel=0.1)
    table = found.table()
    if size == 0.0:
        assert found.size == 0.0
        assert not table.any()
        return
    assert found.size in residual.SIZES[2:]
    fitted_rows = np.zeros_like(left)
    np.add.at(fitted_rows.T, op, table[np.arange(len(op)), rows[:, accesses.node, accesses.head]].T)
    assert np.std(left - fitted_rows) < 0.5 * np.std(left)
    drawn = [found.table(np.random.default_rng(k)) for k in range(20)]
    assert np.abs(np.mean(drawn, axis=0) - table).mean() < 0.5 * np.std(drawn, axis=0).mean() + 0.02
