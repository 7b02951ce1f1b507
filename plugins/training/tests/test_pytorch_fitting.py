"""A simulated limit is moved until what is compiled keeps to the limit that was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl_training.pytorch.fitting import TURNS, Compiled, fastest_within
from egrl_training.pytorch.plan import Plan
from egrl_training.simulator.baseline import ShortageError
from workloads.errors import InputError

ALL = 1_000_000
"""Simulated peak of keeping everything."""


class Network:
    """Plans take exactly their simulated limit, down to `floor`; compiled it is multiplied by a factor of the peak."""

    def __init__(self, at_floor: float, at_all: float, floor: int = 500_000) -> None:
        self.factors, self.floor, self.compiled_peaks = (at_floor, at_all), floor, list[int]()

    def search(self, limit: int) -> Plan:
        if limit < self.floor:
            raise ShortageError(f"net: at least {self.floor} bytes, found {limit}", self.floor)
        peak = min(limit, ALL)
        return Plan("net", "ab", ("x",), limit, peak, 2.0 - peak / ALL, ALL, 1.0)

    def compile(self, plan: Plan) -> Compiled:
        share = (plan.peak_bytes - self.floor) / (ALL - self.floor)
        low, high = self.factors
        peak = int(plan.peak_bytes * (low + share * (high - low)))
        self.compiled_peaks.append(peak)
        return Compiled(replace(plan, peak_bytes=peak, all_peak_bytes=int(ALL * high)), peak, 0)

    def within(self, limit: int, first: int) -> Compiled:
        return fastest_within(limit, first, self.search, self.compile)


@given(st.floats(0.8, 1.3), st.floats(0.8, 1.2), st.floats(0.75, 0.95))
def test_what_is_compiled_keeps_to_the_limit(at_floor: float, at_all: float, share: float) -> None:
    net = Network(at_floor, at_all)
    limit = int(share * ALL * at_all)
    try:
        found = net.within(limit, int(share * ALL))
    except InputError:
        assert min(net.compiled_peaks) > limit
    else:
        assert found.peak_bytes <= limit
        assert found.peak_bytes == max(peak for peak in net.compiled_peaks if peak <= limit)
    assert len(net.compiled_peaks) <= TURNS


@pytest.mark.parametrize("limit", [1, 2])
def test_a_limit_of_a_byte_is_refused_where_the_simulation_is_below_what_is_compiled(limit: int) -> None:
    net = Network(1.3, 1.2)

    def search(limit: int) -> Plan:
        assert limit > 0
        return net.search(limit)

    with pytest.raises(InputError, match=f"found {limit} bytes: the least peak of 2 plans"):
        fastest_within(limit, int(limit / 1.3), search, net.compile)


def test_the_least_peak_may_be_that_of_keeping_everything() -> None:
    net = Network(1.9, 0.7)
    with pytest.raises(InputError, match=r"the least peak of \d+ plans that were compiled is 700000 bytes"):
        net.within(600_000, 600_000)
    assert min(net.compiled_peaks) > 700_000


def test_room_that_the_simulation_does_not_see_is_used() -> None:
    found = Network(0.8, 1.0).within(800_000, 800_000)
    assert 0.97 * 800_000 <= found.peak_bytes <= 800_000


def test_a_good_first_plan_is_the_only_one() -> None:
    net = Network(1.0, 1.0)
    net.within(800_000, 800_000)
    assert len(net.compiled_peaks) == 1


def test_a_limit_that_nothing_keeps_to_names_the_least_peak_compiled() -> None:
    net = Network(1.5, 1.0)
    with pytest.raises(
        InputError,
        match=r"found 550000 bytes.*the least peak of \d+ plans that were compiled is 750000 bytes",
    ):
        net.within(550_000, 500_000)


def test_a_limit_below_all_plans_names_the_least_one_compiled() -> None:
    net = Network(1.0, 1.0)
    with pytest.raises(
        InputError, match=r"found 90000 bytes.*the least peak of \d+ plans that were compiled is 500000 bytes"
    ):
        net.within(90_000, 100_000)
    assert net.compiled_peaks == [500_000]


def test_the_least_plan_simulated_is_compiled_before_a_limit_is_refused() -> None:
    assert Network(0.5, 1.0).within(400_000, 400_000).peak_bytes <= 400_000


def test_a_compiled_peak_that_hardly_follows_the_simulation_is_met_all_the_same() -> None:
    # compiled, the least plan takes 0.8 and keeping everything 1.0: 0.4 bytes per simulated byte
    assert Network(1.6, 1.0).within(850_000, 900_000).peak_bytes <= 850_000
