"""The local search: always valid, never worse, the same for the same key."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from clocks import Ticking
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hwsim.memory_moves import SMALLEST, repack
from hwsim.nnpi import annealing as module
from hwsim.nnpi.annealing import anneal, held_by
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.judge import judge
from hwsim.nnpi.latency import trace_latency
from hwsim.nnpi.placer import DEFAULT_RULE, compile_map, rule_named
from hwsim.nnpi.problem import NnpiProblem
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import build_tables
from hwsim.problem import Mapping16
from strategies import chips, workloads
from workloads.errors import InputError
from workloads.load import load


def draw_mapping(tables, seed: int) -> Mapping16:
    sizes = np.stack([tables.weight_bytes, tables.activation_bytes], axis=1)
    drawn = np.random.default_rng(seed).integers(0, len(tables.capacity_bytes), sizes.shape)
    return np.where(sizes > 0, drawn, -1).astype(np.int16)


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(workloads(), chips(), st.integers(0, 2**64 - 1))
def test_annealing_keeps_a_map_valid_and_never_makes_it_slower(workload, chip, key):
    chip = replace(chip, effects=replace(chip.effects, noise=False))
    try:
        tables = build_tables(workload, chip)
    except InputError:
        assume(False)
        raise
    start = draw_mapping(tables, key % 2**32)
    with patch.object(module, "SLICE", 50):
        mapping, cost_s = anneal(tables, start, steps=300, key=key, restarts=2)
    memories = [(memory.name, memory.capacity_bytes) for memory in chip.memories]
    assert not judge(workload, memories, chip.element_bytes.weight, chip.element_bytes.activation, mapping)
    assert cost_s == trace_latency(tables, mapping)[0]
    assert cost_s <= trace_latency(tables, rectify(tables, start[None])[0][0])[0]


@pytest.fixture(scope="module")
def bert():
    tables = build_tables(load("bert"), load_chip("nnpi"))
    return tables, compile_map(tables, rule_named(DEFAULT_RULE))


@given(st.integers(0, 2**32 - 1), st.tuples(*[st.floats(0, 1, exclude_max=True)] * 4))
def test_a_repack_exchanges_a_weight_with_smaller_ones_of_about_its_bytes(bert, seed, draws):
    tables, before = bert[0], draw_mapping(bert[0], seed)
    size, weights = tables.weight_bytes, np.flatnonzero(tables.weight_bytes)
    mapping = before.copy()
    always = np.stack([weights, np.zeros_like(weights)], axis=1)
    done = repack(held_by(tables), mapping, always, draws)
    assert done == bool((mapping != before).any())
    if done:
        assert (mapping[:, 1] == before[:, 1]).all()
        one = weights[int(draws[0] * len(weights))]
        home, away = before[one, 0], mapping[one, 0]
        others = np.setdiff1d(np.flatnonzero(mapping[:, 0] != before[:, 0]), [one])
        assert len(others)
        assert home != away
        assert (before[others, 0] == away).all()
        assert (mapping[others, 0] == home).all()
        assert size[others].sum() <= size[one]
        assert (size[others] * SMALLEST >= size[one]).all()


@pytest.mark.exhaustive
def test_berts_best_known_map_is_found_from_the_compilers(bert):
    tables, start = bert
    quiet = tables._replace(sigma=0.0)
    known = NnpiProblem(load("bert"), load_chip("nnpi")).best_known()[0]
    assert anneal(quiet, start, steps=300_000, restarts=3)[1] <= 1.002 * trace_latency(quiet, known)[0]


def test_a_walk_that_goes_uphill_between_two_looks_at_the_clock_still_returns_the_best_map(bert):
    tables, start = bert
    best = anneal(tables, start, steps=5000, hot=2e-4)[0]
    with patch.object(module, "SLICE", 20):
        assert anneal(tables, best, steps=400, hot=0.5)[1] <= trace_latency(tables, best)[0]


def test_the_same_key_and_steps_give_the_same_map_and_another_key_another(bert):
    tables, start = bert
    first, second, other = (anneal(tables, start, steps=5000, key=key)[0] for key in (3, 3, 4))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.exhaustive
def test_annealing_takes_a_tenth_off_the_compilers_slowest_rule_on_bert(bert):
    tables, _ = bert
    start = compile_map(tables, rule_named("execution-order"))
    before_s = trace_latency(tables, start)[0]
    assert anneal(tables, start, steps=30_000, hot=2e-4)[1] < 0.9 * before_s


@pytest.mark.slow
def test_a_limit_in_seconds_ends_the_search(bert):
    tables, start = bert
    with patch.object(module, "time", Ticking()):
        mapping, cost_s = anneal(tables, start, steps=10**12, seconds=20.0)
    assert cost_s <= trace_latency(tables, start)[0]
    assert mapping.shape == start.shape


def test_anneal_refuses_what_it_cannot_search(bert):
    tables, start = bert
    with pytest.raises(ValueError, match=r"mapping: expected int16 of shape \(376, 2\)"):
        anneal(tables, start[:5])
    with pytest.raises(ValueError, match="steps, restarts: expected positive"):
        anneal(tables, start, steps=0)
