"""Explanations add up to the latency that they explain."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.nnpi.chip import Waiting, load_chip
from hwsim.nnpi.problem import NnpiProblem
from strategies import chips, mappings, workloads
from workloads.load import load
from workloads.workload import Gemm, Op, Workload


@pytest.mark.slow
@pytest.mark.exhaustive
@given(st.data())
def test_durations_sum_to_the_latency_and_totals_to_their_parts(data: st.DataObject):
    workload, drawn = data.draw(workloads()), data.draw(chips())
    chip = replace(drawn, effects=replace(drawn.effects, noise=False))
    problem = NnpiProblem(workload, chip)
    mapping = data.draw(mappings(len(workload), len(chip.memories), 1))
    result = problem.evaluate(mapping, np.zeros(1, np.uint64))
    explained = problem.explain(mapping[0])
    assert explained.latency_s == result.cost[0]
    assert sum(op.duration_s for op in explained.ops) == pytest.approx(result.cost[0], rel=1e-12)
    assert sum(explained.seconds_bound_by.values()) == pytest.approx(result.cost[0], rel=1e-12)
    starts = [op.start_s for op in explained.ops]
    assert starts == list(accumulate((op.duration_s for op in explained.ops[:-1]), initial=0.0))
    for memory in chip.memory_names:
        assert explained.traffic_bytes[memory] == sum(op.traffic_bytes[memory] for op in explained.ops)
    assert explained.prefetched_bytes <= sum(op.fetched_bytes for op in explained.ops)
    for i, op in enumerate(explained.ops):
        for name, choice in zip((op.weight, op.activation), result.repaired[0, i], strict=True):
            assert name == (chip.memory_names[choice] if choice >= 0 else None)


@pytest.mark.slow
@given(st.data())
def test_no_memory_moves_more_than_its_bandwidth_allows_and_the_named_bound_is_the_one_that_is_met(data):
    workload, drawn = data.draw(workloads()), data.draw(chips())
    chip = replace(drawn, effects=replace(drawn.effects, noise=False))
    problem = NnpiProblem(workload, chip)
    mapping = data.draw(mappings(len(workload), len(chip.memories), 1))[0]
    launch_s = problem.tables.launch_s
    plain = drawn.waiting == Waiting() and not any(memory.access_s for memory in drawn.memories)
    for op in problem.explain(mapping).ops:
        work_s = op.duration_s - launch_s
        seconds = {m.name: op.traffic_bytes[m.name] / m.bandwidth_Bps for m in chip.memories}
        # Traffic with a factor is told in whole bytes.
        slack_s = 0.5 / chip.memories[0].bandwidth_Bps if chip.factors.traffic else 0.0
        assert max(seconds.values()) <= work_s + 1e-12 + slack_s
        if op.bound_by in seconds and not plain:
            assert seconds[op.bound_by] <= work_s + 1e-12 + slack_s
        elif op.bound_by in seconds:
            assert seconds[op.bound_by] == pytest.approx(work_s, rel=1e-6, abs=1e-12 + slack_s)
        fetched_s = (op.fetched_bytes + op.traffic_bytes[chip.memory_names[0]]) / chip.memories[
            0
        ].bandwidth_Bps
        assert fetched_s <= op.duration_s + 1e-12 + slack_s


def test_ops_are_bound_by_what_takes_them_longest():
    chip = load_chip("nnpi")
    common = {"kind": "conv", "inputs": (), "ifm": (1, 1, 1), "ofm": (1, 1, 1), "output_bytes": 1}
    ops = (
        Op(name="mac", gemm=Gemm(1, 10_000, 10_000, 100), **common),
        Op(name="dsp", vector_ops=10**9, **common),
        Op(name="measured", latency_s=1.0, **common),
        Op(name="dram", **{**common, "output_bytes": 10**7}),
        Op(name="overhead", **common),
    )
    explained = NnpiProblem(Workload("w", ops), chip).explain(np.array([[0, 0]] * 5, np.int16))
    assert [op.bound_by for op in explained.ops] == [op.name for op in ops]


def test_prefetched_weights_of_resnet50_show_up_in_its_explanation():
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"))
    mapping = np.where(problem.space.live, np.array([0, 2], np.int16), np.int16(-1))
    explained = problem.explain(mapping)
    assert explained.prefetched_bytes > 1_000_000
    assert explained.seconds_bound_by["mac"] > 0
