"""Chips that ship, and the template for one's own: 2 to 8 memories, nothing assumes three."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwsim.nnpi.chip import Chip, Memory, chip_names, load_chip, parse_chip, template
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load


def eight() -> Chip:
    """A chip of eight levels."""
    memories = tuple(Memory(f"m{k}", 2 ** (34 - 2 * k), 50e9 * 3.0**k) for k in range(8))
    chip = load_chip("nnpi")
    return replace(
        chip, name="eight", memories=memories, prefetch=replace(chip.prefetch, into="m1", via="m1")
    )


def test_the_chips_that_ship_have_two_three_and_four_memories():
    assert {name: len(load_chip(name).memories) for name in chip_names()} == {
        "nnpi": 3,
        "tpuv4i": 2,
        "edge": 2,
        "npu": 3,
        "quad": 4,
        "h100": 3,
    }
    assert load_chip("tpuv4i").memories[1].capacity_bytes == 128 << 20
    assert load_chip("edge").memories[1].capacity_bytes == 1 << 20


def test_a_tpuv4i_has_its_published_rate():
    compute = load_chip("tpuv4i").compute
    macs = compute.ices * compute.mac_rows * compute.mac_cols * compute.mac_depth
    assert 2 * macs * compute.clock_Hz == pytest.approx(138e12, rel=0.01)


def test_an_h100_has_its_published_rate_and_holds_the_largest_decoder():
    chip = load_chip("h100")
    macs = chip.compute.ices * chip.compute.mac_rows * chip.compute.mac_cols * chip.compute.mac_depth
    assert 2 * macs * chip.compute.clock_Hz == pytest.approx(1979e12, rel=0.01)
    problem = NnpiProblem(load("llama3_70b:decode=1:length=8192"), chip)
    # A step reads 70 GB of weights at 3.35 TB/s.
    assert 0.020 < problem.baseline.cost < 0.030


@pytest.mark.parametrize("chip", [*map(load_chip, chip_names()), eight()], ids=lambda chip: chip.name)
def test_the_template_has_the_chips_values_under_another_name_and_a_comment_on_each(chip):
    text = template(chip, "mine")
    assert parse_chip(text, "mine.toml") == replace(chip, name="mine")
    values = [line for line in text.splitlines() if " = " in line and not line.startswith("#")]
    bare = ("kind", "version", 'name = "')
    assert all("  # " in line or line.startswith(bare) for line in values)


@pytest.mark.parametrize("chip", [*map(load_chip, chip_names()), eight()], ids=lambda chip: chip.name)
@pytest.mark.parametrize("workload", ["alexnet", "bert"])
def test_on_every_chip_the_compiler_uses_what_is_fast_and_random_maps_are_made_valid(chip, workload):
    problem = NnpiProblem(load(workload), chip)
    levels = len(chip.memories)
    assert problem.judge(problem.baseline.mapping) == []
    assert (problem.baseline.mapping > 0).any()
    rng = np.random.default_rng(0)
    mapping = rng.integers(0, levels, (16, *problem.space.shape)).astype(np.int16)
    found = problem.evaluate(mapping, np.zeros(16, np.uint64))
    assert (found.speedup > 0).all()
    for row in found.repaired[:4]:
        assert problem.judge(row) == []
    three = NnpiProblem(load(workload), load_chip("nnpi"))
    assert problem.observation.x.shape == three.observation.x.shape
