"""What a ranking policy sees of a profile: as a loop over tensors has it, without units, and nothing without one."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.latency import profiles
from hwsim.nnpi.place_features import FLOOR, log_ratio
from hwsim.nnpi.placer import DEFAULT_RULE, RULES, NnpiPlacer, compile_map
from hwsim.nnpi.profile_features import PROFILE_NAMES, profile_features
from hwsim.nnpi.tables import WEIGHT, build_tables
from workloads.load import load


@pytest.fixture(scope="module", params=["resnet18", "gru_lm"])
def case(request):
    """Tables, their placer, a mapping, and what its ops took on a chip of half the bandwidth."""
    tables = build_tables(load(request.param), load_chip("nnpi"))
    mapping = compile_map(tables, RULES[DEFAULT_RULE])
    slow = tables.bandwidth_Bps / 2
    board = tables._replace(bandwidth_Bps=slow, inverse_bandwidth=1 / slow)
    _, took = profiles(board, mapping[None], np.zeros(1), 0.05, np.zeros(1, np.uint64))
    return tables, NnpiPlacer(tables), mapping, took[0]


def columns(tables, placer, mapping, took):
    return dict(zip(PROFILE_NAMES, np.moveaxis(placer.of_profile(mapping, took), 2, 0), strict=True))


def readers(tables, op):
    """(reader, bytes) of each edge from an op."""
    of = np.repeat(np.arange(len(tables.weight_bytes)), np.diff(tables.edge_start))
    return [(int(of[e]), int(tables.edge_bytes[e])) for e in np.flatnonzero(tables.edge_source == op)]


def roofline(tables, mapping, op):
    """Seconds of an op, all of whose tensors lie where the mapping says, and nothing is fetched ahead."""
    traffic = [0.0] * len(tables.capacity_bytes)
    weight, home = mapping[op].tolist()
    if weight >= 0:
        traffic[weight] += int(tables.weight_read_bytes[op])
    if home >= 0:
        traffic[home] += int(tables.written_bytes[op])
    for edge in range(tables.edge_start[op], tables.edge_start[op + 1]):
        source = mapping[tables.edge_source[edge], 1]
        if source >= 0:
            traffic[source] += int(tables.edge_bytes[edge])
    traffic[0] += int(tables.external_bytes[op])
    moving = max(b / bandwidth for b, bandwidth in zip(traffic, tables.bandwidth_Bps, strict=True))
    return tables.launch_s + max(tables.compute_s[op], moving)


def test_each_number_is_what_it_says(case):
    tables, placer, mapping, took = case
    found, mean = columns(*case), float(took.mean(dtype=np.float64))
    compute = tables.compute_s + tables.launch_s

    def stall_saved(op, moved, level):
        per_byte = 1 / tables.bandwidth_Bps[0] - 1 / tables.bandwidth_Bps[level]
        return min(moved * per_byte, max(float(took[op]) - compute[op], 0.0))

    for t, (op, head) in enumerate(zip(placer.node.tolist(), placer.head.tolist(), strict=True)):
        weight = head == WEIGHT
        after = [] if weight else readers(tables, op)
        for level in range(1, len(tables.capacity_bytes)):
            moved = tables.weight_read_bytes[op] if weight else tables.written_bytes[op]
            saved = stall_saved(op, int(moved), level) + sum(stall_saved(r, b, level) for r, b in after)
            expected = {
                "profiled": 1.0,
                "was_here": float(mapping[op, head] == level),
                "measured_of_expected": log_ratio(took[op] / roofline(tables, mapping, op)),
                "measured_of_compute": log_ratio(took[op] / compute[op]),
                "measured_of_mean": log_ratio(took[op] / mean + FLOOR),
                "readers_of_compute": max((log_ratio(took[r] / compute[r]) for r, _ in after), default=0),
                "readers_of_expected": max(
                    (log_ratio(took[r] / roofline(tables, mapping, r)) for r, _ in after), default=0
                ),
                "stall_saved": log_ratio(saved / mean + FLOOR),
            }
            for name, value in expected.items():
                assert found[name][t, level] == pytest.approx(float(value), abs=1e-5), (name, op, level)
    assert not np.any([column[:, 0] for column in found.values()])


def test_what_nobody_measured_is_not_seen(case):
    _, placer, mapping, took = case
    assert not placer.of_profile(mapping, np.full_like(took, np.nan)).any()
    part = took.copy()
    part[placer.node[0]] = np.nan
    found = placer.of_profile(mapping, part)
    assert not found[placer.node == placer.node[0]].any()
    assert found[placer.node != placer.node[0], 1:, 0].all()
    assert np.isfinite(found).all()


def test_a_board_that_is_faster_in_all_respects_looks_the_same(case):
    tables, placer, mapping, took = case
    times = 8.0
    faster = tables._replace(
        compute_s=tables.compute_s / times,
        launch_s=tables.launch_s / times,
        bandwidth_Bps=tables.bandwidth_Bps * times,
    )
    own = profile_features(faster, placer.tensors, mapping, took / np.float32(times))
    np.testing.assert_allclose(own, placer.of_profile(mapping, took), atol=1e-5)
