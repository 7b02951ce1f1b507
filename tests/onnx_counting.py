"""Multiply-accumulates of an ONNX model by running it.

ONNX's reference evaluator gives the shapes of every node that runs, those inside loops and branches each time. The
products are from a table of formulas that shares nothing with the importer.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import node as cases
from onnx.backend.test.case.test_case import TestCase
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops._op import OpRunBinary

Given = Sequence[Any]


def _matmul(node: Any, given: Given, found: Given) -> int:
    return found[0].size * given[0].shape[-1]


def _gemm(node: Any, given: Given, found: Given) -> int:
    return found[0].size * given[0].shape[0 if getattr(node, "transA", 0) else 1]


def _conv(weight: int) -> Callable[[Any, Given, Given], int]:
    return lambda node, given, found: found[0].size * prod(given[weight].shape[1:])


def _einsum(node: Any, given: Given, found: Given) -> int:
    """Of two operands: every label that the result or both have; of one: nothing is multiplied."""
    equation = node.equation.decode() if isinstance(node.equation, bytes) else node.equation
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) < 2:
        return 0
    assert len(terms) == 2
    hidden = [
        "ABCDEFGH"[8 - x.ndim + len(term.replace(".", "")) :] for term, x in zip(terms, given, strict=True)
    ]
    if not arrow:
        right = "..." + "".join(c for c in left if left.count(c) == 1)
    labels = [term.replace("...", dots) for term, dots in zip(terms, hidden, strict=True)]
    kept = right.replace("...", max(hidden, key=len))
    sizes: dict[str, int] = {}
    for term, x in zip(labels, given, strict=True):
        sizes |= {c: max(size, sizes.get(c, 1)) for c, size in zip(term, x.shape, strict=True)}
    return prod(size for c, size in sizes.items() if c in kept or all(c in term for term in labels))


def _attention(node: Any, given: Given, found: Given) -> int:
    query, key, value = (x.shape for x in given[:3])
    past = given[4].shape[-2] if len(given) > 4 and given[4] is not None else 0
    if len(query) == 4:
        return prod(query[:3]) * (key[2] + past) * (query[3] + value[3])
    heads, pairs = node.q_num_heads, node.kv_num_heads
    return query[0] * heads * query[1] * (key[1] + past) * (query[2] // heads + value[2] // pairs)


def _recurrent(node: Any, given: Given, found: Given) -> int:
    return prod(given[0].shape[:2]) * (given[1].size + given[2].size)


FORMULAS: Mapping[str, Callable[[Any, Given, Given], int]] = {
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv(1),
    "ConvInteger": _conv(1),
    "DeformConv": _conv(1),
    "QLinearConv": _conv(3),
    "ConvTranspose": lambda node, given, found: given[0].size * prod(given[1].shape[1:]),
    "Einsum": _einsum,
    "Attention": _attention,
    **dict.fromkeys(("RNN", "LSTM", "GRU"), _recurrent),
}


@contextmanager
def counting(total: list[int]) -> Iterator[None]:
    """Adds to `total[0]` what runs; a node that runs others counts as these."""
    plain = {each: each.run for each in (OpRun, OpRunBinary)}

    def run(self: Any, *given: Any, **options: Any) -> Any:
        before = total[0]
        found = plain[OpRunBinary if isinstance(self, OpRunBinary) else OpRun](self, *given, **options)
        formula = FORMULAS.get(self.onnx_node.op_type)
        if formula is not None and total[0] == before and self.onnx_node.domain in ("", "ai.onnx"):
            total[0] += formula(self, given, found)
        return found

    try:
        for each in plain:
            each.run = run
        yield
    finally:
        for each, method in plain.items():
            each.run = method


def macs(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> int:
    """Multiply-accumulates of one run."""
    total = [0]
    with counting(total), np.errstate(all="ignore"):
        ReferenceEvaluator(model).run(None, dict(inputs))
    return total[0]


@cache
def cases_of(module: str) -> Sequence[TestCase]:
    """ONNX's own test cases that a module makes while it is imported."""
    before = len(cases._NodeTestCases)
    with warnings.catch_warnings(action="ignore"):
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    return tuple(cases._NodeTestCases[before:])


def node_cases(*modules: str) -> dict[str, TestCase]:
    """ONNX's own test cases of these modules, by name."""
    return {case.name: case for module in modules for case in cases_of(module) if case.model is not None}


def of_case(case: TestCase, all_cases: Mapping[str, TestCase]) -> int | None:
    """Multiply-accumulates of a case, or of its twin in simpler ops where the evaluator runs the op itself; None where
    the evaluator runs neither."""
    for name in (case.name, f"{case.name}_expanded"):
        if name in all_cases:
            each = all_cases[name]
            names = [info.name for info in each.model.graph.input]
            try:
                found = macs(each.model, dict(zip(names, each.data_sets[0][0], strict=True)))
            except (RuntimeError, TypeError, ValueError):
                return None
            if found:
                return found
    return 0


def with_constants(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> onnx.ModelProto:
    """The model with those inputs as constants that models have as such: counts, conditions, places, sizes."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for info in list(fixed.graph.input):
        value = inputs.get(info.name)
        small = isinstance(value, np.ndarray) and value.size <= 8 and value.dtype in (np.int64, np.bool_)
        if small:
            fixed.graph.initializer.append(numpy_helper.from_array(value, info.name))
            fixed.graph.input.remove(info)
    return fixed
