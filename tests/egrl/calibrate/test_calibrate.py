"""egrl calibrate: what a board's measurements make of a chip file, and what that file is good for."""

from __future__ import annotations

import csv
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import refuse

import egrl
from egrl.calibrate import calibration, fit
from egrl.calibrate.calibration import _errors, calibrate, measure_some
from egrl.calibrate.fit import Network, Stack
from egrl.calibrate.fit import networks as networks_of
from egrl.cli.main import main
from egrl.runs.past_run import PastRun
from hwsim.family import Estimate, Model, PartTimes
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load

TRUE = {"bandwidth dram": 0.7, "bandwidth llc": 1.2, "launch": 1.5, "compute": 0.8}
"""Factors on the chip file's constants; the board also lacks the effect `moves`, and varies by half a percent."""
NETWORKS = ("alexnet", "resnet18")


def problem_of(name: str) -> NnpiProblem:
    return NnpiProblem(load(name), load_chip("nnpi"))


def seconds(problem: NnpiProblem, mapping: np.ndarray) -> np.ndarray:
    """Noise-free seconds of mappings [B, N, 2] on the board."""
    family = problem.family
    logs = [np.log(TRUE.get(p.name, 1.0)) / p.spread for p in family.parameters]
    return family.predict(Model(family.nominal - {"moves"}, np.array(logs)), mapping)


def drawn(problem: NnpiProblem, count: int, seed: int) -> np.ndarray:
    """Different valid mappings near the rules."""
    rng = np.random.default_rng(seed)
    rules = list(problem.baseline.rules().values())
    rows = np.stack([rules[k % len(rules)] for k in range(count)])
    changed = np.where(rng.random(rows.shape) < 0.2, rng.integers(0, 3, rows.shape), rows)
    return np.unique(problem.rectify(changed.astype(np.int16)), axis=0)


def measure(folder: Path, name: str, evals: int, chip: str = "") -> Path:
    """A run on the board, told."""
    problem, rng = problem_of(name), np.random.default_rng(3)
    with egrl.Search(name, method="random", seed=1, chip=chip, out=folder / name) as search:
        while search.evaluations < evals:
            batch = search.ask(limit=evals - search.evaluations)
            exact = seconds(problem, batch.mapping)
            search.tell(batch, (exact * np.exp(0.005 * rng.normal(size=len(exact)))).tolist())
        search.result()
    return folder / name


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("measured")
    return {name: measure(folder, name, 50) for name in NETWORKS}


@pytest.fixture(scope="module")
def networks() -> list[Network]:
    made = []
    for name in NETWORKS:
        problem = problem_of(name)
        rows = drawn(problem, 60, 4)
        noise = np.exp(0.005 * np.random.default_rng(5).normal(size=len(rows)))
        made.append(Network(name, problem, problem.family, rows, seconds(problem, rows) * noise))
    return made


def stack_of(networks: list[Network]) -> Stack:
    return Stack([n.family for n in networks], [n.mapping.shape[1:] for n in networks])


def slopes_of(times: PartTimes, count: int) -> np.ndarray:
    """Of parts by parameters, float64 [B Q, P]."""
    found = times.alone.toarray()
    found[:, times.columns] += times.common
    assert found.shape[1] == count
    return found


def test_a_stack_is_its_networks_with_the_board_in_common(networks):
    stack = stack_of(networks)
    names = [p.name for p in stack.parameters]
    assert names.count("bandwidth dram") == names.count("compute of conv ops") == 1
    assert len(names) == sum(len(n.family.parameters) for n in networks) - sum(
        len([p for p in n.family.parameters if p.shared]) for n in networks
    ) + int((stack.network < 0).sum())
    theta = np.random.default_rng(0).normal(size=len(names))
    model, rows = Model(stack.nominal, theta), stack.rows([n.mapping[:5] for n in networks])
    cost, slope = stack.gradient(model, rows)
    places, distance = stack.places(rows), stack.distance(rows, rows)
    own_places = [n.family.places(n.mapping[:5]) for n in networks]
    for k, network in enumerate(networks):
        part = slice(5 * k, 5 * k + 5)
        own, own_slope = network.family.gradient(stack.part(k, model), network.mapping[:5])
        np.testing.assert_allclose(cost[part], own, rtol=1e-12)
        for p, column in zip(network.family.parameters, own_slope.T, strict=True):
            at = next(
                i for i, q in enumerate(stack.parameters) if q.name == p.name and stack.network[i] in (-1, k)
            )
            np.testing.assert_allclose(slope[part, at], column, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(places[part].sum(axis=1), own_places[k].sum(axis=1), rtol=1e-12)
        np.testing.assert_array_equal(
            distance[part, part], network.family.distance(network.mapping[:5], network.mapping[:5])
        )
    times = stack.part_times(model, rows)
    assert times is not None
    np.testing.assert_allclose(times.seconds.sum(axis=1), cost, rtol=1e-9)
    for k, network in enumerate(networks):
        ops, part = network.mapping.shape[1], slice(5 * k, 5 * k + 5)
        assert (times.seconds[part, ops:] == 0).all()
        found = slopes_of(times, len(names)).reshape(len(rows), -1, len(names))[part, :ops]
        own = network.family.part_times(stack.part(k, model), network.mapping[:5])
        expected = slopes_of(own, len(network.family.parameters)).reshape(5, ops, -1)
        np.testing.assert_allclose(found[:, :, stack._columns[k]], expected, rtol=1e-9)
        others = np.setdiff1d(np.arange(len(names)), stack._columns[k])
        assert (found[:, :, others] == 0).all()
    assert (slope[:5, stack.network == 1] == 0).all()
    assert (distance[:5, 5:] == 1).all()
    assert (places[:5] @ places[5:].T == 0).all()


@pytest.mark.slow
def test_a_joint_fit_finds_the_board_and_its_intervals_hold_the_truth(networks):
    found = fit.fit_of(networks, None)
    assert found.posterior.effects == found.stack.nominal - {"moves"}
    estimates = fit.shared(found)
    for name, factor in TRUE.items():
        assert estimates[name].low / 1.1 < factor < estimates[name].high * 1.1, name
    assert all(e.low <= e.factor <= e.high for e in estimates.values())
    known, unknown = estimates["bandwidth dram"], estimates["bandwidth sram"]
    assert known.high / known.low < 1.1 < unknown.high / unknown.low
    odds = found.odds()
    assert odds["moves"] < 0 < odds["overhead"]


@pytest.mark.slow
def test_a_fitted_file_predicts_what_it_has_not_seen(networks):
    by_file = fit.fit_of(networks, fit.describable(networks))
    held_out = fit.held_out(networks, 4, 0, by_file, by_file)
    truth = np.log(np.concatenate([n.cost for n in networks]))
    before = fit.nominal(networks) - truth
    for name in ("fitted", "posterior"):
        assert np.std(held_out[name] - truth) < 0.03
        assert np.sqrt(np.mean((held_out[name] - truth) ** 2)) < 0.15 * np.sqrt(np.mean(before**2))


def test_a_description_has_what_was_estimated_and_keeps_memories_in_order():
    problem = problem_of("alexnet")
    estimates = {
        "bandwidth llc": Estimate(20.0, 18.0, 22.0),
        "compute": Estimate(2.0, 1.5, 2.5),
        "compute of conv ops": Estimate(1.25, 1.0, 1.5),
        "traffic of matmul ops": Estimate(0.5, 0.4, 0.6),
    }
    board, text = problem.described(estimates, problem.family.nominal - {"moves"}, "mine")
    tables = board.tables
    assert tables.bandwidth_Bps.tolist() == [67.2e9, 13.6e12, 13.6e12]
    assert "680000000000.0 before" not in text
    assert "raised to the slower memory's" in text
    assert not tables.moves
    kinds = np.array([op.kind for op in load("alexnet")])
    np.testing.assert_allclose(tables.mac_s[kinds == "conv"], 2.5 * problem.tables.mac_s[kinds == "conv"])
    np.testing.assert_allclose(tables.mac_s[kinds == "matmul"], 2 * problem.tables.mac_s[kinds == "matmul"])
    half = problem.tables.weight_read_bytes[kinds == "matmul"] / 2
    np.testing.assert_array_equal(tables.weight_read_bytes[kinds == "matmul"], np.ceil(half))
    np.testing.assert_array_equal(tables.weight_bytes, problem.tables.weight_bytes)


@pytest.mark.exhaustive
def test_from_runs_to_a_chip_file_that_serves_everywhere(measured, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runs = [str(path) for path in measured.values()]
    assert main(["calibrate", *runs, "-o", "mine.toml", "--figure", "fit.png", "--folds", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (tmp_path / "fit.png").stat().st_size > 1000
    error = report["rms_log_error"]
    assert error["fitted"] < 0.3 * error["nominal"]
    assert {e["name"]: e["on"] for e in report["effects"]}["moves"] is False
    assert "bandwidth sram" in report["not_learned"]
    rows = list(csv.DictReader((tmp_path / "mine.ops.csv").read_text().splitlines()))
    assert {row["workload"] for row in rows} == set(NETWORKS)
    assert all(float(row["low"]) <= float(row["factor"]) <= float(row["high"]) for row in rows)
    text = (tmp_path / "mine.toml").read_text()
    assert re.search(r"launch_s = .*# 5e-07 before; \S+ to \S+\n", text)
    assert "moves = false                        # true before" in text

    assert main(["evaluate", "--workload", "alexnet", "--chip", "mine.toml"]) == 0
    assert main(["allocate", "--workload", "alexnet", "--chip", "mine.toml", "--seconds", "600"]) == 0
    assert main(["bound", "--workload", "alexnet", "--chip", "mine.toml", "--seconds", "600", "--json"]) == 0
    bound = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert 0 < bound["bound"] <= bound["best_known"]["cost"]
    run = [
        "run",
        "--workload",
        "alexnet",
        "--chip",
        "mine.toml",
        "--method",
        "exact",
        "--evals",
        "3",
        "--quiet",
    ]
    assert main([*run, "--out", "again", "--set", "method.seconds=600"]) == 0
    more = str(measure(tmp_path, "alexnet", 20, "mine.toml"))
    capsys.readouterr()
    assert main(["calibrate", more, "-o", "better.toml", "--folds", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rms_log_error"]["nominal"] < 0.3 * error["nominal"]
    refuse(capsys, ["calibrate", *runs, more, "-o", "x.toml"], "expected runs with one chip file")
    assert main(["chip", "new", "more.toml", "--like", "mine.toml"]) == 0
    assert load_chip("more.toml").factors == load_chip("mine.toml").factors
    capsys.readouterr()
    refuse(capsys, ["calibrate", "again", "-o", "x.toml"], "expected a run whose costs were measured")


@pytest.mark.slow
def test_profiles_make_a_few_mappings_enough_and_show_each_kind_of_op():
    plain, profiled = [], []
    for name in NETWORKS:
        problem = problem_of(name)
        rows, rng = drawn(problem, 8, 4), np.random.default_rng(6)
        cost = seconds(problem, rows) * np.exp(0.01 * rng.normal(size=len(rows)))
        family = problem.family
        logs = [np.log(TRUE.get(p.name, 1.0)) / p.spread for p in family.parameters]
        parts = family.part_times(Model(family.nominal - {"moves"}, np.array(logs)), rows).seconds
        parts = parts * np.exp(0.05 * rng.normal(size=parts.shape))
        parts[rng.random(parts.shape) < 0.1] = np.nan
        plain.append(Network(name, problem, family, rows, cost))
        profiled.append(replace(plain[-1], parts=parts))
    error = {}
    for kind, networks in (("totals", plain), ("profiles", profiled)):
        found = fit.shared(fit.fit_of(networks, fit.describable(networks)))
        error[kind] = max(
            abs(np.log(found[name].factor / TRUE[name])) for name in ("bandwidth dram", "compute")
        )
    assert error["profiles"] < 0.05 < error["totals"]
    report = calibrate(profiled, "mine", 0, 0).document
    assert {row["kind"] for row in report["kinds"]} == {op.kind for n in NETWORKS for op in load(n)}
    assert sum(row["share_of_time"] for row in report["kinds"]) == pytest.approx(1.0)
    assert report["kinds"][0]["fitted"] < 0.5 * report["kinds"][0]["nominal"]
    assert any("profiles, error by kind of op" in line for line in _errors(report))
    assert calibrate(plain, "mine", 0, 0).document["kinds"] == []


def test_the_report_is_for_people(measured, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", str(measured["alexnet"]), "-o", "mine.toml", "--folds", "0"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"launch +5e-07 +\S+ +\S+ to \S+ s\n", said)
    assert re.search(r"contention +on +(on|off) +\S.*: 1", said)
    assert "not learned from these measurements" in said
    assert "on other mappings" not in said


def test_a_file_that_predicts_worse_than_the_one_before_is_not_advised():
    error = {"nominal": 0.3, "fitted_seen": 0.2, "fitted": 0.35, "posterior": 0.1}
    kinds = [
        {"kind": kind, "share_of_time": 0.5, "nominal": 0.9, "fitted": fitted}
        for kind, fitted in (("softmax", 0.63), ("conv", 0.5))
    ]
    (said,) = (
        line for line in _errors({"rms_log_error": error, "folds": 5, "kinds": kinds}) if "still off" in line
    )
    assert said.startswith("still off by more than 50%: softmax by 63%: the model lacks")
    assert "keep the original" in _errors({"rms_log_error": error, "folds": 5, "kinds": []})[-1]
    assert "keep that" not in _errors({"rms_log_error": error, "folds": 0, "kinds": []})[-1]
    assert (
        "keep that" not in _errors({"rms_log_error": {**error, "fitted": 0.25}, "folds": 5, "kinds": []})[-1]
    )


BOARD = f"{sys.executable} {Path(__file__).parents[2] / 'fake_board.py'} noise 0.01"


@pytest.mark.exhaustive
def test_mappings_that_say_most_are_measured_first_and_kept_with_the_run(
    measured, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    refuse(
        capsys,
        ["calibrate", str(measured["alexnet"]), "-o", "x.toml", "--measure", "6", "--evaluator", BOARD],
        "give the evaluator of the run, or a run of this board",
    )
    egrl.search(
        "alexnet",
        method="random",
        seed=1,
        evals=50,
        settings=["evaluator.repeats=1"],
        evaluator=BOARD,
        out=run,
    )
    paid = len((run / "measurements.jsonl").read_text().splitlines())

    def known() -> list[Network]:
        return networks_of([PastRun.read(run)])

    before = len(known()[0].cost)
    more = ["--measure", "6", "--evaluator", BOARD, "--workers", "2", "--folds", "0", "--json"]
    assert main(["calibrate", str(run), "-o", "mine.toml", *more]) == 0
    assert json.loads(capsys.readouterr().out)["networks"][0]["measurements"] == before + 6
    assert len((run / "measurements.jsonl").read_text().splitlines()) == paid + 6
    assert len(known()[0].cost) == before + 6, "a later calibration has them, too"
    measure_some([PastRun.read(run)], known(), 2, BOARD, 1, 0)
    assert len(known()[0].cost) == before + 8, "and measures others"
    assert sorted(path.name for path in (run / "calibration").iterdir()) == [
        "000000000-000000006-p0.npz",
        "000000006-000000008-p0.npz",
    ]
    with egrl.Search(resume=run) as search:
        assert search.evaluations == 50, "the run itself goes on as it was"
    refuse(capsys, ["calibrate", str(run), "-o", "x.toml", "--measure", "3"], "--evaluator")
    refuse(capsys, ["calibrate", str(run), "-o", "x.toml", "--evaluator", BOARD], "--measure")


def test_a_design_lowers_the_variance_most_step_by_step_and_is_new(networks):
    few = [replace(network, mapping=network.mapping[:12], cost=network.cost[:12]) for network in networks]
    found = fit.fit_of(few, ())
    rows = found.stack.rows([drawn(problem_of(name), 15, 8) for name in NETWORKS])
    covariance, noise = found.posterior.joint(rows), found.posterior.scales.noise
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), found.posterior.predict(rows)[1], rtol=1e-6)

    def left(chosen: list[int]) -> float:
        part = covariance[np.ix_(chosen, chosen)] + noise**2 * np.eye(len(chosen))
        to = covariance[:, chosen]
        return float(np.trace(covariance - to @ np.linalg.solve(part, to.T)))

    order = calibration.greedy(covariance, noise, 5).tolist()
    assert len(set(order)) == 5
    assert left(order[:1]) == pytest.approx(min(left([k]) for k in range(len(rows))))
    second = [left([order[0], k]) for k in range(len(rows)) if k != order[0]]
    assert left(order[:2]) == pytest.approx(min(second))

    apart = np.array([[1.5, 0.0, 0.0], [0.0, 1.0, 0.95], [0.0, 0.95, 1.0]])
    assert calibration.greedy(apart, 0.1, 2).tolist() == [1, 0], (
        "one of two that are alike says more than one alone"
    )
    chosen = calibration.choose(few, 9, 0)
    assert sum(map(len, chosen)) == 9
    for network, new in zip(few, chosen, strict=True):
        assert not {row.tobytes() for row in new} & {row.tobytes() for row in network.mapping}
        assert np.isfinite(network.problem.evaluate(new, np.zeros(len(new), np.uint64)).cost).all()


def test_what_cannot_be_calibrated_is_refused_in_one_line(measured, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = str(measured["alexnet"])
    few = str(measure(tmp_path, "alexnet", 3))
    refuse(capsys, ["calibrate", few, "-o", "x.toml"], "at least 10 different mappings", "found 3")
    refuse(capsys, ["calibrate", run, "-o", "x.json"], "expected a file ending in .toml")
    refuse(capsys, ["calibrate", run, "-o", "x.toml", "--folds", "1"], "--folds", "found 1")
    refuse(capsys, ["calibrate", run, "-o", "x.toml", "--figure", "x.bmp"], "--figure x.bmp", ".png")
    refuse(capsys, ["calibrate", run, "-o", "my chip.toml"], "name", "my chip")
    refuse(capsys, ["calibrate", "nowhere", "-o", "x.toml"], "found no such folder")
    assert not list(tmp_path.glob("*.csv"))
