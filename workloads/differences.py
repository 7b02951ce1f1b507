"""What is the first thing in which two networks differ, as far as places and addresses of their tensors go."""

from __future__ import annotations

from workloads.workload import Edge, Op, Workload

SIZES = ("ifm", "ofm", "batch", "gemm", "output_bytes", "external_bytes", "weight_bytes", "inputs")
"""Fields of an op that must be the same. Times, kinds and vector operations may differ."""


def first_difference(expected: Workload, found: Workload) -> str:
    """The first op that is another one or has another shape, size or input, in words; "" if there is none."""
    pairs = list(zip(expected, found, strict=False))
    for number, (one, other) in enumerate(pairs):
        if one.name != other.name:
            return f"expected {one.name!r} as op {number}, found {other.name!r}"
    for one, other in pairs:
        for name in SIZES:
            values = _words(one, name), _words(other, name)
            if values[0] != values[1]:
                return f"expected {name} of {one.name!r} to be {values[0]}, found {values[1]}"
    return "" if len(expected) == len(found) else f"expected {len(expected)} ops, found {len(found)}"


def _words(op: Op, name: str) -> str:
    value = getattr(op, name)
    return ", ".join(map(_edge, value)) or "none" if name == "inputs" else str(value)


def _edge(edge: Edge) -> str:
    return f"{edge.read_bytes} bytes of {edge.source!r}"
