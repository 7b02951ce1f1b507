"""The family of models around a training step: its costs, gradients, places, limits and local search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from egrl_training.simulator.device import Device, load_device
from egrl_training.simulator.problem import TrainingConfig, TrainingProblem
from egrl_training.simulator.simulate import simulate
from hwsim.family import Estimate, HasFamily, Model
from make_training import decoder, random_step, unet


def problem() -> TrainingProblem:
    return TrainingProblem(unet(2), None, TrainingConfig(fraction=0.6))


def hosted() -> TrainingProblem:
    return TrainingProblem(unet(2), Device("host", memory_fraction=0.6, to_host_Bps=2e10, from_host_Bps=2e10))


def mappings(of: TrainingProblem, count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, of.space.num_choices, (count, *of.space.shape)).astype(np.int16)
    return of.repair(drawn, np.zeros(count, np.uint64))


def nominal(of: TrainingProblem) -> Model:
    return Model(frozenset(), np.zeros(len(of.family.parameters)))


@pytest.mark.parametrize("make", [problem, hosted])
def test_at_the_description_it_is_the_simulator(make):
    found = make()
    assert isinstance(found, HasFamily)
    rows = mappings(found, 20)
    simulated = simulate(found.tables, rows[:, :, 0].copy())[0]
    if make is hosted:
        assert (
            max(found.trace(row).wait_s.sum() / cost for row, cost in zip(rows, simulated, strict=True))
            > 0.01
        )
    np.testing.assert_allclose(found.family.predict(nominal(found), rows), simulated, rtol=1e-12)
    np.testing.assert_allclose(found.family.gradient(nominal(found), rows)[0], simulated, rtol=1e-12)


@pytest.mark.parametrize("step", [unet(2), decoder(1), random_step(6, 30)], ids=["unet", "decoder", "random"])
def test_factors_of_a_device_are_the_familys_parameters(step):
    rng = np.random.default_rng(1)
    kinds = sorted({op.kind for op in step.ops})
    seconds, again = ({kind: float(np.exp(0.3 * rng.normal())) for kind in kinds} for _ in range(2))
    config = TrainingConfig(fraction=0.9)
    plain = TrainingProblem(step, None, config)
    device = replace(load_device("half"), seconds=seconds, again=again)
    told = TrainingProblem(step, device, config)
    logs = {f"seconds of {kind} ops": np.log(factor) for kind, factor in seconds.items()}
    logs |= {f"again of {kind} ops": np.log(factor) for kind, factor in again.items()}
    theta = np.array([logs.get(p.name, 0.0) / p.spread for p in plain.family.parameters])
    rows = mappings(plain, 20)
    said = plain.family.predict(Model(frozenset(), theta), rows)
    simulated = simulate(told.tables, rows[:, :, 0].copy())[0]
    # Kinds that take little are one kind, whose factor is none of theirs.
    np.testing.assert_allclose(said, simulated, rtol=0.02)


@pytest.mark.parametrize("make", [problem, hosted])
def test_the_gradient_is_the_slope(make):
    found = make()
    rng = np.random.default_rng(2)
    rows, theta = mappings(found, 6), rng.normal(size=len(found.family.parameters))
    _, slope = found.family.gradient(Model(frozenset(), theta), rows)
    for p in range(len(theta)):
        step = np.eye(len(theta))[p] * 1e-5
        up, down = (
            np.log(found.family.predict(Model(frozenset(), theta + sign * step), rows)) for sign in (1, -1)
        )
        np.testing.assert_allclose(slope[:, p], (up - down) / 2e-5, atol=1e-7)


def test_places_are_shares_of_what_is_made_again_and_distances_those_of_a_metric():
    found = problem()
    rows = mappings(found, 8)
    places = found.family.places(rows)
    assert places.shape == (8, rows.shape[1])
    assert (places[rows[:, :, 0] == 1] == 0).all()
    assert (places >= 0).all()
    assert places.sum() > 0
    distance = found.family.distance(rows, rows)
    np.testing.assert_allclose(distance, distance.T)
    np.testing.assert_allclose(np.diag(distance), 0, atol=1e-12)
    kept = np.ones_like(rows[:1])
    np.testing.assert_allclose(found.family.distance(kept, 1 - kept), [[1.0]])
    np.testing.assert_allclose(found.family.distance(kept, kept + 1), [[1.0]])


@pytest.mark.parametrize("shift", [0.0, 1.0, -2.0])
def test_improving_is_valid_never_worse_and_keyed(shift):
    found = problem()
    theta = np.zeros(len(found.family.parameters))
    theta[1 + len(found.family.kinds)] = shift
    model = Model(frozenset(), theta, np.full(found.space.shape[0], 0.1))
    start = mappings(found, 1)[0]
    better = found.family.improve(model, start, steps=2000, hot=0.01, key=3)
    assert found.judge(better) == []
    assert found.family.predict(model, better[None])[0] <= found.family.predict(model, start[None])[0]
    np.testing.assert_array_equal(better, found.family.improve(model, start, steps=2000, hot=0.01, key=3))


def test_what_ran_and_what_failed_teach_the_limit():
    found = problem()
    rows = mappings(found, 200)
    peak = found.peak_bytes(rows)
    real = 0.9 * found.limit_bytes  # the machine has a tenth less than it says
    limits = found.family.limits(rows[peak <= real], rows[peak > real])
    assert (peak > real).any()
    assert limits.room_bytes(limits.mode()) < 0.95 * found.limit_bytes
    chance = limits.probability(rows)
    assert chance[peak <= 0.97 * real].min() > chance[peak > 1.03 * real].max()
    none = found.family.limits(rows[:0], rows[:0])
    assert none.room_bytes(none.mode()) == found.limit_bytes
    assert none.sample(np.random.default_rng(0)).shape == (2,)


def test_a_described_problem_has_the_factors_and_the_limit_and_its_text_is_a_device_file(tmp_path):
    found = problem()
    name = f"again of {found.family.kinds[0]} ops"
    told, text = found.described({name: Estimate(0.5, 0.4, 0.6)}, frozenset(), "mine")
    (tmp_path / "mine.toml").write_text(text)
    assert load_device(tmp_path / "mine.toml").again[found.family.kinds[0]] == 0.5
    assert told.limit_bytes == found.limit_bytes
    assert told.fingerprint() != found.fingerprint()
    rows = mappings(found, 5)
    logs = np.array([np.log(0.5) / p.spread if p.name == name else 0.0 for p in found.family.parameters])
    said = found.family.predict(Model(frozenset(), logs), rows)
    np.testing.assert_allclose(said, simulate(told.tables, rows[:, :, 0].copy())[0], rtol=1e-9)


def test_the_first_mappings_are_rules_that_fit():
    found = problem()
    first = found.baseline.rules()
    assert 1 < len(first) <= 8
    assert all(found.judge(mapping) == [] for mapping in first.values())
