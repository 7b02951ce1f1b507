"""What is done with a network on `nnpi` grows with its ops to the power of 1.2 at most: lines that run, and memory.

`benchmarks/scale.py` measures whole commands. Here lines of Python are counted, which is the same on every machine;
what numpy does in one line is seen by the memory that it takes.
"""

from __future__ import annotations

import gc
import math
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from hwsim.allocation.buffers import Buffer
from hwsim.allocation.judge import judge as judge_allocation
from hwsim.allocation.pack import pack
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.exact.solve import tabulate, trivial_bound
from hwsim.nnpi.placer import RULES, compile_map
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load
from workloads.serialize import from_json, to_json
from workloads.workload import Workload

MOST = 1.2
LAYERS = (20, 100)
SMALL = "hidden=64:heads=4:kv_heads=2:intermediate=128:vocabulary=100:length=4"

Done = Callable[[], object]


def network(layers: int) -> Workload:
    return load(f"llama3_8b:layers={layers}:{SMALL}")


def lines(work: Done) -> int:
    """Lines of Python that run, each turn of a loop counted."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def memory(work: Done) -> int:
    """Bytes that are held at most; the least of three times, since other threads may allocate meanwhile."""
    peaks = []
    for _ in range(3):
        gc.collect()
        tracemalloc.start()
        try:
            work()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)


def exponent(count: Callable[[Done], int], work: Callable[[Workload], Done]) -> float:
    """Of growth between the two sizes; what is made ready is not counted, nor what only the first time costs."""
    small, large = (work(network(layers)) for layers in LAYERS)
    small()
    return math.log(count(large) / count(small)) / math.log(LAYERS[1] / LAYERS[0])


def of_problem(done: Callable[[NnpiProblem], object]) -> Callable[[Workload], Done]:
    def work(net: Workload) -> Done:
        problem = NnpiProblem(net, load_chip("nnpi"))
        return lambda: done(problem)

    return work


def packing(net: Workload) -> Done:
    problem = NnpiProblem(net, load_chip("nnpi"))
    lives = [life for life in problem.lifetimes(problem.space.initial) if life.head == "activation"]
    buffers = [Buffer(life.node, life.size_bytes, life.first, life.last + 1) for life in lives]
    plain = [(b.name, b.size_bytes, b.first, b.end) for b in buffers]
    return lambda: judge_allocation(plain, pack(buffers, 1 << 40).offsets, 1 << 40, 64)


def from_text(net: Workload) -> Done:
    text = to_json(net)
    return lambda: from_json(text, "net.json")


WORK: dict[str, Callable[[Workload], Done]] = {
    "read": from_text,
    "write": lambda net: lambda: to_json(net),
    "problem": lambda net: lambda: NnpiProblem(net, load_chip("nnpi")),
    "judge": of_problem(lambda problem: problem.judge(problem.baseline.mapping)),
    "evaluate": of_problem(
        lambda problem: problem.evaluate(problem.space.initial[None], np.zeros(1, np.uint64))
    ),
    "explain": of_problem(lambda problem: problem.explain(problem.baseline.mapping)),
    "occupancy": of_problem(lambda problem: problem.occupancy(problem.baseline.mapping)),
    "rules": of_problem(lambda problem: [compile_map(problem.tables, rule) for rule in RULES.values()]),
    "bound": of_problem(lambda problem: trivial_bound(problem.tables)),
    "tabulate": of_problem(lambda problem: tabulate(problem.tables, 1, max_placements=100)),
    "allocate": packing,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_lines_that_run_grow_with_the_ops(name):
    assert exponent(lines, WORK[name]) <= MOST


IN_THE_GATE = ("evaluate",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in IN_THE_GATE else [pytest.mark.exhaustive]) for name in WORK],
)
def test_memory_grows_with_the_ops(name):
    assert exponent(memory, WORK[name]) <= MOST


@pytest.mark.exhaustive
def test_lines_that_are_quadratic_are_seen():
    assert exponent(lines, lambda net: lambda: [(one, other) for one in net for other in net]) > 1.5


@pytest.mark.exhaustive
def test_memory_that_is_quadratic_is_seen():
    assert exponent(memory, lambda net: lambda: np.zeros((len(net), len(net)))) > 1.5
