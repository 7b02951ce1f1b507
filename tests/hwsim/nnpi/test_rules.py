"""The baseline: rules of the native compiler."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from commands import module_of
from hypothesis import given
from hypothesis import strategies as st

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.placer import DEFAULT_RULE, RULES, Rule, compile_map, tensors
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables, build_tables
from strategies import chips, workloads
from workloads.errors import InputError
from workloads.load import load
from workloads.workload import Edge, Op, Workload


@pytest.mark.slow
@given(workloads(), chips(), st.sampled_from(sorted(RULES)))
def test_every_rule_makes_a_map_that_the_judge_accepts_and_the_rectifier_leaves_alone(workload, chip, name):
    problem = NnpiProblem(workload, chip, NnpiConfig(baseline=name))
    assert problem.judge(problem.baseline.mapping) == []
    assert np.array_equal(problem.rectify(problem.baseline.mapping[None])[0], problem.baseline.mapping)


@pytest.mark.parametrize("name", ["resnet50", "bert"])
def test_every_rule_is_valid_on_networks_of_the_zoo_and_beats_leaving_everything_in_dram(name: str):
    workload, chip = load(name), load_chip("nnpi")
    for rule in RULES:
        problem = NnpiProblem(workload, chip, NnpiConfig(baseline=rule))
        assert problem.judge(problem.baseline.mapping) == []
        assert problem.evaluate(problem.space.initial[None], np.zeros(1, np.uint64)).speedup[0] < 1


def chain() -> Workload:
    sizes = [(1_000_000, 3_000_000), (2_500_000, 1_000_000), (900_000, 2_000_000)]
    ops = [
        Op(
            name=f"op{i}",
            kind="conv",
            inputs=(Edge(f"op{i - 1}", sizes[i - 1][1]),) if i else (),
            ifm=(1, 1, 1),
            ofm=(1, 1, 1),
            output_bytes=activation,
            weight_bytes=weight,
            weight_read_bytes=weight,
            vector_ops=1,
        )
        for i, (weight, activation) in enumerate(sizes)
    ]
    return Workload("chain", tuple(ops))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("execution-order", [[2, 2], [1, 1], [1, 2]]),
        ("activations-first", [[1, 2], [1, 2], [1, 2]]),
        ("weights-first", [[2, 1], [2, 1], [1, 1]]),
        ("smallest-first", [[2, 1], [1, 2], [2, 1]]),
        ("largest-first", [[2, 2], [1, 1], [1, 2]]),
        ("execution-order-small", [[2, 1], [1, 2], [2, 1]]),
    ],
)
def test_rules_take_tensors_in_their_order_each_into_the_fastest_memory_that_takes_it(rule: str, expected):
    tables = build_tables(chain(), load_chip("nnpi"))
    assert compile_map(tables, RULES[rule]).tolist() == expected


def test_density_is_bytes_moved_for_one_byte_held_during_one_step():
    found = tensors(build_tables(chain(), load_chip("nnpi")))
    rows = [tuple(int(value) for value in row) for row in zip(*astuple(found), strict=True)]
    assert rows[:2] == [(0, 0, 1_000_000, 0, 2, 1_000_000), (0, 1, 3_000_000, 0, 1, 6_000_000)]
    assert found.density[:2].tolist() == pytest.approx([1 / 3, 1.0])


def plain_map(tables: Tables, rule: Rule) -> np.ndarray:
    """The twin: a plain list of what each memory holds at each step."""
    ops, levels, found = len(tables.weight_bytes), len(tables.capacity_bytes), tensors(tables)
    live, mapping = [[0] * ops for _ in range(levels)], np.full((ops, 2), -1)
    budget = [float(capacity) for capacity in tables.capacity_bytes]
    budget[tables.into] *= 1.0 - rule.free_share
    keys = list(zip(*(key.tolist() for key in rule.order(found)), strict=True))
    for k in sorted(range(len(keys)), key=keys.__getitem__):
        size, steps = int(found.size_bytes[k]), range(found.first[k], found.last[k] + 1)
        level = levels - 1
        while level > 0 and (
            size > rule.largest_share * int(tables.capacity_bytes[level])
            or any(live[level][step] + size > budget[level] for step in steps)
        ):
            level -= 1
        for step in steps:
            live[level][step] += size
        mapping[found.op[k], found.head[k]] = level
    return mapping


@pytest.mark.slow
@given(workloads(), chips(), st.sampled_from(sorted(RULES)))
def test_the_kernel_places_as_a_plain_loop_does(workload, chip, name):
    tables = build_tables(workload, chip)
    np.testing.assert_array_equal(compile_map(tables, RULES[name]), plain_map(tables, RULES[name]))


def test_a_reserve_keeps_its_share_of_the_prefetch_memory_free_at_every_step():
    workload, chip = load("bert"), load_chip("nnpi")
    tables = build_tables(workload, chip)
    small = tables._replace(capacity_bytes=np.array([2**35, 21 * 2**20, 4 * 2**20]))
    whole, reserved = (Rule("r", "", RULES["execution-order"].order, share) for share in (0.0, 1 / 8))
    kept = compile_map(tables, reserved)
    assert rectify(small, kept[None])[1][0] == 0
    assert rectify(small, compile_map(tables, whole)[None])[1][0] > 0


@pytest.mark.exhaustive
def test_the_default_rule_has_the_best_geometric_mean_latency_over_the_zoo(capsys):
    file = Path(__file__).resolve().parents[3] / "benchmarks" / "baseline_rules.py"
    benchmark = module_of(file)
    assert benchmark.main([]) == 0
    assert capsys.readouterr().out.rstrip().endswith(f"best by geometric mean: {DEFAULT_RULE}")


def test_an_unknown_rule_is_the_users_error():
    with pytest.raises(InputError, match=r"baseline: expected one of execution-order.*, found 'first'"):
        NnpiProblem(chain(), load_chip("nnpi"), NnpiConfig(baseline="first"))
