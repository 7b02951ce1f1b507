"""Branches, loops and sequences of ONNX files: as many products as run, weights once, sizes of what is handed on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_counting
import pytest
from onnx import helper, numpy_helper, parser

from workloads.errors import InputError
from workloads.importers.read import Imported, read


def model(text: str, **weights: Any) -> onnx.ModelProto:
    """The model of a text with ONNX's syntax for a graph; `weights` are initializers, by name."""
    found = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    found.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()
    )
    return found


def imported(folder: Path, net: onnx.ModelProto, **options: Any) -> Imported:
    (folder / "net.onnx").write_bytes(net.SerializeToString())
    return read(str(folder / "net.onnx"), fuse=False, **options)


def weight(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


BRANCHES = """g ({inputs}float[4,8] x) => (float y) {{
    r = If (c) <
      then_branch = t () => (float p) {{ p = MatMul(x, w) }},
      else_branch = e () => (float q) {{
        v = Constant <value: tensor = float[8,16] {{{ones}}}> ()
        h = MatMul(x, v)
        q = MatMul(h, u)
      }}
    >
    y = Relu(r)
}}"""


def branches(inputs: str, **weights: Any) -> onnx.ModelProto:
    text = BRANCHES.format(inputs=inputs, ones=",".join("1" for _ in range(128)))
    return model(text, w=weight(8, 16), u=weight(16, 16), **weights)


@pytest.mark.parametrize("taken", [True, False])
def test_of_a_constant_condition_the_branch_that_runs_is_counted(tmp_path, taken):
    net = branches("", c=np.array(taken))
    found = imported(tmp_path, net)
    assert found.workload.macs == onnx_counting.macs(net, {"x": weight(4, 8)})
    assert found.workload.parameters == (128 if taken else 128 + 256)
    assert found.remarks == ()


def test_of_a_condition_that_data_decide_the_larger_branch_is_counted_and_said(tmp_path):
    net = branches("bool c, ")
    found = imported(tmp_path, net)
    runs = [onnx_counting.macs(net, {"x": weight(4, 8), "c": np.array(c)}) for c in (True, False)]
    assert found.workload.macs == max(runs)
    assert [op.output_bytes for op in found.workload] == [256, 256, 256]
    assert found.workload.parameters == 128 + 256
    assert found.remarks == (
        "If whose condition depends on data (r): counted as the larger branch, nothing of the other",
    )


def test_names_inside_a_branch_are_texts(tmp_path):
    data = branches("bool c, ").SerializeToString().replace(b"Constant", b"Constan\xff")
    (tmp_path / "net.onnx").write_bytes(data)
    with pytest.raises(InputError, match="expected names in UTF-8, found other bytes"):
        read(str(tmp_path / "net.onnx"))


def test_a_name_may_mean_another_tensor_inside_a_branch(tmp_path):
    net = model(
        """g (float[4,8] x, bool c) => (float y) {
        h = Relu(x)
        y = If (c) <
          then_branch = t () => (float h) { h = MatMul(x, w) },
          else_branch = e () => (float k) { k = Neg(h) }
        > }""",
        w=weight(8, 2),
    )
    assert imported(tmp_path, net).workload.macs == 4 * 8 * 2


LOOP = """g ({inputs}float[4,8] x) => (float[4,8] last, float all) {{
    last, all = Loop (n, go, x) <
      body = b (int64 i, bool on, float[4,8] h) => (bool more, float[4,8] next, float[4,2] out)
      {{
        p = MatMul(h, w)
        next = Relu(p)
        more = {more}
        out = MatMul(next, u)
      }}>
}}"""


def loop(more: str = "Identity(on)", inputs: str = "", **constants: Any) -> onnx.ModelProto:
    text = LOOP.format(more=more, inputs=inputs)
    return model(text, w=weight(8, 8), u=weight(8, 2), **constants)


def test_a_loop_is_one_op_with_its_products_in_all_trips_and_its_weights_once(tmp_path):
    net = loop(n=np.array(5), go=np.array(True))
    (op,) = imported(tmp_path, net).workload.ops
    assert op.gemm.macs == onnx_counting.macs(net, {"x": weight(4, 8)})
    assert (op.kind, op.parameters, op.weight_bytes) == ("recurrent", 64 + 16, 4 * 80)
    assert op.output_bytes == 4 * (4 * 8 + 5 * 4 * 2)
    assert op.vector_ops == 5 * 32


def test_a_loop_that_may_end_sooner_counts_all_its_trips_with_a_remark(tmp_path):
    net = loop("Identity(c)", inputs="bool c, ", n=np.array(5), go=np.array(True))
    found = imported(tmp_path, net)
    assert found.workload.macs == 5 * 4 * 8 * 10
    assert found.remarks == ("Loop that may end sooner (last): counted with all its trips",)


COUNTED = """g (float[4,8] x) => (float[4,8] last) {{
    last, none = Loop (n, go, x, nine) <
      body = b (int64 i, bool on, float[4,8] h, int64[1] left) => (bool more, float[4,8] next, int64[1] less)
      {{
        next = MatMul(h, w)
        less = Sub(left, two)
        rest = Greater(less, one)
        more = {more}
      }}>
}}"""


@pytest.mark.parametrize("limit", ["n", ""])
@pytest.mark.parametrize("more", ["Cast <to: int = 9> (i)", "Less(i, four)", "And(on, rest)"])
def test_a_loop_that_a_counter_ends_has_as_many_trips(tmp_path, more, limit):
    numbers = {"one": np.array([1]), "two": np.array([2]), "four": np.array(4), "nine": np.array([9])}
    net = model(COUNTED.format(more=more), n=np.array(8), go=np.array(True), w=weight(8, 8), **numbers)
    net.graph.node[0].input[0] = limit
    found = imported(tmp_path, net)
    assert found.workload.macs == onnx_counting.macs(net, {"x": weight(4, 8)}) < 8 * 4 * 8 * 8
    assert found.remarks == ()


def test_what_nobody_reads_in_a_loop_is_left_out(tmp_path):
    net = loop(n=np.array(5), go=np.array(True))
    net.graph.output.pop()
    net.graph.node[0].output[1] = ""
    (op,) = imported(tmp_path, net).workload.ops
    assert (op.gemm.macs, op.parameters, op.output_bytes) == (5 * 4 * 8 * 8, 64, 4 * 32)


def test_what_says_whether_a_loop_ends_is_no_dead_end(tmp_path):
    net = loop("Less(s, zero)", n=np.array(5), go=np.array(True), zero=np.float32(0))
    (body,) = (a.g for a in net.graph.node[0].attribute)
    body.node.insert(0, helper.make_node("ReduceSum", ["p"], ["s"], keepdims=0))
    body.node.insert(0, body.node.pop(1 + [node.op_type for node in body.node[1:]].index("MatMul")))
    (op,) = imported(tmp_path, net).workload.ops
    assert op.vector_ops == 5 * (32 + 32 + 1)


@pytest.mark.parametrize(
    "never", [{"n": np.array(0), "go": np.array(True)}, {"n": np.array(5), "go": np.array(False)}]
)
def test_a_loop_that_never_runs_holds_nothing(tmp_path, never):
    (op,) = imported(tmp_path, loop(**never)).workload.ops
    assert (op.gemm, op.parameters, op.weight_bytes, op.vector_ops) == (None, 0, 0, 0)
    assert (op.output_bytes, op.external_bytes) == (4 * 32, 4 * 32)


def test_products_in_a_loop_of_unknown_length_are_refused(tmp_path):
    net = loop(inputs="int64 n, ", go=np.array(True))
    with pytest.raises(InputError, match=r"multiply matrices: Loop of unknown length; --allow-unknown of"):
        imported(tmp_path, net)
    found = imported(tmp_path, net, allow_unknown=True)
    assert found.workload.macs == 4 * 8 * 10
    assert "Loop of unknown length" in found.remarks[0]


@pytest.mark.parametrize("trips", [1, 4])
def test_a_loop_whose_state_grows_is_written_out(tmp_path, trips):
    net = model(
        """g (float[1,8] x) => (float y, float all) {
        y, all = Loop (n, go, x) <
          body = b (int64 i, bool on, float[k,8] h) => (bool more, float[m,8] next, float[8] out) {
            more = Identity(on)
            v = Constant <value: tensor = float[8,8] {ONES}> ()
            p = MatMul(h, v)
            next = Concat <axis = 0> (h, p)
            out = ReduceSum <keepdims = 0> (p, axes)
        }>
    }""".replace("ONES", ",".join("1" for _ in range(64))),
        n=np.array(trips),
        go=np.array(True),
        axes=np.array([0]),
    )
    found = imported(tmp_path, net)
    assert found.workload.macs == onnx_counting.macs(net, {"x": weight(1, 8)})
    assert found.workload.parameters == 64
    assert found.workload.ops[-1].output_bytes == 4 * 8 * trips
    assert found.unknown == ()


def test_a_scan_runs_once_for_each_slice(tmp_path):
    net = model(
        """g (float[6,4,8] x, float[4,3] start) => (float[4,3] last, float all) {
        last, all = Scan <
          num_scan_inputs = 1, body = b (float[4,3] h, float[4,8] s) => (float[4,3] next, float[4,3] out) {
            a = MatMul(s, w)
            c = MatMul(h, u)
            next = Add(a, c)
            out = Identity(next)
        }> (start, x)
    }""",
        w=weight(8, 3),
        u=weight(3, 3),
    )
    (op,) = imported(tmp_path, net).workload.ops
    assert op.gemm.macs == onnx_counting.macs(net, {"x": weight(6, 4, 8), "start": weight(4, 3)})
    assert (op.parameters, op.output_bytes, op.external_bytes) == (24 + 9, 4 * 12 * 7, 4 * (192 + 12))


def test_what_a_sequence_holds_is_read_where_it_is_taken_out(tmp_path):
    net = model(
        """g (float[1,8,64] x) => (float out) {
        parts = SplitToSequence <axis = -1> (x, size)
        first = SequenceAt(parts, zero)
        a = MatMul(first, w)
        more = SequenceInsert(parts, a)
        fewer = SequenceErase(more, zero)
        count = SequenceLength(fewer)
        last = SequenceAt(fewer, minus)
        b = MatMul(last, w)
        made = SequenceConstruct(a, b)
        out = ConcatFromSequence <axis = 1> (made)
    }""",
        size=np.array(16),
        zero=np.array(0),
        minus=np.array(-1),
        w=weight(16, 16),
    )
    found = imported(tmp_path, net)
    first, second, joined = found.workload.ops
    assert found.workload.macs == onnx_counting.macs(net, {"x": weight(1, 8, 64)})
    assert (first.external_bytes, second.inputs[0].source, joined.output_bytes) == (512, first.name, 1024)
    assert found.unknown == ()


@pytest.mark.parametrize("held", ["", "x"])
def test_of_an_optional_that_holds_nothing_the_other_branch_is_taken(tmp_path, held):
    net = model(
        """g (float[4,8] x) => (float y) {
        made = Identity(x)
        same = Identity(made)
        there = OptionalHasElement(same)
        y = If (there) <
          then_branch = t () => (float p) { p = MatMul(x, w) },
          else_branch = e () => (float q) { q = Relu(x) }
        >
    }""",
        w=weight(8, 16),
    )
    kind = helper.make_tensor_type_proto(1, [4, 8])
    net.graph.node[0].CopyFrom(helper.make_node("Optional", [held] if held else [], ["made"], type=kind))
    found = imported(tmp_path, net)
    assert found.workload.macs == (4 * 8 * 16 if held else 0)
    made = helper.make_value_info("made", helper.make_optional_type_proto(kind))
    net.graph.output.append(made)
    assert imported(tmp_path, net).workload.macs == found.workload.macs


def test_functions_of_other_opsets_than_the_models_are_written_out(tmp_path):
    net = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 14, "d" : 1]> g (float[4,8] x, float[8,16] w) => (float[4,16] y)'
        ' { y = d.foo(x, w) } <opset_import: ["" : 13], domain: "d"> foo (a, b) => (c)'
        " { m = MatMul(a, b) c = Relu(m) }"
    )
    assert imported(tmp_path, net).workload.macs == 4 * 8 * 16
