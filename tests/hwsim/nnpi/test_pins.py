"""Pins on a chip: kept by what repairs, places, solves and improves mappings, and told where they cannot be."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from nnpi_twin import Twin

from hwsim.baseline import with_baseline
from hwsim.nnpi.annealing import anneal
from hwsim.nnpi.chip import chip_file, load_chip, parse_chip, template
from hwsim.nnpi.exact.solve import fastest_of_all, solve
from hwsim.nnpi.placer import RULES, compile_map
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import decisions
from strategies import chips, workloads
from subjects import problem
from workloads.errors import InputError
from workloads.load import load


def keeps(subject: NnpiProblem, rows: np.ndarray) -> bool:
    return (subject.space.canonical(rows) == rows).all() and all(not subject.judge(row) for row in rows)


@st.composite
def pinned(draw: st.DrawFn) -> NnpiProblem:
    """A small problem with drawn pins that have room."""
    workload, chip = draw(workloads(max_ops=4)), draw(chips())
    tensors = [
        f"{op.name}.{head}"
        for op in workload
        for head, size in (("weight", op.weight_bytes), ("activation", op.output_bytes))
        if size
    ]
    assume(len(tensors) > 1)
    chosen = draw(st.lists(st.sampled_from(tensors), max_size=3, unique=True))
    texts = [f"{one}={draw(st.sampled_from([*chip.memory_names, *tensors]))}" for one in chosen]
    texts += [f"{chip.memory_names[-1]}.free={draw(st.sampled_from([0, 300]))}"]
    try:
        return NnpiProblem(workload, chip, NnpiConfig(baseline="execution-order", pins=texts))
    except InputError:
        assume(False)
        raise


def every_map(subject: NnpiProblem) -> np.ndarray:
    levels = len(subject.memories())
    choices = [range(levels) if live else (-1,) for live in subject.space.live.ravel()]
    assume(np.prod([len(each) for each in choices]) <= 20_000)
    return np.array(list(itertools.product(*choices)), np.int16).reshape(-1, *subject.space.shape)


@pytest.mark.slow
@given(pinned())
def test_what_runs_keeps_pins_and_fits_and_a_map_that_does_both_is_left_alone(subject):
    every = every_map(subject)
    found = subject.evaluate(every, np.zeros(len(every), np.uint64))
    assert keeps(subject, found.repaired)
    valid = np.array([not subject.judge(row) for row in every])
    assert (found.repaired[valid] == every[valid]).all()
    assert (found.epsilon[valid] == 0).all()
    assert {row.tobytes() for row in every[valid]} == {row.tobytes() for row in found.repaired}


@pytest.mark.slow
@given(pinned(), st.integers(0, 2**32 - 1))
def test_rules_bound_exact_solver_and_local_search_keep_pins(subject, seed):
    every = every_map(subject)
    runs = rectify(subject.tables, np.ascontiguousarray(subject.space.canonical(every)))[0]
    tables = subject.tables._replace(sigma=0.0)
    best = min(subject.model_cost(row) for row in np.unique(runs, axis=0))
    assert all(keeps(subject, compile_map(tables, rule)[None]) for rule in RULES.values())
    assert keeps(subject, subject.baseline.mapping[None])
    result = solve(tables, time_limit_s=60.0, gap=0.0)
    assert result.bound_s <= best * (1 + 1e-12)
    assert keeps(subject, result.mapping[None])
    assert result.model_cost_s >= best * (1 - 1e-12)
    tried = fastest_of_all(tables)
    assert tried is not None
    assert keeps(subject, tried[0][None])
    assert tried[1] == pytest.approx(best, rel=1e-12)
    start = every[np.random.default_rng(seed).integers(len(every))]
    assert keeps(subject, anneal(tables, start, steps=200, key=seed)[0][None])


def test_all_of_a_problem_keeps_the_pins_of_a_user():
    subject = problem("nnpi-pinned")
    rows = np.random.default_rng(0).integers(0, 3, (200, *subject.space.shape)).astype(np.int16)
    found = subject.evaluate(rows, np.zeros(200, np.uint64))
    assert keeps(subject, found.repaired)
    names = list(subject.space.nodes)
    assert (found.repaired[:, names.index("conv1"), 0] == 0).all()
    assert (found.repaired[:, names.index("pool2"), 1] == 2).all()
    assert keeps(subject, subject.baseline.mapping[None])
    placer = subject.placer
    scores = np.random.default_rng(1).normal(size=(50, *placer.features.shape[:2])).astype(np.float32)
    assert keeps(subject, placer.place(scores, np.linspace(0, 1, 50)))
    solution = subject.solve(3.0, 0)
    assert keeps(subject, solution.mapping[None])
    assert solution.bound.cost <= solution.cost
    near = subject.solve(3.0, 0, rows[0])
    assert keeps(subject, near.mapping[None])
    assert all(keeps(subject, row[None]) for row in subject.baseline.rules().values())
    assert subject.memories()[2] == ("sram", load_chip("nnpi").memories[2].capacity_bytes - 65536)
    twin = Twin(load("alexnet"), load_chip("nnpi"))
    best = solution.mapping
    assert subject.model_cost(best) == twin.latency(best.tolist()), "a pin costs nothing by itself"
    assert decisions(subject.tables).shape[0] == subject.space.pins.own[subject.space.live].sum()


def test_pins_are_in_the_fingerprint_and_no_pins_change_none():
    plain = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    assert plain.fingerprint() != problem("nnpi-pinned").fingerprint()
    assert problem("nnpi-pinned").best_known()[0] is None


def test_the_judge_names_what_is_not_where_it_is_pinned():
    subject = problem("nnpi-pinned")
    mapping = subject.baseline.mapping.copy()
    names = list(subject.space.nodes)
    mapping[names.index("conv1"), 0] = 1
    mapping[names.index("conv3"), 1] = 0 if mapping[names.index("conv1"), 1] else 1
    found = [str(each) for each in subject.judge(mapping)]
    assert any("pinned elsewhere at weight of conv1: demanded 1 choice" in each for each in found)
    assert any("does not lie with what it is pinned to at activation of conv3" in each for each in found)


def test_pins_that_have_no_room_are_one_line_that_says_where():
    for pins, words in (
        (["*.weight=sram"], "pins: expected tensors that sram of nnpi has room for, 4194304 bytes, found 61"),
        (
            ["conv1.activation=sram", "pool1.activation=sram", "sram.free=4000000"],
            "found 240256 bytes pinned there",
        ),
        (["sram.free=1GiB"], "pin sram.free=1073741824: expected at most the 4194304 bytes"),
    ):
        with pytest.raises(InputError) as caught:
            NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig(pins=pins))
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_chip_file_has_a_table_of_pins_for_whatever_runs_on_it():
    chip = replace(
        load_chip("nnpi"), pins={"conv1.weight": "dram", "embedding*.weight": "dram", "sram.free": 65536}
    )
    text = template(chip, "mine")
    assert parse_chip(text, "mine.toml") == replace(chip, name="mine")
    assert parse_chip(chip_file(chip), "x.toml") == chip
    subject = NnpiProblem(load("alexnet"), chip)
    assert subject.space.pins.fixed[0, 0] == 0
    assert subject.memories()[2][1] == 4 * 2**20 - 65536
    more = NnpiProblem(load("alexnet"), chip, NnpiConfig(pins=["conv2.weight=sram"]))
    assert more.space.pins.fixed[2, 0] == 2


def test_a_baseline_that_breaks_a_pin_keeps_it():
    subject = problem("nnpi-pinned")
    other = with_baseline(subject, np.where(subject.space.live, 0, -1).astype(np.int16), "all slow", "given")
    assert keeps(subject, other.baseline.mapping[None])
