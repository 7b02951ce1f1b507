"""Colour refinement against a plain one by sets of tuples."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workloads.colour_refinement import first_colours, hashes, refine


def same_partition(first: np.ndarray, second: np.ndarray) -> bool:
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    return len(pairs) == len(set(first.tolist())) == len(set(second.tolist()))


@given(st.data(), st.integers(1, 12), st.integers(0, 30))
def test_a_step_tells_apart_what_a_plain_one_does(data, nodes, edges):
    own = np.array(data.draw(st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes)))
    ends = data.draw(
        st.lists(
            st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1), st.sampled_from((1.0, -2.5))),
            min_size=edges,
            max_size=edges,
        )
    )
    ends.sort()
    source = np.array([end[0] for end in ends], np.int64)
    met = own[np.array([end[1] for end in ends], np.int64)]
    along = np.array([end[2] for end in ends])
    starts = np.searchsorted(source, np.arange(nodes + 1))
    plain: dict[tuple, int] = {}
    expected = np.zeros(nodes, np.int64)
    for node in range(nodes):
        here = slice(starts[node], starts[node + 1])
        key = (own[node], tuple(sorted(Counter(zip(met[here], along[here], strict=True)).items())))
        expected[node] = plain.setdefault(key, len(plain))
    assert same_partition(refine(own, met, starts, hashes(along)), expected)


def test_colours_begin_with_all_numbers_and_zero_has_one_sign():
    first = first_colours([1.0, 1.0, 2.0, 1.0], [0.0, -0.0, 0.0, np.inf])
    assert same_partition(first, np.array([0, 0, 1, 2]))


def test_the_ends_of_a_path_are_told_apart_step_by_step():
    nodes = 9
    source = np.concatenate([np.arange(nodes - 1), np.arange(1, nodes)])
    target = np.concatenate([np.arange(1, nodes), np.arange(nodes - 1)])
    order = np.argsort(source, kind="stable")
    starts = np.searchsorted(source[order], np.arange(nodes + 1))
    colour = np.zeros(nodes, np.int64)
    for depth in range(4):
        colour = refine(colour, colour[target[order]], starts)
        from_end = np.minimum(np.arange(nodes), np.arange(nodes)[::-1])
        assert same_partition(colour, np.minimum(from_end, depth + 1))
