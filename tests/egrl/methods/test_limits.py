"""Methods that would need too much room say so in one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from egrl.core import registry
from egrl.methods import find_method
from hwsim.problem import Observation
from hwsim.space import Space
from subjects import PROBLEMS
from toys.wide import ToyWide


def test_a_probability_a_choice_is_too_much_for_many_nodes_and_one_with_many_choices():
    assert registry.needs_probabilities(ToyWide()) == (
        "it keeps one probability per choice, and 20000 nodes x 1 heads x 800 choices are more than 2097152"
    )


@dataclass(frozen=True)
class _Star:
    """A problem of which one node is joined with all others."""

    observation: Observation
    space: Any


@pytest.mark.parametrize("name", ["ea", "egrl", "pg", "es", "ppo"])
def test_a_network_is_not_built_on_a_node_with_too_many_neighbours(name):
    ends = np.arange(1, 12_000)
    edges = np.stack([np.zeros_like(ends), ends])
    space = space_of(12_000)
    found = find_method(name).serves(_Star(Observation(np.zeros((12_000, 2), np.float32), edges), space))
    assert found is not None
    assert "neighbours of neighbours, and 143988000 such pairs" in found


def space_of(nodes: int) -> Any:
    """A space of nodes with two choices."""
    return Space([str(n) for n in range(nodes)], ["h"], np.full((nodes, 1), 2, np.int16))


def test_what_is_small_is_served():
    assert find_method("ea").serves(PROBLEMS["mcm"]()) is None
    assert registry.needs_probabilities(PROBLEMS["toy-ragged"]()) is None
