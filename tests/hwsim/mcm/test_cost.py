"""What partitions cost by the analytical model and on the device, by twins and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from mcm_cost_twin import busy as twin_busy
from mcm_cost_twin import device_times, tensors_of
from mcm_instances import MIB, drawn, instance, package

from hwsim.mcm.cost import busy, costs
from hwsim.mcm.device import device_tables, run
from hwsim.mcm.judge import judge, judge_device, peaks, stages
from hwsim.mcm.network import network
from hwsim.mcm.rules import misplaced_nodes
from workloads.errors import InputError

LOADS = ("compute", "compute+transfers")


def places(seed: int, rows: int, nodes: int, chips: int) -> np.ndarray:
    """Half of them in the order of the chips."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, chips, (rows, nodes)).astype(np.int16)
    found[::2] = np.sort(found[::2], axis=1)
    return found


@pytest.mark.parametrize("load", LOADS)
def test_the_kernels_equal_their_twins(load):
    for seed in range(8):
        given = package(load, chips=2 + seed % 4)
        net = drawn(seed, 4 + 2 * seed, given)
        t, d = net.tables, device_tables(net, given)
        rows = places(seed, 8, len(net.graph), given.chips)
        price, ran = costs(t, rows), run(d, rows)
        memory = [(source, size, readers) for source, size, _, readers in tensors_of(t)]
        for b, place in enumerate(rows.tolist()):
            chip_s, link_s = twin_busy(t, place)
            assert busy(t, rows[b])[0].tolist() == chip_s
            assert busy(t, rows[b])[1].tolist() == link_s
            assert price[b] == (max(chip_s) if t.transfers else max(chip_s + link_s))
            assert [ran.chip_s[b].tolist(), ran.link_s[b].tolist()] == [
                list(p) for p in device_times(d, place)
            ]
            held = peaks(t.chips, t.weight_bytes.tolist(), net.made_bytes.tolist(), memory, place)
            assert ran.peak_bytes[b].tolist() == held
            assert ran.stages[b] == 1 + max(stages(memory, place))
        assert (ran.cost_s >= price * (1 - 1e-12)).all()


def test_rules_are_broken_for_the_kernel_where_they_are_for_the_judge():
    kinds = set()
    for seed in range(12):
        given = package(chips=4, triangle=bool(seed % 2), no_skip=seed % 3 > 0, sram_bytes=16 * MIB)
        t = drawn(seed, 8, given).tables
        rules = given.constraints
        rows = places(seed, 40, 8, 4)
        for place, wrong in zip(rows.tolist(), misplaced_nodes(t, rows), strict=True):
            edges = [(u, v) for u, v in t.edges.tolist()]
            on = (rules.acyclic, rules.no_skip, rules.triangle, rules.memory)
            found = judge(4, 16 * MIB, edges, t.weight_bytes.tolist(), place, *on)
            assert wrong.any() == bool(found)
            kinds |= {violation.what for violation in found} | ({"valid"} if not found else set())
    assert kinds == {"acyclic", "no skipping", "triangle", "memory", "valid"}


def test_a_chain_costs_its_busiest_chip_or_link():
    chain = instance([2.0, 3.0, 4.0], [(0, 1), (1, 2)], [6.0, 1.0, 0.0])
    rows = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 2, 2]], np.int16)
    assert costs(network(chain, package("compute")).tables, rows).tolist() == [9.0, 5.0, 6.0, 7.0]
    assert costs(network(chain, package("compute+transfers")).tables, rows).tolist() == [9.0, 6.0, 10.0, 13.0]


def test_a_tensor_counts_once_a_chip_and_once_a_link():
    fan = instance([1.0] * 4, [(0, 1), (0, 2), (0, 3)], [2.0, 0.0, 0.0, 0.0])
    place = np.array([0, 1, 1, 2], np.int16)
    chip_s, link_s = busy(network(fan, package("compute+transfers")).tables, place)
    assert chip_s.tolist() == [3.0, 4.0, 3.0]
    assert link_s.tolist() == [2.0, 2.0, 0.0]
    given = package()
    assert run(device_tables(network(fan, given), given), place[None]).link_s.tolist() == [[4.0, 2.0, 0.0]]


def test_a_tensor_that_waits_for_a_later_stage_is_held_once_a_stage():
    skip = instance([1.0] * 3, [(0, 1), (0, 2), (1, 2)], [1.0, 1.0, 0.0], size=[0, 0, 0])
    given = package(triangle=False)
    net = network(skip, given)
    ran = run(device_tables(net, given), np.array([[0, 1, 2], [0, 1, 0]], np.int16))
    # chip 1 holds two of n0 and sends one of n1 beside the one that it makes; chip 2 three of n0 and two of n1
    assert (ran.peak_bytes[0] / MIB).tolist() == [2.0, 4.0, 5.0]
    # chip 0 keeps n0 for two stages, sends and makes one, and receives two of n1
    assert (ran.peak_bytes[1] / MIB).tolist() == [6.0, 4.0, 0.0]
    assert ran.stages.tolist() == [3, 3]


def test_a_chip_runs_first_what_frees_most():
    # n0 is large until n3 has read it; running n3 first leaves room for n1 and n2
    graph = instance([1.0] * 4, [(0, 1), (0, 3), (1, 2), (3, 2)], [4.0, 3.0, 0.0, 1.0], size=[0] * 4)
    given = package()
    net = network(graph, given)
    ran = run(device_tables(net, given), np.zeros((1, 4), np.int16))
    assert ran.peak_bytes[0, 0] == 8 * MIB
    assert not judge_device(
        3,
        8 * MIB,
        [0] * 4,
        net.made_bytes.tolist(),
        [(s, size, r) for s, size, _, r in tensors_of(net.tables)],
        [0] * 4,
    )


def test_nodes_of_one_group_are_one_node_and_what_they_send_counts_each():
    graph = instance([1.0, 2.0, 4.0], [(0, 2), (1, 2)], [1.0, 2.0, 0.0], group=[0, 0, 1])
    t = network(graph, package("compute+transfers")).tables
    assert len(t.compute_s) == 2
    assert costs(t, np.array([[0, 1]], np.int16)).tolist() == [7.0]


def test_a_cycle_is_refused_by_name():
    loop = instance([1.0] * 3, [(0, 1), (1, 2), (2, 1)], [1.0] * 3)
    with pytest.raises(
        InputError, match=r"small: edges: expected no cycle, found one among 2 nodes, 'n1' and 'n2'"
    ):
        network(loop, package())


def test_no_work_at_all_is_refused():
    with pytest.raises(InputError, match="expected nodes that take time"):
        network(instance([0.0, 0.0], [(0, 1)], [0.0, 0.0]), package())
