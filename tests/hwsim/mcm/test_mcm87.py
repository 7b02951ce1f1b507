"""The 87 graphs on the package mcm36: baselines under both models, partitions, and what their table states."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from commands import module_of

from gate import gate
from hwsim.mcm.problem import McmProblem
from workloads.zoo.mcm87 import MCM87

ROOT = Path(__file__).resolve().parents[3]
KEYS = 8
each = pytest.mark.parametrize("name", gate(MCM87, tuple(MCM87)[::6]))


@cache
def tool() -> ModuleType:
    return module_of(ROOT / "tools" / "mcm87_table.py")


@cache
def problems(name: str) -> tuple[McmProblem, McmProblem]:
    return tool().problems(name)


@cache
def rows() -> dict[str, list[str]]:
    with tool().TABLE.open(encoding="utf-8", newline="") as file:
        head, *cells = csv.reader(file)
    assert tuple(head) == tool().HEAD
    return {row[0].strip("`"): row for row in cells}


def test_the_table_has_a_row_for_each_of_the_87_in_their_order():
    assert len(MCM87) == 87
    assert list(rows()) == list(MCM87)


@pytest.mark.slow
@each
def test_the_table_states_what_is_built(name):
    """`python tools/mcm87_table.py` writes it anew."""
    stated = tool().stated(name)
    assert rows()[name][: len(stated)] == stated
    analytical, _ = problems(name)
    assert rows()[name][len(stated)] == str(int(analytical.baseline.mapping.max()) + 1)


@pytest.mark.slow
@each
def test_every_graph_has_a_baseline_that_keeps_the_rules_and_runs_on_the_device(name):
    for problem in problems(name):
        assert problem.judge(problem.baseline.mapping) == []
        assert 0 < problem.baseline.cost < float("inf")


@pytest.mark.slow
@each
def test_uniform_probabilities_give_every_graph_partitions(name):
    found, _ = tool().sampled(*problems(name), KEYS)
    assert found == KEYS


@each
def test_no_node_is_copied_on_the_package(name):
    assert not problems(name)[0].network.copy.any()
