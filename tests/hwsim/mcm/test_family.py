"""The family of models around the analytical model: costs, gradients, limits, and local search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwsim.family import Estimate, HasFamily, Model
from hwsim.mcm.config import McmConfig
from hwsim.mcm.cost import costs, tensors_of
from hwsim.mcm.family.cost import held, needed
from hwsim.mcm.family.family import McmFamily
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from workloads.load import load


@pytest.fixture(scope="module")
def problem() -> McmProblem:
    return McmProblem(load("resnet50"), load_package("mcm36"))


@pytest.fixture(scope="module")
def family(problem: McmProblem) -> McmFamily:
    assert isinstance(problem, HasFamily)
    assert isinstance(problem, HasFamily)
    assert isinstance(problem.family, McmFamily)
    return problem.family


def mappings(problem: McmProblem, count: int, seed: int = 0) -> np.ndarray:
    keys = np.arange(seed, seed + count).astype(np.uint64)
    return np.concatenate([problem.sample(None, keys), problem.baseline.mapping[None]])


def nominal(family: McmFamily) -> Model:
    return Model(family.nominal, np.zeros(len(family.parameters)))


def drawn(family: McmFamily, seed: int, effects: frozenset[str] | None = None) -> Model:
    theta = np.random.default_rng(seed).normal(0.0, 0.5, len(family.parameters))
    return Model(frozenset(family.effects) if effects is None else effects, theta)


@pytest.mark.parametrize("load_of", ["compute", "compute+transfers"])
def test_at_the_package_it_is_the_analytical_model(load_of):
    given = McmProblem(load("resnet50"), replace(load_package("mcm36"), load=load_of))
    rows = mappings(given, 30)
    np.testing.assert_allclose(
        given.family.predict(nominal(given.family), rows), costs(given.tables, rows[:, :, 0]), rtol=1e-12
    )


def by_hand(problem: McmProblem, family: McmFamily, model: Model, place: list[int]) -> float:
    """Seconds of the busiest chip or link, from the names of the parameters."""
    value = {p.name: p.spread * z for p, z in zip(family.parameters, model.theta.tolist(), strict=True)}
    base = {p.name: p.nominal * np.exp(value[p.name]) for p in family.parameters}
    network, on = problem.network, model.effects
    chip = [0.0] * problem.tables.chips
    link = [0.0] * problem.tables.chips
    like: dict[tuple, list[int]] = {}
    for n, kind in enumerate(network.kinds):
        key = (kind, network.tables.compute_s[n], network.tables.weight_bytes[n])
        like.setdefault((*key, network.made_bytes[n], network.moved_bytes[n]), []).append(n)
    shape = {n: problem.space.nodes[alike[0]] for alike in like.values() if len(alike) > 1 for n in alike}
    for n, kind in enumerate(network.kinds):
        name = problem.space.nodes[n]
        factor = value["compute"] + value[f"compute of {kind} ops"] + value.get(f"compute {name}", 0.0)
        if n in shape:
            factor += value[f"compute of ops like {shape[n]}"]
        compute = network.tables.compute_s[n] * np.exp(factor)
        moving = 0.0
        if "moving" in on:
            moving = network.moved_bytes[n] * base["moving"] * np.exp(value[f"moving of {kind} ops"])
        together = base["serial"] * min(compute, moving) if "serial" in on else 0.0
        chip[place[n]] += max(compute, moving) + together + (base["launch"] if "overhead" in on else 0.0)
    for k, (source, _, readers) in enumerate(tensors_of(problem.tables)):
        seconds = network.tables.tensor_s[k] / np.exp(value["bandwidth of links"])
        latency = base["latency of links"] if "latency" in on else 0.0
        others = sorted({place[v] for v in readers} - {place[source]})
        for number, to in enumerate(others):
            share = base["handling"] if "handling" in on else 0.0
            chip[to] += share * seconds
            chip[place[source]] += share * seconds * ("copies" in on or number == 0)
            if "copies" in on or number == len(others) - 1:
                for at in range(place[source], to):
                    link[at] += seconds + latency
    return max([c * np.exp(value[f"time of chip {i}"]) for i, c in enumerate(chip)] + link)


@pytest.mark.parametrize("off", ["", "moving", "copies", "handling", "overhead"])
def test_every_parameter_does_what_its_name_says(problem, family, off):
    model = drawn(family, 1, frozenset(family.effects) - {off})
    rows = mappings(problem, 5)
    expected = [by_hand(problem, family, model, row[:, 0].tolist()) for row in rows]
    np.testing.assert_allclose(family.predict(model, rows), expected, rtol=1e-12)


@pytest.mark.parametrize("slow_links", [False, True])
def test_the_gradient_is_that_of_finite_differences(problem, family, slow_links):
    model = drawn(family, 2)
    if slow_links:  # so that a link sets the pace
        at = [p.name for p in family.parameters].index("bandwidth of links")
        model.theta[at] = -20.0
    rows = mappings(problem, 4)
    seconds, slope = family.gradient(model, rows)
    np.testing.assert_allclose(seconds, family.predict(model, rows), rtol=1e-12)
    for at in range(len(model.theta)):
        step = np.zeros(len(model.theta))
        step[at] = 1e-6
        high, low = (
            np.log(family.predict(replace(model, theta=model.theta + s * step), rows)) for s in (1, -1)
        )
        np.testing.assert_allclose((high - low) / 2e-6, slope[:, at], rtol=1e-4, atol=1e-6)


def test_a_residual_slows_the_nodes_of_a_kind_on_a_chip(problem, family):
    rows = mappings(problem, 5)
    places = family.places(rows)
    residual = np.zeros(places.shape[1])
    busiest = places[0].reshape(-1, problem.tables.chips).sum(axis=0).argmax()
    residual.reshape(-1, problem.tables.chips)[:, busiest] = 0.25
    plain = family.predict(nominal(family), rows[:1])
    with_it = family.predict(replace(nominal(family), residual=residual), rows[:1])
    np.testing.assert_allclose(places.sum(axis=1), 1.0)
    np.testing.assert_allclose(with_it, plain * (1 + places[:1] @ residual), rtol=1e-12)
    assert with_it[0] > plain[0]


def test_the_distance_is_0_to_itself_and_1_where_everything_is_elsewhere(problem, family):
    rows = mappings(problem, 4)
    distance = family.distance(rows, rows)
    np.testing.assert_allclose(np.diag(distance), 0.0, atol=1e-12)
    np.testing.assert_allclose(distance, distance.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(family.distance(rows, (rows + 1) % 36)), 1.0)


def held_by_hand(problem: McmProblem, place: list[int]) -> list[list[float]]:
    """Of each chip weights, tensors in and out, and the largest working set of a node."""
    network = problem.network
    chips = range(problem.tables.chips)
    read = network.made_bytes.astype(float).tolist()
    crossing = [0.0 for _ in chips]
    for source, size, readers in tensors_of(problem.tables):
        for v in readers:
            read[v] += size
        chips_of = {place[v] for v in readers} - {place[source]}
        for c in {*chips_of, *([place[source]] if chips_of else [])}:
            crossing[c] += size
    mine = [[n for n, at in enumerate(place) if at == c] for c in chips]
    return [
        [
            float(network.tables.weight_bytes[mine[c]].sum()),
            crossing[c],
            max([read[n] for n in mine[c]], default=0.0),
        ]
        for c in chips
    ]


def test_what_chips_hold_is_what_the_plain_sums_say(problem):
    rows = mappings(problem, 6)[:, :, 0]
    expected = [held_by_hand(problem, row.tolist()) for row in rows]
    np.testing.assert_array_equal(held(problem.tables, problem.network.made_bytes, rows), expected)


def narrow() -> McmProblem:
    """A network on chips that its weights nearly fill."""
    package = load_package("mcm36")
    return McmProblem(load("resnet50"), replace(package, chip=replace(package.chip, sram_bytes=5 << 20)))


def test_a_limit_is_learned_from_what_ran_and_what_did_not():
    given = narrow()
    rows = mappings(given, 300)
    bytes_held = held(given.tables, given.network.made_bytes, rows[:, :, 0])

    def run_with(limit: np.ndarray) -> np.ndarray:
        return needed(bytes_held, limit).max(axis=1) <= given.tables.capacity

    scales = np.linspace(-2.0, 1.5, 30)
    half_run = [abs(run_with(np.array([scale - 0.5, scale + 0.5])).mean() - 0.5) for scale in scales]
    middle = scales[int(np.argmin(half_run))]
    truth = np.array([middle - 0.5, middle + 0.5])
    runs = run_with(truth)
    assert 60 < runs.sum() < 240
    family, half = given.family, 150
    known = family.limits(rows[:half][runs[:half]], rows[:half][~runs[:half]])
    before = family.limits(rows[:0], rows[:0])
    assert np.exp(before.mode()).tolist() == [1.0, 1.0]

    def doubt(limits) -> float:
        chance = limits.probability(rows[half:])
        return float(-np.log(np.where(runs[half:], chance, 1 - chance)).mean())

    assert doubt(known) < 0.5 * doubt(before)
    drawn_limit = known.sample(np.random.default_rng(0))
    right = (needed(bytes_held[half:], drawn_limit).max(axis=1) <= given.tables.capacity) == runs[half:]
    assert right.mean() > 0.9


@pytest.mark.slow
def test_where_memory_is_no_rule_everything_runs():
    package = load_package("mcm36")
    rules = replace(package.constraints, memory=False)
    given = McmProblem(load("resnet50"), replace(package, constraints=rules))
    rows = mappings(given, 3)
    assert (given.family.limits(rows, rows[:0]).probability(rows) > 0.9).all()
    found = given.family.improve(nominal(given.family), rows[0], steps=200, hot=2e-3, key=1)
    assert given.judge(found) == []


def test_local_search_finds_valid_partitions_that_the_model_likes_and_repeats(problem, family):
    model, start = drawn(family, 4), problem.baseline.mapping
    found = family.improve(model, start, steps=2000, hot=2e-3, key=7)
    assert problem.judge(found) == []
    assert family.predict(model, found[None])[0] < family.predict(model, start[None])[0]
    np.testing.assert_array_equal(found, family.improve(model, start, steps=2000, hot=2e-3, key=7))


def test_local_search_keeps_to_the_limit():
    given = narrow()
    model = replace(nominal(given.family), limit=np.zeros(2))
    start = given.baseline.mapping
    found = given.family.improve(model, start, steps=3000, hot=2e-3, key=3)
    rows = np.stack([start, found])[:, :, 0]
    before, after = needed(held(given.tables, given.network.made_bytes, rows), np.zeros(2)).max(axis=1)
    assert before > given.tables.capacity >= after
    assert given.judge(found) == []


def test_what_is_worth_measuring_first_is_valid(problem):
    rules = problem.baseline.rules()
    assert rules
    assert all(problem.judge(mapping) == [] for mapping in rules.values())
    np.testing.assert_array_equal(rules["greedy 1"], problem.baseline.mapping)


def test_a_fitted_package_has_the_rates_and_is_read_again(problem):
    estimates = {"compute": Estimate(2.0, 1.6, 2.5), "bandwidth of links": Estimate(0.5, 0.4, 0.6)}
    described, text = problem.described(estimates, frozenset(), "mine")
    assert described.package.name == "mine"
    assert described.package.chip.peak_ops == problem.package.chip.peak_ops / 2
    assert described.package.link.bandwidth_Bps == problem.package.link.bandwidth_Bps / 2
    assert "4e+12 before; 1.6e+12 to 2.5e+12" in text
    rows = mappings(problem, 3)
    np.testing.assert_allclose(
        costs(described.tables, rows[:, :, 0]), 2 * costs(problem.tables, rows[:, :, 0]), rtol=1e-4
    )


def test_on_the_device_model_the_family_is_the_analytical_models():
    given = McmProblem(load("resnet50"), load_package("mcm36"), McmConfig(model="device"))
    rows = mappings(given, 3)
    np.testing.assert_allclose(
        given.family.predict(nominal(given.family), rows), costs(given.tables, rows[:, :, 0]), rtol=1e-12
    )
