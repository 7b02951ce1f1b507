"""Mappings by names and as arrays: one leads to the other and back, for every problem."""

from __future__ import annotations

import numpy as np
import pytest

import egrl
from hwsim.mappings import sample_uniformly
from subjects import PROBLEMS
from workloads.errors import InputError


@pytest.mark.parametrize("name", PROBLEMS)
def test_names_lead_back_to_the_array_in_any_order(name):
    problem = PROBLEMS[name]()
    drawn = sample_uniformly(problem, np.arange(3, dtype=np.uint64))
    for mapping in (problem.space.initial, *drawn):
        mapping = problem.evaluate(mapping[None], np.zeros(1, np.uint64)).repaired[0]
        names = egrl.names_of(problem, mapping)
        assert [row["node"] for row in names] == list(problem.space.nodes)
        assert np.array_equal(egrl.mapping_of(problem, names[::-1]), mapping)


def test_names_that_are_wrong_are_refused_in_one_line():
    problem = PROBLEMS["nnpi"]()
    names = egrl.names_of(problem, problem.space.initial)
    for wrong, says in (
        (names[1:], "expected one of dram, llc, sram for every weight and activation, found none"),
        ([*names, names[0]], "expected each tensor once"),
        ([{**names[0], "weight": "flash"}, *names[1:]], "expected one of dram, llc, sram, found 'flash'"),
        ([{**names[0], "node": "conv"}, *names[1:]], "expected a node of alexnet, found 'conv'"),
    ):
        with pytest.raises(InputError, match=says) as caught:
            egrl.mapping_of(problem, wrong)
        assert str(caught.value).startswith("names")
