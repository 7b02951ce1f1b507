"""The kernels give what the plain twin gives, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nnpi_twin import Twin

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from strategies import chips, mappings, workloads
from workloads.load import load


def assert_equals_twin(problem: NnpiProblem, twin: Twin, batch, keys) -> None:
    result = problem.evaluate(batch, keys)
    for b, mapping in enumerate(batch):
        rectified, epsilon = twin.rectify(twin.canonical(mapping.tolist()))
        assert result.repaired[b].tolist() == rectified
        assert result.epsilon[b] == epsilon
        assert result.cost[b] == twin.latency(rectified, int(keys[b]))
        profile = np.array(twin.profile(rectified, int(keys[b]), problem.config.profile_noise), np.float32)
        np.testing.assert_array_equal(result.parts[b], profile)


@pytest.mark.slow
@given(st.data())
def test_evaluate_equals_the_plain_twin_to_the_last_bit_on_any_workload_chip_and_effects(data: st.DataObject):
    workload, chip = data.draw(workloads()), data.draw(chips())
    batch = data.draw(mappings(len(workload), len(chip.memories)))
    keys = np.array(data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3)), np.uint64)
    spread = data.draw(st.sampled_from([0.0, 0.05, 0.2]))
    problem = NnpiProblem(workload, chip, NnpiConfig(baseline="execution-order", profile_noise=spread))
    assert_equals_twin(problem, Twin(workload, chip), batch, keys)


@pytest.mark.parametrize(("name", "rows"), [("resnet50", 6), ("resnet101", 3), ("mobilenet_v2", 3)])
def test_evaluate_equals_the_plain_twin_on_networks_of_the_zoo(name: str, rows: int):
    workload, chip = load(name), load_chip("nnpi")
    problem = NnpiProblem(workload, chip)
    rng = np.random.default_rng(7)
    batch = rng.integers(0, 3, (rows, len(workload), 2)).astype(np.int16)
    batch[-1] = np.maximum(problem.baseline.mapping, 0)
    batch[0] = 0
    assert_equals_twin(problem, Twin(workload, chip), batch, np.arange(rows, dtype=np.uint64))


def test_baseline_of_bert_costs_what_the_plain_twin_says():
    workload, chip = load("bert"), load_chip("nnpi")
    problem, twin = NnpiProblem(workload, chip), Twin(load("bert"), chip)
    result = problem.evaluate(np.maximum(problem.baseline.mapping, 0)[None], np.zeros(1, np.uint64))
    assert result.cost[0] == twin.latency(problem.baseline.mapping.tolist())
    assert result.cost[0] == problem.baseline.cost
