"""Methods that need no probabilities need no room for them: one node with 800 choices among 20,000 with 3."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from toys.wide import MOST, NODES, ToyWide


@pytest.mark.parametrize("name", ["random", "annealing", "greedy-dp"])
def test_a_method_takes_room_for_mappings_and_not_for_all_choices(name):
    problem = ToyWide()
    definition = find_method(name)
    context = Context([problem], Archive([problem]), 0, [problem.space.initial])
    method = definition.build(context, definition.config())
    tracemalloc.start()
    try:
        for number in range(6):
            batch = method.ask()
            assert batch is not None
            method.tell(batch, problem.evaluate(batch.mapping, np.full(len(batch), number, np.uint64)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < NODES * MOST * 4 / 2  # half of what float32 probabilities of one mapping would take
