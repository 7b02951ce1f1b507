"""Packing buffers with lifetimes: properties on random instances, brute force on tiny ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from unittest import mock

import numpy as np
import pytest
from clocks import Ticking
from hypothesis import given
from hypothesis import strategies as st

from hwsim.allocation.branch_and_bound import sections
from hwsim.allocation.buffers import Buffer, arrays, fullest_bytes
from hwsim.allocation.judge import judge
from hwsim.allocation.pack import greedy, pack


def listed(found: list[Buffer]) -> list[tuple[str, int, int, int]]:
    return [(b.name, b.size_bytes, b.first, b.end) for b in found]


@st.composite
def instances(draw: st.DrawFn, most: int = 25, largest: int = 50) -> list[Buffer]:
    lives = draw(st.lists(st.tuples(st.integers(-3, 9), st.integers(1, 8)), max_size=most))
    sizes = st.integers(0, largest)
    return [Buffer(f"b{i}", draw(sizes), first, first + steps) for i, (first, steps) in enumerate(lives)]


def lowest_by_force(found: list[Buffer]) -> int:
    """The least height: some packing that is pushed down is made by some order, each as low as the earlier allow."""
    best = sum(b.size_bytes for b in found)
    for order in permutations(found):
        offsets: dict[str, int] = {}
        placed: list[Buffer] = []
        for b in order:
            near = [o for o in placed if o.first < b.end and b.first < o.end]
            offsets[b.name] = max([0, *(offsets[o.name] + o.size_bytes for o in near)])
            placed.append(b)
        best = min(best, max([0, *(offsets[b.name] + b.size_bytes for b in found)]))
    return best


def hard(seed: int, cuts: int = 60, height: int = 64, steps: int = 40) -> list[Buffer]:
    """A rectangle cut into buffers: it packs in `height`, with no room to spare at any step."""
    rng = np.random.default_rng(seed)
    pieces = [(0, height, 0, steps)]
    for _ in range(cuts):
        bottom, top, first, end = pieces.pop(int(rng.integers(len(pieces))))
        if rng.random() < 0.5 and top - bottom > 1:
            at = int(rng.integers(bottom + 1, top))
            pieces += [(bottom, at, first, end), (at, top, first, end)]
        elif end - first > 1:
            at = int(rng.integers(first + 1, end))
            pieces += [(bottom, top, first, at), (bottom, top, at, end)]
        else:
            pieces.append((bottom, top, first, end))
    return [Buffer(f"p{i}", top - bottom, first, end) for i, (bottom, top, first, end) in enumerate(pieces)]


@given(instances(), st.sampled_from([1, 3, 64]), st.floats(0.8, 1.5), st.data())
def test_buffers_whose_offsets_are_given_stay_there_and_nothing_overlaps(found, align, room, data):
    capacity = int(room * fullest_bytes(found))
    with mock.patch("hwsim.allocation.pack.time", Ticking()):
        free = pack(found, 10**6, align, time_limit_s=10.0)
        kept = data.draw(st.sets(st.sampled_from(range(len(found))))) if found else set()
        lifted = data.draw(st.sampled_from([0, align]))
        wanted = [
            replace(b, fixed=offset + lifted if i in kept else None)
            for i, (b, offset) in enumerate(zip(found, free.offsets, strict=True))
        ]
        packing = pack(wanted, capacity, align, time_limit_s=10.0)
    assert judge(listed(found), packing.offsets, 10**9, align) == []
    assert all(b.fixed in (None, offset) for b, offset in zip(wanted, packing.offsets, strict=True))
    assert (packing.verdict == "packed") == (packing.height_bytes <= capacity)
    rounded = [replace(b, size_bytes=-(-b.size_bytes // align) * align) for b in found]
    assert packing.verdict != "impossible" or fullest_bytes(rounded) > capacity


def test_a_tensor_goes_below_and_between_those_whose_offsets_are_given():
    found = [
        Buffer("low", 4, 0, 2),
        Buffer("given", 6, 0, 2, 4),
        Buffer("also", 2, 1, 2, 12),
        Buffer("gap", 2, 1, 2),
    ]
    packing = pack(found, 14, 1)
    assert (packing.offsets, packing.verdict) == ((0, 4, 12, 10), "packed")


@pytest.mark.parametrize("offset", [-64, 32])
def test_a_given_offset_that_is_none_is_refused(offset):
    with pytest.raises(ValueError, match="multiples of 64"):
        pack([Buffer("a", 1, 0, 1, offset)], 100)


@given(instances(), st.sampled_from([1, 3, 64]), st.floats(0.8, 1.3))
def test_no_two_buffers_share_a_byte_at_a_step_and_none_is_lower_than_what_lives(found, align, room):
    capacity = int(room * fullest_bytes(found))
    with mock.patch("hwsim.allocation.pack.time", Ticking()):
        packing = pack(found, capacity, align, time_limit_s=10.0)
    assert judge(listed(found), packing.offsets, packing.height_bytes, align) == []
    assert packing.height_bytes >= packing.fullest_bytes == fullest_bytes(found)
    assert (packing.verdict == "packed") == (packing.height_bytes <= capacity)
    if packing.fullest_bytes > capacity:
        assert packing.verdict == "impossible"


@given(instances(most=6, largest=5))
def test_tiny_instances_are_packed_as_low_as_trying_every_order_allows(found):
    least = lowest_by_force(found)
    packing = pack(found, least, align_bytes=1, time_limit_s=600.0)
    assert (packing.verdict, packing.height_bytes) == ("packed", least)
    if least > 0:
        short = pack(found, least - 1, align_bytes=1, time_limit_s=600.0)
        assert (short.verdict, short.height_bytes) == ("impossible", least)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_rectangle_that_was_cut_up_is_put_together_again(seed):
    found = hard(seed)
    packing = pack(found, 64, align_bytes=1, time_limit_s=600.0)
    assert packing.fullest_bytes == 64
    assert (packing.verdict, packing.height_bytes) == ("packed", 64)
    assert judge(listed(found), packing.offsets, 64, 1) == []


def test_the_search_finds_what_greedy_passes_do_not():
    for seed in (0, 2, 3, 4):
        found = hard(seed, cuts=120, height=1000, steps=100)
        first, end, size = arrays(found)
        assert int((greedy(first, end, size, 1000) + size).max()) > 1080
        packing = pack(found, 1000, align_bytes=1, time_limit_s=600.0)
        assert packing.verdict == "packed"
        assert judge(listed(found), packing.offsets, 1000, 1) == []


def test_without_time_the_greedy_packing_stands_and_its_excess_is_told():
    found = hard(2, cuts=120, height=1000, steps=100)
    packing = pack(found, 1000, align_bytes=1, time_limit_s=0.0)
    assert packing.verdict == "not found"
    assert packing.height_bytes > 1000
    assert judge(listed(found), packing.offsets, packing.height_bytes, 1) == []


def test_lifetimes_in_one_another_a_thousand_deep_are_packed():
    found = [Buffer(f"b{i}", 1, i, 3000 - i) for i in range(1200)]
    assert pack(found, 1200, align_bytes=1).verdict == "packed"


def test_the_same_seed_gives_the_same_packing():
    found = hard(3)
    one, again = (pack(found, 64, 1, time_limit_s=600.0, seed=5) for _ in range(2))
    assert one == again


def test_buffers_that_live_throughout_lie_at_the_bottom():
    found = [Buffer("a", 10, 0, 2), Buffer("w", 100, 0, 5), Buffer("b", 20, 2, 5), Buffer("v", 7, 0, 5)]
    packing = pack(found, 1000, align_bytes=8)
    assert packing.offsets == (112, 0, 112, 104)
    assert (packing.height_bytes, packing.fullest_bytes) == (132, 127)


def test_nothing_and_what_has_no_size_takes_no_room():
    assert pack([], 0).verdict == "packed"
    packing = pack([Buffer("a", 0, 0, 1), Buffer("b", 0, 0, 3)], 0)
    assert (packing.offsets, packing.height_bytes, packing.verdict) == ((0, 0), 0, "packed")


def test_alignment_can_make_impossible_what_would_fit_without_it():
    found = [Buffer("a", 33, 0, 2), Buffer("b", 33, 0, 2), Buffer("c", 33, 0, 2)]
    assert pack(found, 128, align_bytes=1).verdict == "packed"
    packing = pack(found, 128, align_bytes=64)
    assert (packing.verdict, packing.height_bytes) == ("impossible", 161)


def test_what_cannot_be_packed_is_still_given_places_that_do_not_overlap():
    found = hard(1)
    packing = pack(found, 50, align_bytes=1, time_limit_s=600.0)
    assert packing.verdict == "impossible"
    assert packing.height_bytes == 64


@pytest.mark.parametrize(("align", "capacity"), [(0, 10), (1, -1)])
def test_wrong_arguments_are_programming_errors(align, capacity):
    with pytest.raises(ValueError, match="align_bytes >= 1"):
        pack([], capacity, align)


@pytest.mark.parametrize(("size", "first", "end"), [(-1, 0, 1), (1, 2, 2), (1, 3, 2)])
def test_a_buffer_has_a_size_and_a_lifetime(size, first, end):
    with pytest.raises(ValueError, match="buffer 'x'"):
        Buffer("x", size, first, end)


@given(instances())
def test_sections_keep_who_lives_with_whom(found):
    if not found:
        return
    first = np.array([b.first for b in found])
    end = np.array([b.end for b in found])
    begin, stop = sections(first, end)
    assert (begin < stop).all()
    together = (first[:, None] < end) & (first < end[:, None])
    assert (((begin[:, None] < stop) & (begin < stop[:, None])) == together).all()
