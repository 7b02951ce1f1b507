"""Who lives where and when: the tensors behind what memories hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.capabilities import HasLifetimes
from hwsim.nnpi.problem import NnpiProblem
from strategies import chips, mappings, workloads


@pytest.mark.slow
@given(st.data())
def test_their_bytes_add_up_to_what_each_memory_holds_at_each_step(data: st.DataObject):
    workload, chip = data.draw(workloads()), data.draw(chips())
    problem = NnpiProblem(workload, chip)
    assert isinstance(problem, HasLifetimes)
    drawn = data.draw(mappings(len(workload), len(chip.memories), 1))[0]
    mapping = np.where(problem.space.live, drawn, np.int16(-1))
    held = problem.occupancy(mapping)
    assert [name for name, _ in problem.memories()] == list(held.memories)
    assert [capacity for _, capacity in problem.memories()] == held.capacity_bytes.tolist()
    summed = np.zeros_like(held.by_head)
    tensors = problem.lifetimes(mapping)
    for tensor in tensors:
        head = problem.space.heads.index(tensor.head)
        summed[tensor.first : tensor.last + 1, tensor.memory, head] += tensor.size_bytes
    assert (summed == held.by_head).all()
    assert len(tensors) == (mapping >= 0).sum()
