from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.workload import (
    MAX_COUNT,
    MAX_OPS,
    Edge,
    ElementBytes,
    Gemm,
    Op,
    Workload,
    check,
    last_consumer,
)


def with_op(workload: Workload, i: int, **changes: object) -> Workload:
    ops = list(workload.ops)
    ops[i] = replace(ops[i], **changes)
    return replace(workload, ops=tuple(ops))


@pytest.mark.slow
@given(data=st.data())
def test_every_generated_workload_is_sound(any_workload, data):
    workload = data.draw(any_workload)
    assert check(workload) is workload


FAULTS: dict[str, tuple[Callable[[Workload], Workload], list[str]]] = {
    "no ops": (lambda w: replace(w, ops=()), ["ops", "at least one"]),
    "empty name": (lambda w: replace(w, name=""), ["name", "printable"]),
    "separator in the name": (lambda w: replace(w, name="../x"), ["name", "separators"]),
    "backslash in the name": (lambda w: replace(w, name="a\\b"), ["name", "separators"]),
    "parent as name": (lambda w: replace(w, name=".."), ["name", "separators"]),
    "newline in the name": (lambda w: replace(w, name="a\nb"), ["name", "printable"]),
    "endless name": (lambda w: replace(w, name="n" * 201), ["name", "200"]),
    "lone surrogate in the source": (lambda w: replace(w, source="\ud800"), ["source"]),
    "element of no bytes": (
        lambda w: replace(w, element_bytes=ElementBytes(weight=0.0)),
        ["element_bytes.weight", "1/64 to 64"],
    ),
    "element of infinite bytes": (
        lambda w: replace(w, element_bytes=ElementBytes(activation=float("inf"))),
        ["element_bytes.activation", "1/64 to 64"],
    ),
    "empty op name": (lambda w: with_op(w, 1, name=""), ["ops[1].name"]),
    "name used twice": (lambda w: with_op(w, 2, name="b"), ["ops[2].name", "'b'", "ops[1]"]),
    "unknown kind": (
        lambda w: with_op(w, 1, kind="convolution"),
        ["ops[1]", "kind", "'convolution'", "conv"],
    ),
    "negative size": (lambda w: with_op(w, 1, output_bytes=-1), ["ops[1]", "output_bytes", "-1"]),
    "size that is no integer": (lambda w: with_op(w, 0, weight_bytes=1.5), ["weight_bytes", "1.5"]),
    "size that is a truth value": (lambda w: with_op(w, 0, external_bytes=True), ["external_bytes", "True"]),
    "size of a pebibyte": (lambda w: with_op(w, 1, vector_ops=MAX_COUNT), ["vector_ops", str(MAX_COUNT)]),
    "negative parameters": (lambda w: with_op(w, 0, parameters=-2), ["parameters", "-2"]),
    "more read than held": (
        lambda w: with_op(w, 0, weight_read_bytes=37),
        ["weight_read_bytes", "36", "37"],
    ),
    "negative axis": (lambda w: with_op(w, 1, ifm=(4, -4, 2)), ["ifm[1]", "-4"]),
    "two axes": (lambda w: with_op(w, 1, ofm=(4, 4)), ["ofm", "3 integers"]),
    "huge axis": (lambda w: with_op(w, 1, ofm=(2**31, 1, 1)), ["ofm[0]"]),
    "negative kernel": (lambda w: with_op(w, 0, kernel=(3, -3)), ["kernel[1]", "-3"]),
    "negative stride": (lambda w: with_op(w, 0, stride=-1), ["stride", "-1"]),
    "batch of none": (lambda w: with_op(w, 0, batch=0), ["batch", "from 1"]),
    "empty gemm": (lambda w: with_op(w, 1, gemm=Gemm(1, 0, 2, 3)), ["gemm.rows", "from 1"]),
    "gemm beyond 64 bits": (
        lambda w: with_op(w, 1, gemm=Gemm(1, 2**40, 2**40, 2)),
        ["gemm", "multiply-accumulates"],
    ),
    "latency of zero": (lambda w: with_op(w, 1, latency_s=0.0), ["latency_s", "> 0"]),
    "latency that is no number": (lambda w: with_op(w, 1, latency_s=float("nan")), ["latency_s", "nan"]),
    "is_output as a number": (lambda w: with_op(w, 1, is_output=1), ["is_output", "true or false"]),
    "unknown producer": (
        lambda w: with_op(w, 1, inputs=(Edge("z", 0),)),
        ["ops[1]", "inputs[0].source", "'z'"],
    ),
    "self-loop": (
        lambda w: with_op(w, 1, inputs=(Edge("b", 1),)),
        ["cycle or wrong order", "'b'", "ops[1]"],
    ),
    "forward edge": (
        lambda w: with_op(w, 1, inputs=(Edge("a", 1), Edge("c", 1))),
        ["inputs[1].source", "cycle or wrong order", "'c'", "'b'"],
    ),
    "edge given twice": (
        lambda w: with_op(w, 2, inputs=(Edge("a", 1), Edge("a", 2))),
        ["inputs[1].source", "'a twice'"],
    ),
    "more read than produced": (
        lambda w: with_op(w, 1, inputs=(Edge("a", 33),)),
        ["inputs[0].read_bytes", "0 to 32", "33"],
    ),
    "negative read": (lambda w: with_op(w, 1, inputs=(Edge("a", -1),)), ["inputs[0].read_bytes", "-1"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_refused_in_one_line_that_names_it(chain, fault):
    spoil, words = FAULTS[fault]
    with pytest.raises(InputError) as caught:
        check(spoil(chain))
    message = str(caught.value)
    assert "\n" not in message
    for word in [repr(spoil(chain).name)[:40], *words]:
        assert word in message


def test_sums_that_would_overflow_64_bits_are_refused():
    ops = tuple(
        Op(f"op{i}", "other", (), (1, 1, 1), (1, 1, 1), output_bytes=MAX_COUNT - 1) for i in range(1025)
    )
    with pytest.raises(InputError, match="output_bytes below"):
        check(Workload("big", ops))
    assert check(Workload("big", ops[:1024]))


def test_the_number_of_ops_is_bounded():
    op = Op("a", "other", (), (1, 1, 1), (1, 1, 1), output_bytes=1)
    with pytest.raises(InputError, match="at most 100000 ops, found 100001"):
        check(Workload("many", (op,) * (MAX_OPS + 1)))


def test_the_last_consumer_of_the_skip_is_the_op_that_adds_it(chain):
    assert last_consumer(chain).tolist() == [2, 2, 2]


@pytest.mark.slow
@given(data=st.data())
def test_the_last_consumer_equals_the_last_edge_found_by_looking_at_all(any_workload, data):
    workload = data.draw(any_workload)
    expected = [
        max([i] + [j for j, reader in enumerate(workload) for e in reader.inputs if e.source == op.name])
        for i, op in enumerate(workload)
    ]
    last = last_consumer(workload)
    assert last.dtype == np.int64
    assert last.tolist() == expected
