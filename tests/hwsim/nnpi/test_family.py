"""The family of models around a chip file: its costs, gradients, places, and local search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwsim.family import Estimate, HasFamily, Model, PartTimes
from hwsim.nnpi.best_known import digest
from hwsim.nnpi.chip import Chip, Factors, Waiting, load_chip
from hwsim.nnpi.family.family import NnpiFamily
from hwsim.nnpi.latency import latencies
from hwsim.nnpi.problem import NnpiProblem
from hwsim.nnpi.tables import Tables
from workloads.load import load
from workloads.workload import Workload

NETWORKS = ("alexnet", "resnet50", "bert")


def setting(name: str) -> tuple[Workload, NnpiProblem, NnpiFamily]:
    workload = load(name)
    problem = NnpiProblem(workload, load_chip("nnpi"))
    return workload, problem, problem.family


def mappings(problem: NnpiProblem, count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, 3, (count, *problem.space.shape)).astype(np.int16)
    return np.concatenate([problem.rectify(drawn), problem.baseline.mapping[None]])


def nominal(family: NnpiFamily) -> Model:
    return Model(family.nominal, np.zeros(len(family.parameters)))


@pytest.mark.parametrize("name", NETWORKS)
def test_at_the_chip_file_it_is_the_simulator_but_for_whole_bytes(name):
    _, problem, family = setting(name)
    assert isinstance(problem, HasFamily)
    rows = mappings(problem, 40)
    simulated = latencies(problem.tables, rows, np.zeros(len(rows)))
    np.testing.assert_allclose(family.predict(nominal(family), rows), simulated, rtol=1e-5)
    np.testing.assert_allclose(family.gradient(nominal(family), rows)[0], simulated, rtol=1e-5)


def test_factors_of_the_chip_file_are_the_familys_parameters():
    workload, chip = load("resnet50"), load_chip("nnpi")
    kinds = sorted({op.kind for op in workload})
    rng = np.random.default_rng(5)
    compute, traffic = ({kind: float(np.exp(0.3 * rng.normal())) for kind in kinds} for _ in range(2))
    problem = NnpiProblem(workload, replace(chip, factors=Factors(compute, traffic)))
    rows = mappings(problem, 20)
    simulated = latencies(problem.tables, rows, np.zeros(len(rows)))
    np.testing.assert_allclose(problem.family.predict(nominal(problem.family), rows), simulated, rtol=1e-5)

    family = NnpiProblem(workload, chip).family
    logs = {f"compute of {kind} ops": np.log(factor) for kind, factor in compute.items()}
    logs |= {f"traffic of {kind} ops": np.log(factor) for kind, factor in traffic.items()}
    theta = np.array([logs.get(p.name, 0.0) / p.spread for p in family.parameters])
    np.testing.assert_allclose(family.predict(Model(family.nominal, theta), rows), simulated, rtol=1e-5)


@pytest.mark.parametrize("effect", ["cross", "prefetch", "contention", "moves", "overhead"])
def test_an_effect_that_is_off_is_the_chip_file_without_it(effect):
    workload = load("resnet50")
    chip = load_chip("nnpi")
    family = NnpiProblem(workload, chip).family
    without = NnpiProblem(workload, replace(chip, effects=replace(chip.effects, **{effect: False})))
    rows = mappings(without, 20)
    model = Model(family.nominal - {effect}, np.zeros(len(family.parameters)))
    simulated = latencies(without.tables, rows, np.zeros(len(rows)))
    np.testing.assert_allclose(family.predict(model, rows), simulated, rtol=1e-5)
    assert without.family.nominal == family.nominal - {effect}


def by_hand(
    workload: Workload, tables: Tables, model: Model, family: NnpiFamily, mapping: np.ndarray
) -> float:
    """Seconds without prefetch, op by op, from the names of the parameters."""
    value = {p.name: p.spread * z for p, z in zip(family.parameters, model.theta.tolist(), strict=True)}
    memories = ("dram", "llc", "sram")
    launch_s = tables.launch_s * np.exp(value["launch"])
    access_s = [0.1 * tables.launch_s * np.exp(value[f"access {m}"]) for m in memories]
    serial, shared = 0.1 * np.exp(value["serial"]), 0.1 * np.exp(value["shared"])
    bandwidth = [tables.bandwidth_Bps[m] * np.exp(value[f"bandwidth {memories[m]}"]) for m in range(3)]
    equal: dict[object, list[str]] = {}
    for op in workload:
        equal.setdefault((op.kind, op.gemm, op.vector_ops), []).append(op.name)
    shape = {
        name: f"compute of ops like {names[0]}"
        for names in equal.values()
        if len(names) > 1
        for name in names
    }

    def traffic_factor(i: int, what: str) -> float:
        op = workload.ops[i]
        return float(np.exp(value[f"traffic of {op.kind} ops"] + value[f"{what} {op.name}"]))

    total, position = 0.0, {op.name: i for i, op in enumerate(workload)}
    for i, op in enumerate(workload):
        moved, accesses = [0.0] * 3, [0] * 3
        weight, home = mapping[i].tolist()
        if weight >= 0:
            moved[weight] += tables.weight_read_bytes[i] * traffic_factor(i, "weight")
            accesses[weight] += 1
        written = tables.activation_bytes[i] * traffic_factor(i, "activation") if home >= 0 else 0.0
        stays = 0.0
        for edge in op.inputs:
            j = position[edge.source]
            at = int(mapping[j, 1])
            if op.kind in ("reshape", "concat", "split") and at == home:
                stays += edge.read_bytes * traffic_factor(j, "activation")
            elif at >= 0:
                moved[at] += edge.read_bytes * traffic_factor(j, "activation")
                accesses[at] += 1
        if home >= 0:
            moved[home] += max(written - stays, 0.0)
            accesses[home] += 1
        moved[0] += tables.external_bytes[i] + (written if op.is_output and home > 0 else 0.0)
        moved[tables.via] += moved[0]
        streams = [moved[m] / bandwidth[m] + accesses[m] * access_s[m] for m in range(3)]
        transfer = max(streams) + shared * (sum(streams) - max(streams))
        factor = value["compute"] + value[f"compute of {op.kind} ops"] + value[f"compute {op.name}"]
        compute = tables.compute_s[i] * np.exp(factor + value.get(shape.get(op.name, ""), 0.0))
        total += launch_s + max(compute, transfer) + serial * min(compute, transfer)
    return total


@pytest.mark.parametrize("name", ["alexnet", "bert"])
def test_every_parameter_does_what_its_name_says(name):
    workload, problem, family = setting(name)
    rng = np.random.default_rng(1)
    effects = frozenset(family.effects) - {"prefetch"}
    model = Model(effects, rng.normal(0.0, 0.5, len(family.parameters)))
    rows = mappings(problem, 4)
    expected = [by_hand(workload, problem.tables, model, family, row) for row in rows]
    np.testing.assert_allclose(family.predict(model, rows), expected, rtol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("everything", [False, True])
def test_the_gradient_is_that_of_finite_differences(name, everything):
    _, problem, family = setting(name)
    rng = np.random.default_rng(2)
    effects = frozenset(family.effects) if everything else family.nominal
    theta = rng.normal(0.0, 0.5, len(family.parameters))
    rows = mappings(problem, 4)
    _, slope = family.gradient(Model(effects, theta), rows)
    for at in rng.choice(len(theta), 60).tolist() + list(range(12)):
        step = np.zeros(len(theta))
        step[at] = 1e-5
        high, low = (np.log(family.predict(Model(effects, theta + s * step), rows)) for s in (1, -1))
        np.testing.assert_allclose((high - low) / 2e-5, slope[:, at], rtol=1e-4, atol=1e-7)


def dense_slopes(found: PartTimes, parameters: int) -> np.ndarray:
    slopes = found.alone.toarray()
    assert slopes.shape == (found.seconds.size, parameters)
    assert (slopes[:, found.columns] == 0).all()
    slopes[:, found.columns] = found.common
    return slopes


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("everything", [False, True])
def test_times_of_ops_add_up_and_their_common_slopes_are_those_of_finite_differences(name, everything):
    _, problem, family = setting(name)
    rng = np.random.default_rng(6)
    effects = frozenset(family.effects) if everything else family.nominal
    theta = rng.normal(0.0, 0.5, len(family.parameters))
    rows = mappings(problem, 3)
    found = family.part_times(Model(effects, theta), rows)
    cost, slope = family.gradient(Model(effects, theta), rows)
    np.testing.assert_allclose(found.seconds.sum(axis=1), cost, rtol=1e-12)
    slopes = dense_slopes(found, len(theta))
    for at in found.columns:
        step = np.zeros(len(theta))
        step[at] = 1e-5
        high, low = (
            np.log(family.part_times(Model(effects, theta + s * step), rows).seconds).reshape(-1)
            for s in (1, -1)
        )
        np.testing.assert_allclose((high - low) / 2e-5, slopes[:, at], rtol=1e-4, atol=1e-6)
    share = (found.seconds / cost[:, None])[:, :, None] * slopes.reshape(*found.seconds.shape, -1)
    np.testing.assert_allclose(share.sum(axis=1)[:, found.columns], slope[:, found.columns], atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_without_prefetch_the_slopes_of_single_ops_are_exact_too(name):
    _, problem, family = setting(name)
    rng = np.random.default_rng(7)
    model = Model(frozenset(family.effects) - {"prefetch"}, rng.normal(0.0, 0.5, len(family.parameters)))
    rows = mappings(problem, 3)
    found, (cost, slope) = family.part_times(model, rows), family.gradient(model, rows)
    slopes = dense_slopes(found, len(family.parameters))
    share = (found.seconds / cost[:, None])[:, :, None] * slopes.reshape(*found.seconds.shape, -1)
    np.testing.assert_allclose(share.sum(axis=1), slope, atol=1e-12)


def test_a_parameter_of_an_effect_that_is_off_does_not_matter():
    _, problem, family = setting("alexnet")
    _, slope = family.gradient(nominal(family), mappings(problem, 3))
    off = [i for i, p in enumerate(family.parameters) if p.effect and p.effect not in family.nominal]
    assert len(off) == 5
    assert (slope[:, off] == 0).all()


def test_a_residual_adds_what_its_place_says():
    _, problem, family = setting("alexnet")
    rows = mappings(problem, 5)
    places = family.places(rows)
    rng = np.random.default_rng(3)
    residual = rng.normal(0.0, 0.1, places.shape[1])
    plain = family.predict(nominal(family), rows)
    with_it = family.predict(replace(nominal(family), residual=residual), rows)
    usual_s = family.predict(nominal(family), problem.baseline.mapping[None])
    np.testing.assert_allclose(with_it, plain + usual_s * (places @ residual), rtol=1e-12)
    live = problem.space.live.sum()
    assert ((places > 0).sum(axis=1) == live).all()


def test_the_distance_is_0_to_itself_and_1_where_everything_lies_elsewhere():
    _, problem, family = setting("bert")
    rows = mappings(problem, 4)
    distance = family.distance(rows, rows)
    np.testing.assert_allclose(np.diag(distance), 0.0, atol=1e-12)
    np.testing.assert_allclose(distance, distance.T, atol=1e-12)
    assert ((distance >= 0) & (distance <= 1)).all()
    elsewhere = np.where(rows >= 0, (rows + 1) % 3, -1).astype(np.int16)
    np.testing.assert_allclose(np.diag(family.distance(rows, elsewhere)), 1.0)


def test_local_search_finds_valid_mappings_that_the_model_likes_and_repeats():
    _, problem, family = setting("resnet50")
    rng = np.random.default_rng(4)
    model = Model(frozenset(family.effects), rng.normal(0.0, 0.5, len(family.parameters)))
    start = problem.baseline.mapping
    found = family.improve(model, start, steps=2000, hot=2e-3, key=7)
    assert problem.judge(found) == []
    assert family.predict(model, found[None])[0] < family.predict(model, start[None])[0]
    np.testing.assert_array_equal(found, family.improve(model, start, steps=2000, hot=2e-3, key=7))
    assert (found != family.improve(model, start, steps=2000, hot=2e-3, key=8)).any()


def test_what_is_worth_measuring_first_is_every_rule():
    _, problem, _ = setting("resnet50")
    rules = problem.baseline.rules()
    assert len(rules) == 12
    assert all(problem.judge(mapping) == [] for mapping in rules.values())
    np.testing.assert_array_equal(rules[problem.config.baseline], problem.baseline.mapping)


def waiting_chip() -> Chip:
    """A chip whose transfers take time to start, and wait for each other and for computing."""
    chip = load_chip("nnpi")
    starts = zip(chip.memories, (2e-6, 3e-8, 0.0), strict=True)
    memories = tuple(replace(memory, access_s=access_s) for memory, access_s in starts)
    return replace(chip, memories=memories, waiting=Waiting(0.2, 0.6))


def test_what_waits_in_a_chip_file_is_in_its_family_and_a_fit_writes_it():
    workload, chip = load("bert"), waiting_chip()
    problem = NnpiProblem(workload, chip)
    assert {"access", "serial", "shared"} <= problem.family.nominal
    rows = mappings(problem, 20)
    simulated = latencies(problem.tables, rows, np.zeros(len(rows)))
    np.testing.assert_allclose(problem.family.predict(nominal(problem.family), rows), simulated, rtol=1e-5)

    plain = NnpiProblem(workload, load_chip("nnpi"))
    estimates = {
        p.name: Estimate(factor, factor, factor)
        for p in plain.family.parameters
        for name, factor in (("access dram", 40.0), ("access llc", 0.6), ("serial", 2.0), ("shared", 6.0))
        if p.name == name
    }
    effects = plain.family.nominal | {"access", "serial", "shared"}
    board, text = plain.described(estimates, effects, "mine")
    assert "access_s = 2e-06" in text
    assert "0 before; 2e-06 to 2e-06" in text
    assert board._chip.waiting == Waiting(0.2, 0.6)
    theta = np.array(
        [
            np.log(estimates[p.name].factor) / p.spread if p.name in estimates else 0.0
            for p in plain.family.parameters
        ]
    )
    fitted = plain.family.predict(Model(frozenset(effects), theta), rows)
    # What was not estimated of an effect that is on stays 0 in the file: the start of a transfer in SRAM.
    np.testing.assert_allclose(latencies(board.tables, rows, np.zeros(len(rows))), fitted, rtol=2e-2)
    without, _ = board.described({}, board.family.nominal - {"access", "serial", "shared"}, "mine")
    assert digest(without.tables) == digest(plain.tables)


def test_no_share_that_waits_is_estimated_above_one():
    _, _, family = setting("resnet50")
    serial = next(parameter for parameter in family.parameters if parameter.name == "serial")
    assert serial.within(Estimate(1.0, 0.5, 1e6)).high * serial.nominal == 1.0
    assert serial.within(Estimate(1.0, 0.5, 2.0)) == Estimate(1.0, 0.5, 2.0)
