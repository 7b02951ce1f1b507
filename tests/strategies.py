"""Hypothesis strategies: small workloads, chips with 2 to 5 memories, and batches of mappings.

Sizes are drawn so that memories fill up: a few kilobytes to place, and about as much room. What does not depend on what
was drawn is made once: hypothesis checks each new strategy, which took a third of the time of drawing.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
from hypothesis import strategies as st

from hwsim.nnpi.chip import (
    Chip,
    Compute,
    Effects,
    ElementWidths,
    Factors,
    Memory,
    Noise,
    Overhead,
    Prefetch,
    Waiting,
)
from hwsim.problem import Mapping16
from workloads.workload import KINDS, Edge, ElementBytes, Gemm, Op, Workload

SLOWEST_BYTES = 2**30


@lru_cache(typed=True)
def mostly(*usual: float) -> st.SearchStrategy[float]:
    """One of a few values that make things happen, now and then any between the least and the largest."""
    least, most = min(usual), max(usual)
    if isinstance(least, int):
        return st.sampled_from(usual * 3) | st.integers(least, most)
    return st.sampled_from(usual * 3) | st.floats(least, most)


@cache
def reads(weight: int) -> st.SearchStrategy[int]:
    """Bytes that an op reads of its weights."""
    return st.sampled_from((weight, weight, 3 * weight)) | st.integers(0, 4 * weight)


KIND = st.sampled_from((*KINDS, "reshape", "concat", "split"))
GEMM = st.none() | st.builds(Gemm, *[st.integers(1, 200)] * 4)
SIZE = st.integers(1, 64)
EXTERNAL = st.just(0) | st.integers(0, 1000)
LATENCY = st.none() | mostly(1e-9, 1e-7, 1e-5)
WIDTH = st.sampled_from((0.5, 1.0, 2.0, 4.0))


@st.composite
def workloads(draw: st.DrawFn, max_ops: int = 10) -> Workload:
    """A valid workload of 1 to `max_ops` ops: any DAG, dead tensors, views, gathers, several outputs."""
    ops: list[Op] = []
    for i in range(draw(st.sampled_from(range(1, max_ops + 1)))):
        sources = draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else []
        inputs = tuple(
            Edge(ops[s].name, draw(st.integers(0, ops[s].output_bytes)))
            for s in sources
            if ops[s].output_bytes
        )
        weight = draw(mostly(0, 100, 500, 1000, 3000))
        gemm = draw(GEMM)
        ops.append(
            Op(
                name=f"op{i}",
                kind=draw(KIND),
                inputs=inputs,
                ifm=(draw(SIZE), draw(SIZE), draw(SIZE)),
                ofm=(draw(SIZE), draw(SIZE), draw(SIZE)),
                output_bytes=draw(mostly(0, 100, 500, 1000, 3000)),
                external_bytes=draw(EXTERNAL),
                weight_bytes=weight,
                weight_read_bytes=draw(reads(weight)) if weight else 0,
                parameters=weight,
                gemm=gemm,
                vector_ops=draw(mostly(0 if i else 1, 100, 1000, 10_000)),
                is_output=draw(st.booleans()),
                latency_s=draw(LATENCY),
                steps=draw(mostly(1, 1, 7)),
            )
        )
    return Workload("drawn", tuple(ops), ElementBytes(draw(WIDTH), draw(WIDTH)))


@cache
def effects() -> st.SearchStrategy[Effects]:
    """Any of the effects on or off."""
    return st.builds(Effects, *[st.sampled_from((True, True, False))] * 6)


@cache
def by_kind() -> st.SearchStrategy[dict[str, float]]:
    """Factors of some kinds of op."""
    return st.dictionaries(
        st.sampled_from(KINDS), st.sampled_from((0.5, 0.9, 1.3)) | st.floats(0.1, 10.0), max_size=8
    )


COUNT = st.integers(1, 16)
RATE = st.floats(1e8, 1e10)
WIDTHS = st.tuples(*[st.sampled_from((0.5, 1.0, 1.5, 2.0))] * 2)
NOISE = st.floats(1e-3, 0.5)
WAITING = st.just(Waiting()) | st.builds(Waiting, mostly(0.0, 0.1, 1.0), mostly(0.0, 0.1, 1.0))
FACTORS = st.just(Factors()) | st.builds(Factors, by_kind(), by_kind())


@st.composite
def chips(draw: st.DrawFn, switches: st.SearchStrategy[Effects] | None = None) -> Chip:
    """A chip of 2 to 5 memories of a few kilobytes each, the slowest of which holds everything."""
    levels = draw(st.integers(2, 5))
    bandwidths = sorted(draw(mostly(1e8, 1e9, 3e9, 1e10, 1e12)) for _ in range(levels))
    capacities = [SLOWEST_BYTES, *(draw(mostly(1, 500, 1500, 4000, 10_000)) for _ in range(levels - 1))]
    reserved = [draw(mostly(0, 700)) for _ in range(levels)]
    access_s = [draw(mostly(0.0, 1e-9, 1e-7, 1e-6)) for _ in range(levels)]
    memories = tuple(
        Memory(f"m{k}", capacities[k] + reserved[k], bandwidths[k], reserved[k], access_s[k])
        for k in range(levels)
    )
    faster = st.sampled_from([m.name for m in memories[1:]])
    return Chip(
        name="drawn",
        memories=memories,
        compute=Compute(draw(COUNT), draw(COUNT), draw(COUNT), draw(COUNT), draw(RATE), draw(COUNT)),
        overhead=Overhead(draw(mostly(1e-9, 1e-7, 1e-6, 1e-5))),
        element_bytes=ElementWidths(*draw(WIDTHS)),
        prefetch=Prefetch(draw(faster), draw(faster)),
        noise=Noise(draw(NOISE)),
        effects=draw(switches if switches is not None else effects()),
        factors=draw(FACTORS),
        waiting=draw(WAITING),
    )


@st.composite
def mappings(draw: st.DrawFn, nodes: int, choices: int, batch: int = 3) -> Mapping16:
    """int16 [batch, nodes, 2] of choices 0 .. choices-1, dead decisions included; often all the same."""
    same = st.integers(0, choices - 1).map(lambda c: np.full((batch, nodes, 2), c, np.int16))
    seeds = st.integers(0, 2**32 - 1)
    mixed = seeds.map(
        lambda s: np.random.default_rng(s).integers(0, choices, (batch, nodes, 2)).astype(np.int16)
    )
    return draw(same | mixed)
