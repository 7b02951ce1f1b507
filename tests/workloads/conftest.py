from __future__ import annotations

import pytest
from hypothesis import strategies as st

from workloads.workload import KINDS, Edge, ElementBytes, Gemm, Op, Workload

NAMES = st.text(min_size=1, max_size=8).filter(str.isprintable)
BYTES = st.integers(0, 2**40)
DIMENSIONS = st.integers(0, 2**20)
WIDTHS = st.floats(1 / 64, 64)


@st.composite
def _workloads(draw: st.DrawFn) -> Workload:
    """Any sound workload of up to 7 ops: every field drawn, edges to any earlier ops."""
    names = draw(st.lists(NAMES, min_size=1, max_size=7, unique=True))
    ops: list[Op] = []
    for name in names:
        producers = draw(st.lists(st.sampled_from(ops), unique_by=lambda op: op.name)) if ops else []
        edges = tuple(Edge(op.name, draw(st.integers(0, op.output_bytes))) for op in producers)
        weight_bytes = draw(BYTES)
        ops.append(
            Op(
                name=name,
                kind=draw(st.sampled_from(KINDS)),
                inputs=edges,
                ifm=draw(st.tuples(DIMENSIONS, DIMENSIONS, DIMENSIONS)),
                ofm=draw(st.tuples(DIMENSIONS, DIMENSIONS, DIMENSIONS)),
                output_bytes=draw(BYTES),
                external_bytes=draw(BYTES),
                weight_bytes=weight_bytes,
                weight_read_bytes=draw(st.integers(0, weight_bytes)),
                parameters=draw(BYTES),
                gemm=draw(st.none() | st.builds(Gemm, *[st.integers(1, 2**14)] * 4)),
                vector_ops=draw(BYTES),
                kernel=draw(st.tuples(DIMENSIONS, DIMENSIONS)),
                stride=draw(DIMENSIONS),
                pad=draw(DIMENSIONS),
                dilation=draw(DIMENSIONS),
                groups=draw(DIMENSIONS),
                batch=draw(st.integers(1, 512)),
                is_output=draw(st.booleans()),
                latency_s=draw(st.none() | st.floats(min_value=0, max_value=1e3, exclude_min=True)),
            )
        )
    name = draw(NAMES.filter(lambda n: "/" not in n and "\\" not in n and n not in (".", "..")))
    source = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
    return Workload(name, tuple(ops), ElementBytes(draw(WIDTHS), draw(WIDTHS)), source)


@pytest.fixture(scope="session")
def any_workload() -> st.SearchStrategy[Workload]:
    return _workloads()


@pytest.fixture
def chain() -> Workload:
    """in -> a -> b -> c, with a skip from a to c."""
    shape = (4, 4, 2)
    return Workload(
        "chain",
        (
            Op("a", "conv", (), shape, shape, output_bytes=32, external_bytes=32, weight_bytes=36),
            Op("b", "matmul", (Edge("a", 32),), shape, shape, output_bytes=32),
            Op("c", "elementwise", (Edge("b", 32), Edge("a", 16)), shape, shape, output_bytes=32),
        ),
    )
