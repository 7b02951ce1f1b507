"""What a ranking policy sees has no units, and is what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.place_features import FEATURE_NAMES, _most_between, _stream, place_features
from hwsim.nnpi.tables import Tables, build_tables, tensors
from strategies import chips, workloads
from workloads.load import load


def features(tables: Tables) -> np.ndarray:
    return place_features(tables, tensors(tables))


def faster(tables: Tables, times: float) -> Tables:
    """Everything so many times as fast."""
    return tables._replace(
        mac_s=tables.mac_s / times,
        dsp_s=tables.dsp_s / times,
        compute_s=tables.compute_s / times,
        launch_s=tables.launch_s / times,
        bandwidth_Bps=tables.bandwidth_Bps * times,
        inverse_bandwidth=tables.inverse_bandwidth / times,
    )


def larger(tables: Tables, times: int) -> Tables:
    """All bytes, capacities and bandwidths so many times as large."""
    names = (
        "weight_bytes",
        "activation_bytes",
        "weight_read_bytes",
        "written_bytes",
        "external_bytes",
        "edge_bytes",
    )
    grown = {name: getattr(tables, name) * times for name in (*names, "capacity_bytes", "bandwidth_Bps")}
    return tables._replace(**grown, inverse_bandwidth=tables.inverse_bandwidth / times)


@pytest.mark.parametrize("workload", ["resnet50", "bert", "gru_lm"])
def test_features_are_the_same_on_a_chip_that_is_faster_or_larger_in_all_respects(workload):
    tables = build_tables(load(workload), load_chip("nnpi"))
    own = features(tables)
    np.testing.assert_allclose(features(faster(tables, 8.0)), own, atol=1e-5)
    np.testing.assert_allclose(features(larger(tables, 4)), own, atol=1e-5)


@pytest.mark.slow
@given(workloads(), chips())
def test_features_are_finite_and_bounded_on_any_network_and_chip(workload, chip):
    found = features(build_tables(workload, chip))
    assert found.dtype == np.float32
    assert found.shape[2] == len(FEATURE_NAMES)
    assert np.isfinite(found).all()
    assert np.abs(found).max(initial=0) <= 4


def column(found: np.ndarray, name: str, level: int) -> np.ndarray:
    return found[:, level, FEATURE_NAMES.index(name)]


def test_a_weight_that_nothing_hides_gains_by_the_roofline_and_by_relieving_the_stream():
    # Two ops of 1 s each; the first weight takes 3 s from memory 0 (1 B/s), 0.3 s from memory 1.
    chip = load_chip("nnpi")
    tables = build_tables(load("vgg16"), chip)
    found, own = features(tables), tensors(tables)
    wait = column(found, "wait", 2)
    slow = tables.weight_read_bytes / tables.bandwidth_Bps[0] > 2 * tables.compute_s
    weights = own.head == 0
    # The first fully connected layer has 103 MB of weights: far more than a buffer holds, hence it waits.
    waits = own.op[weights & (wait > wait.min() + 1e-6)]
    assert len(waits)
    assert slow[waits].all()
    gains = column(found, "gains_alone", 2)
    assert (gains[weights & slow[own.op]] == 1).all()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.data())
def test_the_most_between_two_steps_is_the_largest_of_them(values, data):
    first = data.draw(st.integers(0, len(values) - 1))
    last = data.draw(st.integers(first, len(values) - 1))
    found = _most_between(np.array(values), np.array([first]), np.array([last]))
    assert found.tolist() == [max(values[first : last + 1])]


@given(st.integers(1, 12), st.integers(0, 999), st.sampled_from([0.0, 0.5, 2.0, 1e9]))
def test_the_stream_waits_for_what_is_not_fetched_and_never_holds_more_than_the_buffer(ops, seed, buffer):
    rng = np.random.default_rng(seed)
    compute, busy, fetch, outside = (rng.exponential(size=ops) * (rng.random(ops) < 0.7) for _ in range(4))
    wait, ahead, idle = _stream(compute, busy, fetch, outside, buffer)
    fetched = 0.0
    for i in range(ops):
        have = min(fetched, fetch[i])
        quiet = max(compute[i], busy[i])
        assert wait[i] == pytest.approx(max(quiet, fetch[i] - have + outside[i]) - quiet)
        free = max(0.0, quiet + wait[i] - (fetch[i] - have) - outside[i])
        more = min(free, max(0.0, buffer - (fetched - have)), fetch[i + 1 :].sum() - (fetched - have))
        fetched = fetched - have + max(0.0, more)
        assert ahead[i] == pytest.approx(fetched, abs=1e-9)
        assert idle[i] == pytest.approx(free - max(0.0, more), abs=1e-9)
        assert ahead[i] <= max(buffer, 0.0) + 1e-9


def test_a_memory_between_two_others_sees_its_own_capacity():
    tables = build_tables(load("resnet50"), load_chip("nnpi"))
    twice = replace_capacity(tables, 1)
    before, after = features(tables), features(twice)
    np.testing.assert_allclose(column(after, "bytes", 1), column(before, "bytes", 1) - 0.25, atol=1e-6)
    np.testing.assert_array_equal(column(after, "bytes", 2), column(before, "bytes", 2))


def replace_capacity(tables: Tables, level: int) -> Tables:
    capacity = tables.capacity_bytes.copy()
    capacity[level] *= 2
    return tables._replace(capacity_bytes=capacity)


def test_an_empty_buffer_makes_every_weight_wait():
    compute = np.ones(3)
    wait, ahead, _ = _stream(compute, np.zeros(3), np.full(3, 4.0), np.zeros(3), 0.0)
    assert wait.tolist() == [3.0, 3.0, 3.0]
    assert ahead.tolist() == [0.0, 0.0, 0.0]


def test_chips_with_two_memories_are_read():
    chip = load_chip("nnpi")
    two = replace(
        chip,
        memories=(chip.memories[0], chip.memories[2]),
        prefetch=replace(chip.prefetch, into="sram", via="sram"),
    )
    assert features(build_tables(load("resnet18"), two)).shape[1] == 2
