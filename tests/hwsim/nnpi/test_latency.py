"""The latency model: hand-computed cases and what must hold for any workload and chip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.nnpi.chip import Chip, Effects, Memory, Waiting, load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.nnpi.tables import dsp_seconds, mac_seconds
from strategies import chips, mappings, workloads
from workloads.workload import Edge, Gemm, Op, Workload

ROOFLINE = Effects(False, False, False, False, False, False)
KIB = 1024


def chip(effects: Effects, *, sram_bytes: int = 2**20, llc_bytes: int = 2**20) -> Chip:
    """1 kB/s DRAM, 10 kB/s LLC, 100 kB/s SRAM: latencies in seconds that can be done in the head."""
    base = load_chip("nnpi")
    memories = (Memory("dram", 2**40, 1e3), Memory("llc", llc_bytes, 1e4), Memory("sram", sram_bytes, 1e5))
    return replace(base, memories=memories, effects=effects, overhead=replace(base.overhead, launch_s=0.5))


def op(name: str, *inputs: Edge, **fields) -> Op:
    given = {"kind": "conv", "output_bytes": 0, "vector_ops": 1, **fields}
    given.setdefault("weight_read_bytes", given.get("weight_bytes", 0))
    return Op(name=name, inputs=inputs, ifm=(1, 1, 1), ofm=(1, 1, 1), **given)


def cost(workload: Workload, on: Chip, rows: list[list[int]]) -> float:
    problem = NnpiProblem(workload, on)
    result = problem.evaluate(np.array([rows], np.int16), np.zeros(1, np.uint64))
    assert result.epsilon[0] == 0
    return float(result.cost[0])


def test_an_op_takes_the_time_of_its_busiest_memory():
    workload = Workload("w", (op("a", output_bytes=1000), op("b", Edge("a", 1000), weight_bytes=500)))
    on = chip(ROOFLINE)
    assert cost(workload, on, [[0, 0], [0, 0]]) == pytest.approx(1.0 + 1.5)
    assert cost(workload, on, [[0, 1], [0, 0]]) == pytest.approx(0.1 + 0.5)
    assert cost(workload, on, [[0, 1], [2, 0]]) == pytest.approx(0.1 + 0.1)


def test_launch_overhead_is_paid_by_every_op():
    workload = Workload("w", (op("a", output_bytes=1000), op("b", output_bytes=1000)))
    assert cost(workload, chip(replace(ROOFLINE, overhead=True)), [[0, 0], [0, 0]]) == pytest.approx(
        2 + 2 * 0.5
    )


def test_traffic_of_the_slowest_memory_also_crosses_the_llc():
    workload = Workload("w", (op("a", output_bytes=1000, weight_bytes=9500),))
    assert cost(workload, chip(ROOFLINE), [[1, 0]]) == pytest.approx(1.0)
    assert cost(workload, chip(replace(ROOFLINE, cross=True)), [[1, 0]]) == pytest.approx(1.05)


def test_input_and_result_of_the_network_go_through_the_slowest_memory():
    workload = Workload("w", (op("a", output_bytes=1000, external_bytes=2000, is_output=True),))
    assert cost(workload, chip(ROOFLINE), [[0, 2]]) == pytest.approx(0.01)
    assert cost(workload, chip(replace(ROOFLINE, moves=True)), [[0, 2]]) == pytest.approx(3.0)
    assert cost(workload, chip(replace(ROOFLINE, moves=True)), [[0, 0]]) == pytest.approx(3.0)


def test_a_concat_moves_only_the_inputs_that_lie_elsewhere():
    ops = (
        op("a", output_bytes=1000),
        op("b", output_bytes=3000),
        op("c", Edge("a", 1000), Edge("b", 3000), kind="concat", output_bytes=4000),
    )
    workload = Workload("w", ops)
    writes = 1.0 + 0.03
    assert cost(workload, chip(ROOFLINE), [[0, 0], [0, 2], [0, 0]]) == pytest.approx(writes + 1.0 + 4.0)
    moving = chip(replace(ROOFLINE, moves=True))
    assert cost(workload, moving, [[0, 0], [0, 2], [0, 0]]) == pytest.approx(writes + 3.0)
    assert cost(workload, moving, [[0, 0], [0, 0], [0, 0]]) == pytest.approx(1.0 + 3.0)


def test_weights_are_fetched_ahead_while_earlier_ops_leave_dram_idle():
    workload = Workload("w", (op("a", latency_s=2.0), op("b", weight_bytes=3000)))
    off, on = chip(ROOFLINE), chip(replace(ROOFLINE, prefetch=True))
    assert cost(workload, off, [[0, 0], [0, 0]]) == pytest.approx(2.0 + 3.0)
    assert cost(workload, on, [[0, 0], [0, 0]]) == pytest.approx(2.0 + 1.0)


def test_prefetch_stops_where_the_llc_has_no_room_left():
    workload = Workload(
        "w", (op("a", latency_s=9.0, output_bytes=600), op("b", Edge("a", 0), weight_bytes=3000))
    )
    on = chip(replace(ROOFLINE, prefetch=True), llc_bytes=1600)
    assert cost(workload, on, [[0, 1], [0, 0]]) == pytest.approx(9.0 + 2.0)
    assert cost(workload, on, [[0, 0], [0, 0]]) == pytest.approx(9.0 + 1.4)


def test_what_was_fetched_last_is_given_up_when_activations_need_the_room():
    ops = (op("a", latency_s=9.0), op("b", output_bytes=1200, latency_s=1e-9), op("c", weight_bytes=3000))
    on = chip(replace(ROOFLINE, prefetch=True), llc_bytes=2000)
    # Of the 2000 bytes fetched during a, 800 have room during b (0.12 s); c streams the other 2200.
    assert cost(Workload("w", ops), on, [[0, 0], [0, 1], [0, 0]]) == pytest.approx(9.0 + 0.12 + 2.2)


def test_a_busy_llc_slows_prefetch_only_where_contention_counts():
    ops = (op("a", output_bytes=10_000), op("b", weight_bytes=900))
    free = chip(replace(ROOFLINE, prefetch=True))
    assert cost(Workload("w", ops), free, [[0, 1], [0, 0]]) == pytest.approx(1.0 + 0.09)
    busy = chip(replace(ROOFLINE, prefetch=True, contention=True))
    assert cost(Workload("w", ops), busy, [[0, 1], [0, 0]]) == pytest.approx(1.0 + 0.9)


def test_the_memory_that_dram_traffic_crosses_limits_prefetch_only_if_it_does_cross_it():
    ops = (op("a", output_bytes=100_000), op("b", weight_bytes=900))
    for cross, fetched in ((False, 900), (True, 0)):
        on = chip(replace(ROOFLINE, prefetch=True, contention=True, cross=cross))
        on = replace(on, prefetch=replace(on.prefetch, via="sram"))
        explained = NnpiProblem(Workload("w", ops), on).explain(np.array([[0, 2], [0, 0]], np.int16))
        assert explained.prefetched_bytes == fetched


def test_rows_gathered_from_a_table_are_not_prefetched_but_weights_read_many_times_are():
    first = op("a", latency_s=5.0)
    gather = Workload("w", (first, op("b", weight_bytes=3000, weight_read_bytes=1000)))
    on = chip(replace(ROOFLINE, prefetch=True))
    assert cost(gather, on, [[0, 0], [0, 0]]) == pytest.approx(5.0 + 1.0)
    recurrent = Workload("w", (first, op("b", weight_bytes=3000, weight_read_bytes=9000)))
    assert cost(recurrent, on, [[0, 0], [0, 0]]) == pytest.approx(5.0 + 0.9)


def test_compute_time_counts_whole_tiles_dealt_out_to_the_engines():
    compute = load_chip("nnpi").compute
    assert mac_seconds(Gemm(1, 32 * 12, 32, 4), compute) == pytest.approx(1 / compute.clock_Hz)
    assert mac_seconds(Gemm(1, 32 * 12 + 1, 32, 4), compute) == pytest.approx(2 / compute.clock_Hz)
    assert mac_seconds(Gemm(3, 1, 33, 5), compute) == pytest.approx(2 / compute.clock_Hz)
    assert dsp_seconds(12 * 64, compute) == pytest.approx(1 / compute.clock_Hz)


def test_a_measured_latency_replaces_the_computed_one():
    workload = Workload("w", (op("a", gemm=Gemm(9, 999, 999, 999), latency_s=0.25),))
    assert cost(workload, chip(ROOFLINE), [[0, 0]]) == 0.25


@pytest.mark.slow
@given(st.data())
def test_on_the_bare_roofline_all_in_a_faster_memory_is_never_slower(data: st.DataObject):
    workload, drawn = data.draw(workloads()), data.draw(chips(st.just(ROOFLINE)))
    memories = tuple(replace(m, capacity_bytes=2**30, access_s=0.0) for m in drawn.memories)
    roomy = replace(drawn, memories=memories, waiting=Waiting())
    batch = np.stack([np.full((len(workload), 2), m, np.int16) for m in range(len(roomy.memories))])
    result = NnpiProblem(workload, roomy).evaluate(batch, np.zeros(len(batch), np.uint64))
    assert (np.diff(result.cost) <= 0).all()


@pytest.mark.slow
@given(st.data())
def test_without_prefetch_more_bandwidth_never_makes_a_mapping_slower(data: st.DataObject):
    switches = st.builds(Effects, st.booleans(), st.just(False), st.just(False), st.booleans(), st.booleans())
    workload, drawn = data.draw(workloads()), data.draw(chips(switches))
    which = data.draw(st.integers(0, len(drawn.memories) - 1))
    limit = drawn.memories[which + 1].bandwidth_Bps if which + 1 < len(drawn.memories) else 1e13
    widened = list(drawn.memories)
    widened[which] = replace(widened[which], bandwidth_Bps=limit)
    batch = data.draw(mappings(len(workload), len(drawn.memories)))
    keys = np.zeros(len(batch), np.uint64)
    slow, fast = (
        NnpiProblem(workload, c).evaluate(batch, keys).cost
        for c in (drawn, replace(drawn, memories=tuple(widened)))
    )
    assert (fast <= slow).all()


@pytest.mark.slow
@given(st.data())
def test_prefetch_never_hurts_where_dram_traffic_crosses_the_memory_it_is_fetched_into(data: st.DataObject):
    workload, drawn = data.draw(workloads()), data.draw(chips())
    on = replace(
        drawn,
        prefetch=replace(drawn.prefetch, via=drawn.prefetch.into),
        effects=replace(drawn.effects, cross=True, prefetch=True, noise=False),
    )
    off = replace(on, effects=replace(on.effects, prefetch=False))
    batch = data.draw(mappings(len(workload), len(on.memories)))
    keys = np.zeros(len(batch), np.uint64)
    with_it, without = (NnpiProblem(workload, c).evaluate(batch, keys).cost for c in (on, off))
    assert (with_it <= without * (1 + 1e-12)).all()


def test_noise_repeats_with_its_key_and_averages_to_one():
    base = load_chip("nnpi")
    noisy = replace(base, effects=replace(base.effects, noise=True), noise=replace(base.noise, sigma=0.2))
    workload = Workload("w", (op("a", output_bytes=1000),))
    quiet, loud = NnpiProblem(workload, base), NnpiProblem(workload, noisy)
    rows = 20_000
    batch = np.zeros((rows, 1, 2), np.int16)
    keys = np.arange(rows, dtype=np.uint64)
    ratio = loud.evaluate(batch, keys).cost / quiet.evaluate(batch, keys).cost
    assert ratio.mean() == pytest.approx(1, abs=0.01)
    assert np.log(ratio).std() == pytest.approx(0.2, rel=0.03)
    assert np.array_equal(loud.evaluate(batch[:5], keys[:5]).cost, loud.evaluate(batch, keys).cost[:5])
    assert loud.baseline.cost == quiet.baseline.cost
