"""ONNX files as workloads: shapes, what is folded, what a dimension is, what is refused."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import onnx_models
from onnx_models import Net
from workloads.errors import InputError
from workloads.importers import onnx_file
from workloads.importers.read import read
from workloads.load import load
from workloads.serialize import from_json, to_json
from workloads.workload import Edge


def test_an_imported_resnet50_agrees_with_the_zoo(tmp_path):
    net, zoo = read(onnx_models.resnet50(tmp_path / "net.onnx")).workload, load("resnet50")
    assert net.macs == zoo.macs
    assert net.parameters == zoo.parameters
    assert [op.kind for op in net] == [op.kind for op in zoo]
    assert sum(op.vector_ops for op in net) == sum(op.vector_ops for op in zoo)
    assert sum(op.output_bytes for op in net) == 4 * sum(op.output_bytes for op in zoo)
    shapes = sorted(
        (op.ifm, op.ofm, op.kernel, op.stride, op.pad, op.gemm) for op in net if op.kind == "conv"
    )
    assert shapes == sorted(
        (op.ifm, op.ofm, op.kernel, op.stride, op.pad, op.gemm) for op in zoo if op.kind == "conv"
    )


def test_an_imported_bert_agrees_with_the_zoo(tmp_path):
    net, zoo = read(onnx_models.bert(tmp_path / "net.onnx"), fuse=False).workload, load("bert")
    missing = {
        op.name for op in zoo if op.name.startswith(("pooler", "classifier")) or "token_type" in op.name
    }
    same = [op for op in zoo if op.name not in missing]
    assert net.macs == sum(op.gemm.macs for op in same if op.gemm)
    assert net.parameters == sum(op.parameters for op in same)
    for kind in ("matmul", "attention_matmul", "transpose", "norm", "activation"):
        mine, theirs = ([op for op in ops if op.kind == kind] for ops in (net, same))
        assert sorted((op.ofm, op.vector_ops) for op in mine) == sorted(
            (op.ofm, op.vector_ops) for op in theirs
        )


def test_fusing_changes_neither_products_nor_weights(tmp_path):
    file = onnx_models.bert(tmp_path / "net.onnx", layers=2, length=16, hidden=64, heads=4)
    fused, plain = read(file), read(file, fuse=False)
    assert len(fused.workload) < len(plain.workload)
    assert fused.workload.macs == plain.workload.macs
    assert fused.workload.parameters == plain.workload.parameters
    assert sorted(n for nodes in fused.nodes.values() for n in nodes) == sorted(
        n for nodes in plain.nodes.values() for n in nodes
    )


def test_bias_batch_norm_activation_and_residual_add_run_in_the_convolution(tmp_path):
    net = Net(x=[1, 4, 8, 8])
    y = net.add("Conv", "x", net.weight(4, 4, 1, 1), kernel_shape=[1, 1])
    y = net.add("BatchNormalization", y, *(net.weight(4) for _ in range(4)))
    first = net.add("Relu", y)
    y = net.conv(first, 4, 4, 3)
    file = net.save(tmp_path / "net.onnx", net.add("Relu", net.add("Add", y, first)))
    found = read(file)
    one, two = found.workload.ops
    assert found.nodes == {
        "conv0": ("conv0", "batchnormalization1", "relu2"),
        "conv3": ("conv3", "add4", "relu5"),
    }
    assert (one.parameters, one.vector_ops) == (16 + 4, 256)
    assert (two.inputs, two.vector_ops, two.is_output) == ((Edge("conv0", 1024),), 512, True)


@pytest.mark.parametrize(
    ("op", "weight", "constant", "vector_ops"),
    [
        ("MatMul", (8, 6), (6,), 0),
        ("MatMul", (8, 6), (5, 6), 30),
        ("MatMul", (8, 6), (5, 1), 0),
        ("MatMul", (8, 2), (5, 1), 10),
        ("Conv", (3, 5, 1), (3, 1), 0),
        ("Conv", (3, 5, 1), (3, 8), 24),
        ("blk,kho->blho", (8, 2, 3), (2, 3), 0),
        ("blk,kho->blho", (8, 2, 3), (5, 2, 3), 30),
    ],
)
def test_an_added_constant_is_a_bias_where_it_has_at_most_a_number_a_feature(
    tmp_path, op, weight, constant, vector_ops
):
    net = Net(x=[1, 5, 8])
    given = {"equation": op} if "->" in op else {}
    y = net.add("Einsum" if given else op, "x", net.weight(*weight), **given)
    (op,) = read(net.save(tmp_path / "net.onnx", net.add("Add", y, net.weight(*constant)))).workload.ops
    assert (op.vector_ops, op.parameters) == (vector_ops, np.prod(weight) + np.prod(constant))


def test_a_batch_norm_without_a_convolution_is_a_gain_and_a_shift(tmp_path):
    net = Net(x=[1, 4, 8, 8])
    y = net.add("BatchNormalization", "x", *(net.weight(4) for _ in range(4)))
    (op,) = read(net.save(tmp_path / "net.onnx", y)).workload.ops
    assert (op.kind, op.parameters, op.vector_ops) == ("norm", 8, 512)


def test_a_tensor_that_others_read_keeps_its_op_apart(tmp_path):
    net = Net(x=[2, 8])
    y = net.add("MatMul", "x", net.weight(8, 8))
    gelu = net.add("Mul", y, net.add("Sigmoid", y))
    file = net.save(tmp_path / "net.onnx", net.add("Softmax", gelu), net.add("Tanh", gelu))
    assert list(read(file).nodes.values()) == [("matmul0", "sigmoid1", "mul2"), ("softmax3",), ("tanh4",)]
    both = Net(x=[2, 8])
    y = both.add("MatMul", "x", both.weight(8, 8))
    outputs = (both.add("Softmax", both.add(op, y)) for op in ("Sigmoid", "Tanh"))
    ops = read(both.save(tmp_path / "both.onnx", *outputs)).workload.ops
    assert sorted(op.kind for op in ops) == ["activation", "activation", "matmul", "softmax", "softmax"]
    two = Net(x=[2, 8])
    y = two.add("MatMul", "x", two.weight(8, 8))
    file = two.save(tmp_path / "two.onnx", two.add("Relu", y), y)
    assert [op.is_output for op in read(file).workload] == [True, True]


def test_views_and_parts_are_read_by_their_consumers(tmp_path):
    net = Net(x=[1, 6, 4])
    y = net.add("Relu", "x")
    first = net.add("Slice", y, *(net.value(np.array([v])) for v in (0, 2, 1)))
    one = net.add("Gather", y, net.value(np.int64(0)), axis=1)
    whole = net.add("Softmax", net.add("Reshape", y, net.value(np.array([4, 6]))))
    outputs = net.add("Softmax", first), net.add("Softmax", one), whole
    ops = read(net.save(tmp_path / "net.onnx", *outputs)).workload.ops
    assert [op.kind for op in ops] == ["activation", "softmax", "softmax", "softmax"]
    assert sorted(op.inputs[0].read_bytes for op in ops[1:]) == [16, 32, 96]


def test_what_is_computed_from_constants_is_a_constant(tmp_path):
    net = Net(x=[1, 8, 16])
    scale = net.add(
        "Div", net.weight(8, 1, 1), net.add("ReduceL2", net.weight(8, 8, 3), axes=[2], keepdims=1)
    )
    y = net.add("Conv", "x", net.add("Mul", net.weight(8, 8, 3), scale), kernel_shape=[3], pads=[1, 1])
    (op,) = read(net.save(tmp_path / "net.onnx", y, opset=13)).workload.ops
    assert (op.kind, op.parameters, op.gemm.macs) == ("conv", 192, 16 * 8 * 8 * 3)


def test_shapes_are_followed_through_arithmetic_on_shapes(tmp_path):
    net = Net(x=["batch", 6, 4])
    batch = net.add("Gather", net.add("Shape", "x"), net.value(np.int64(0)))
    rows = net.add("Mul", batch, net.value(np.int64(3)))
    shape = net.add(
        "Concat", net.add("Unsqueeze", rows, net.value(np.array([0]))), net.value(np.array([-1])), axis=0
    )
    y = net.add("MatMul", net.add("Reshape", "x", shape), net.weight(8, 5))
    found = read(net.save(tmp_path / "net.onnx", y), {"batch": 2})
    assert found.unknown == ()
    assert [(op.kind, op.output_bytes) for op in found.workload] == [("matmul", 6 * 5 * 4)]


def test_an_open_dimension_is_asked_for_by_name(tmp_path):
    file = onnx_models.tiny(tmp_path / "net.onnx", x=["batch", 3, 8, 8])
    with pytest.raises(InputError, match=r"found open: 'batch' \(of input 'x'\); add --dim batch=NUMBER$"):
        read(file)
    with pytest.raises(
        InputError, match=r"; egrl import .*/net.onnx -o net.json --dim batch=NUMBER makes net.json, which"
    ):
        load(file)
    assert read(file, {"batch": 4}).workload.ops[0].batch == 4
    with pytest.raises(
        InputError, match=r"--dim length: expected one of the open dimensions of .* \(batch\)"
    ):
        read(file, {"batch": 4, "length": 2})


def test_a_dimension_without_a_name_is_called_by_its_place(tmp_path):
    model = onnx.load_model_from_string(Path(onnx_models.tiny(tmp_path / "net.onnx")).read_bytes())
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=r"--dim x\[0\]=NUMBER"):
        read(str(tmp_path / "net.onnx"))
    assert read(str(tmp_path / "net.onnx"), {"x[0]": 3}).workload.ops[0].batch == 3


@pytest.mark.parametrize("equation", ["...i} ->...i", "ij", "ij,jk->ik", "", "->", "...i->k"])
def test_an_equation_that_is_none_is_refused(tmp_path, equation):
    net = Net(x=[3, 5, 5])
    text = refused(tmp_path, net.model(net.add("Einsum", "x", equation=equation)))
    assert "node 'einsum0' (Einsum): expected inputs and attributes as its op has them" in text


def test_a_fourier_transform_costs_five_n_log_n(tmp_path):
    net = Net(x=[1, 64, 1])
    (op,) = read(net.save(tmp_path / "net.onnx", net.add("DFT", "x", axis=1), opset=17)).workload.ops
    assert (op.vector_ops, op.output_bytes) == (5 * 64 * 6, 64 * 2 * 4)


def test_dimensions_without_a_name_are_each_their_own(tmp_path):
    net = Net(x=[1, 3, "?", "?"])
    file = net.save(tmp_path / "net.onnx", net.add("Conv", "x", net.weight(8, 3, 3, 3)))
    with pytest.raises(InputError, match=r"add --dim x\[2\]=NUMBER --dim x\[3\]=NUMBER$"):
        read(file, {"?": 48})
    assert read(file, {"x[2]": 48, "x[3]": 192}).workload.macs == 8 * 27 * 46 * 190


def test_one_axis_of_a_named_dimension_can_have_a_size_of_its_own(tmp_path):
    net = Net(x=["n", "n"])
    file = net.save(tmp_path / "net.onnx", net.add("Relu", "x"))
    assert read(file, {"n": 4, "x[1]": 5}).workload.ops[0].output_bytes == 4 * 20
    assert read(file, {"x[0]": 3, "x[1]": 5}).workload.ops[0].output_bytes == 4 * 15
    with pytest.raises(InputError, match=r"--dim x\[2\]: expected one of the open dimensions"):
        read(file, {"n": 4, "x[2]": 5})


@pytest.mark.parametrize(
    "place", ["../../etc/passwd", "/etc/passwd", "../\u00e9", "a/../../b", "..\\b", "C:\\b"]
)
def test_values_outside_the_models_folder_are_refused(tmp_path, place):
    net = Net(x=[1, 8])
    model = net.model(net.add("MatMul", "x", net.weight(8, 4)))
    model.graph.initializer[0].external_data[0].value = place
    assert "tensor 'w0': expected its values in a file below the model's folder, found" in refused(
        tmp_path, model
    )


def test_what_is_cast_to_another_tensors_type_has_its_width(tmp_path):
    net = Net(x=[64, 64])
    net.inputs.append(helper.make_tensor_value_info("like", TensorProto.FLOAT16, [1]))
    y = net.add("CastLike", net.add("Softmax", "x"), "like")
    w = net.weight(64, 8, kind=TensorProto.FLOAT16)
    ops = read(net.save(tmp_path / "net.onnx", net.add("MatMul", y, w))).workload.ops
    assert ops[-1].inputs[0].read_bytes == 64 * 64 * 2


def test_products_of_guessed_sizes_are_refused(tmp_path):
    net = Net(x=[4, 8])
    y = net.add("Cast", net.add("NonZero", "x"), to=TensorProto.FLOAT)
    file = net.save(tmp_path / "net.onnx", net.add("MatMul", y, net.weight(8, 4)))
    with pytest.raises(InputError, match="that could multiply matrices: MatMul of unknown size"):
        read(file)
    assert read(file, allow_unknown=True).workload.macs > 0


@pytest.mark.parametrize(
    ("op", "sizes", "attributes"),
    [
        ("MatMul", [[2, 64], [32, 30]], {}),
        ("MatMul", [[2, 64], [1, 30]], {}),
        ("Gemm", [[2, 64], [30, 64]], {}),
        ("Gemm", [[2, 64], [64, 30]], {"transB": 1}),
        ("Conv", [[1, 3, 8, 8], [4, 5, 3, 3]], {}),
        ("Conv", [[1, 4, 8, 8], [4, 4, 3, 3]], {"group": 2}),
        ("ConvTranspose", [[1, 3, 8, 8], [4, 5, 3, 3]], {}),
        ("Einsum", [[2, 3], [4, 5]], {"equation": "ij,jk->ik"}),
        ("Einsum", [[2, 3], [3, 3]], {"equation": "ii,ij->j"}),
        ("LSTM", [[7, 1, 5], [1, 32, 6], [1, 32, 8]], {"hidden_size": 8}),
    ],
)
def test_products_of_shapes_that_contradict_are_refused(tmp_path, op, sizes, attributes):
    net = Net(x=sizes[0])
    y = net.add(op, "x", *(net.weight(*size) for size in sizes[1:]), **attributes)
    with pytest.raises(
        InputError, match=f"{op} of shapes that do not fit|{op}.*expected the same along one axis"
    ):
        read(net.save(tmp_path / "net.onnx", y))


def test_a_guessed_size_is_that_of_the_largest_input_that_is_no_weight(tmp_path):
    net = Net(x=[4, 8])
    y = net.add("Strange", "x", net.weight(100, 100), domain="acme")
    (op,) = read(net.save(tmp_path / "net.onnx", y), allow_unknown=True).workload.ops
    assert (op.output_bytes, op.weight_bytes) == (128, 40_000)


def test_a_few_ops_of_unknown_work_are_said_and_let_pass(tmp_path):
    net = Net(x=[1, 64], small=[1, 8])
    y = net.add("MatMul", "x", net.weight(64, 64))
    file = net.save(tmp_path / "net.onnx", net.add("Strange", "small", domain="acme"), y)
    assert read(file).remarks[0].startswith("1 op of 1 kind of unknown work (acme.Strange): their time")
    many = [net.add("Strange", "small", domain="acme") for _ in range(20)]
    with pytest.raises(
        InputError, match=r"21 ops of 1 kind of unknown work \(acme.Strange x21\), with \d+% of"
    ):
        read(net.save(tmp_path / "net.onnx", *many, "t1", y))


def test_unknown_ops_are_priced_as_movers_with_one_remark(tmp_path):
    net = Net(x=[4, 8])
    y = net.add("Strange", net.add("Strange", "x", domain="acme"), domain="acme")
    found = read(net.save(tmp_path / "net.onnx", net.add("Relu", y)), allow_unknown=True)
    assert found.remarks == (
        "2 ops of 1 kind of unknown work (acme.Strange x2): their time counts as memory traffic alone",
        "3 sizes are unknown, each taken as that of its op's largest input (t0, t1, t2)",
    )
    assert found.summary == f"3 ops, 0 products, 0 parameters; {'; '.join(found.remarks)}"
    assert found.workload.remarks == found.remarks
    assert [(op.kind, op.vector_ops, op.output_bytes) for op in found.workload] == [
        ("other", 32, 128),
        ("other", 32, 128),
        ("activation", 32, 128),
    ]


def test_shapes_that_depend_on_data_are_named(tmp_path):
    net = Net(x=[4, 8])
    file = net.save(tmp_path / "net.onnx", net.add("Cast", net.add("NonZero", "x"), to=TensorProto.FLOAT))
    found = read(file)
    assert found.unknown == ("t0", "t1")
    assert found.remarks == ("2 sizes are unknown, each taken as that of its op's largest input (t0, t1)",)


def test_functions_of_the_model_are_written_out(tmp_path):
    body = [helper.make_node("MatMul", ["a", "b"], ["p"]), helper.make_node("Relu", ["p"], ["c"])]
    function = helper.make_function("own", "Layer", ["a", "b"], ["c"], body, [helper.make_opsetid("", 20)])
    net = Net(x=[4, 8])
    y = net.add("Layer", "x", net.weight(8, 8), domain="own")
    found = read(net.save(tmp_path / "net.onnx", y, functions=[function]))
    assert [(op.kind, op.parameters, op.vector_ops) for op in found.workload] == [("matmul", 64, 32)]


@pytest.mark.parametrize(
    ("given", "size"), [({}, (30, 64)), ({"transB": 1}, (30, 64)), ({"transB": 0}, (64, 30))]
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_call_has_the_attributes_that_its_function_has_by_default(tmp_path, given, size, nested):
    """Written to the file's graph, or to another function."""
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    gemm = helper.make_node("Gemm", ["a", "b"], ["c"])
    gemm.attribute.add(name="transB", type=onnx.AttributeProto.INT, ref_attr_name="transB")
    default = [helper.make_attribute("transB", 1)]
    inner = helper.make_function("own", "Inner", ["a", "b"], ["c"], [gemm], opsets, [], default)
    call = helper.make_node("Inner", ["a", "b"], ["c"], domain="own", **given)
    outer = helper.make_function("own", "Outer", ["a", "b"], ["c"], [call], opsets)
    net = Net(x=[2, 64])
    name, attributes = ("Outer", {}) if nested else ("Inner", given)
    y = net.add(name, "x", net.weight(*size), domain="own", **attributes)
    found = read(net.save(tmp_path / "net.onnx", y, functions=[inner, outer]))
    assert [op.gemm.macs for op in found.workload] == [2 * 64 * 30]


def test_default_attributes_may_not_grow_beyond_all_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "MAX_WRITTEN_BYTES", 1000)
    opsets, default = [helper.make_opsetid("", 20)], [helper.make_attribute("of", "x" * 600)]
    relu = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("own", "F", ["a"], ["b"], relu, opsets, [], default)
    net = Net(x=[2, 3])
    y = net.add("F", net.add("F", "x", domain="own"), domain="own")
    said = refused(tmp_path, net.model(y, functions=[function]))
    assert "expected at most 1000 bytes of default attributes" in said


def _calls(*functions: tuple[str, str]) -> onnx.ModelProto:
    """A model that calls F0; each function of (name, called) calls the second twice in a row."""
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    made = []
    for name, called in functions:
        domain = "" if called == "Relu" else "own"
        body = [helper.make_node(called, [a], [b], domain=domain) for a, b in ("xm", "my")]
        made.append(helper.make_function("own", name, ["x"], ["y"], body, opsets))
    net = Net(x=[2, 3])
    return net.model(net.add("F0", "x", domain="own"), functions=made)


def test_functions_that_grow_beyond_all_bounds_are_refused(tmp_path):
    doubling = [(f"F{k}", f"F{k + 1}") for k in range(39)] + [("F39", "Relu")]
    assert f"found {2**40} and" in refused(tmp_path, _calls(*doubling))
    assert "function 'F0': expected calls at most 100 deep and none of itself" in refused(
        tmp_path, _calls(("F0", "F1"), ("F1", "F0"))
    )
    deep = [(f"F{k}", f"F{k + 1}") for k in range(100)] + [("F100", "Relu")]
    assert "function 'F100': expected calls at most 100 deep" in refused(tmp_path, _calls(*deep))


def test_values_in_other_files_are_not_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("beside").write_bytes(np.array([7, 11]).tobytes())
    outside = TensorProto(name="shape", data_type=TensorProto.INT64, dims=[2])
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="beside")
    net = Net(x=[1, 1])
    y = net.add("Relu", net.add("Expand", "x", net.add("Constant", value=outside)))
    found = read(net.save(tmp_path / "net.onnx", y))
    assert "77" not in to_json(found.workload)
    assert len(found.unknown) == 2


LARGE = {
    "Range": (np.int64(0), np.int64(2**30), np.int64(1)),
    "Range of floats": (np.float64(0), np.float64(1e30), np.float64(1)),
    "Range without end": (np.int64(0), np.int64(9), np.int64(0)),
    "Expand": (np.int64(1), np.array([2**15, 2**15])),
    "ConstantOfShape": (np.array([2**15, 2**15]),),
}


@pytest.mark.parametrize("name", LARGE)
def test_no_constant_is_computed_that_would_be_large(name, tmp_path, monkeypatch):
    computed: list[int] = []

    class Spy(onnx.reference.ReferenceEvaluator):
        def run(self, *given: Any, **more: Any) -> Any:
            found = super().run(*given, **more)
            computed.append(sum(np.size(each) for each in found))
            return found

    monkeypatch.setattr(onnx.reference, "ReferenceEvaluator", Spy)
    net = Net(x=[4])
    small = net.add("Cast", net.add("Add", *map(net.value, ([1, 2], [3, 4]))), to=1)
    large = net.add("Cast", net.add(name.split()[0], *map(net.value, LARGE[name])), to=1)
    read(net.save(tmp_path / "net.onnx", net.add("Add", "x", large), net.add("Mul", "x", small)))
    assert computed == [2, 2]


def test_outputs_that_are_left_out_are_nobodys(tmp_path):
    net = Net(x=[5, 1, 8])
    net.add("LSTM", "x", net.weight(1, 16, 8), net.weight(1, 16, 4), outputs=2, hidden_size=4)
    net.nodes[-1].output[0] = ""
    (op,) = read(net.save(tmp_path / "lstm.onnx", "t0_1")).workload.ops
    assert (op.kind, op.is_output) == ("recurrent", True)
    net = Net(x=[4, 4])
    net.add("Mystery", "x", outputs=2, domain="own")
    net.nodes[-1].output[0] = ""
    (op,) = read(net.save(tmp_path / "own.onnx", "t0_1"), allow_unknown=True).workload.ops
    assert (op.kind, op.output_bytes) == ("other", 64)
    net = Net(x=[1, 4, 8, 8])
    y = net.add("MaxPool", "x", outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    net.nodes[-1].output[1] = ""
    found = read(net.save(tmp_path / "pool.onnx", net.add("Clip", y, "", net.value(np.float32(6)))))
    assert [op.ofm for op in found.workload.ops] == [(4, 4, 4)] * len(found.workload.ops)


def test_a_shared_weight_counts_once_and_is_held_by_each_reader(tmp_path):
    net = Net()
    table = net.weight(100, 8)
    x = net.add("Softmax", net.add("Gather", table, net.ids("ids", [1, 4])))
    file = net.save(tmp_path / "net.onnx", net.add("MatMul", x, net.add("Transpose", table, perm=[1, 0])))
    one, _, two = read(file).workload.ops
    assert (one.kind, one.weight_bytes, one.weight_read_bytes, one.parameters) == (
        "embedding",
        3200,
        128,
        800,
    )
    assert (two.kind, two.weight_bytes, two.weight_read_bytes, two.parameters) == ("matmul", 3200, 3200, 0)
    assert read(file).remarks == ("3200 of 6400 bytes of weights are read by several ops: each holds them",)


def test_widths_are_those_of_the_file_or_the_ones_given(tmp_path):
    net = Net(x=[4, 8])
    scale, zero = net.value(np.float32(0.1)), net.value(np.int8(0))
    w = net.add("DequantizeLinear", net.weight(8, 8, kind=TensorProto.INT8), scale, zero)
    file = net.save(tmp_path / "net.onnx", net.add("MatMul", "x", w))
    (op,) = read(file).workload.ops
    assert (op.weight_bytes, op.output_bytes) == (64, 128)
    assert read(file).workload.element_bytes.weight == 1
    half = read(file, element_bytes=0.5).workload
    assert (half.ops[0].weight_bytes, half.ops[0].output_bytes, half.element_bytes.weight) == (32, 16, 0.5)


REARRANGED = {
    "Transpose": [{"perm": [1, 0]}],
    "Reshape": [{}, np.array([8, 8])],
    "Slice": [{}, np.array([0]), np.array([8])],
    "Split": [{"num_outputs": 1}],
    "Concat": [{"axis": 0}],
}


@pytest.mark.parametrize("op", REARRANGED)
@pytest.mark.parametrize("has_values", [False, True])
def test_a_narrow_weight_keeps_its_width_and_scales_however_it_is_rearranged(tmp_path, op, has_values):
    net = Net(x=[4, 8])
    attributes, *settings = REARRANGED[op]
    widths = {TensorProto.INT8: np.int8, TensorProto.FLOAT16: np.float16}
    eight, half = (
        net.value(np.ones((8, 8), dtype)) if has_values else net.weight(8, 8, kind=kind)
        for kind, dtype in widths.items()
    )
    scaled = net.add("DequantizeLinear", eight, net.weight(8), axis=0)
    cast = net.add("Cast", half, to=TensorProto.FLOAT)
    made = [net.add(op, w, *map(net.value, settings), **attributes) for w in (scaled, cast)]
    file = net.save(tmp_path / "net.onnx", *(net.add("MatMul", "x", w) for w in made))
    held = [(each.weight_bytes, each.parameters) for each in read(file).workload.ops]
    assert held == [(64 + 4 * 8, 64), (128, 64)]


def test_joined_weights_are_as_wide_as_the_widest(tmp_path):
    net = Net(x=[4, 8])
    parts = [
        net.add("Cast", net.weight(8, 8, kind=kind), to=TensorProto.FLOAT)
        for kind in (TensorProto.INT8, TensorProto.FLOAT16)
    ]
    w = net.add("Concat", *parts, axis=1)
    (op,) = read(net.save(tmp_path / "net.onnx", net.add("MatMul", "x", w))).workload.ops
    assert (op.weight_bytes, op.parameters) == (2 * 128, 128)


def test_names_are_the_files_and_unique(tmp_path):
    net = Net(x=[2, 3])
    for name, read_, written in (("a/b", "x", "p"), ("a/b", "p", "q"), ("", "q", "r"), ("\n", "r", "s")):
        net.nodes.append(helper.make_node("Softmax", [read_], [written], name=name))
    workload = read(net.save(tmp_path / "my net.onnx", "s")).workload
    assert [op.name for op in workload] == ["a/b", "a/b_2", "r", "?"]
    assert workload.name == "my net"
    assert from_json(to_json(workload), "again") == workload


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "macs"),
    [
        ("Einsum", ([2, 3, 4], [2, 4, 5]), {"equation": "bij,bjk->bik"}, 2 * 3 * 4 * 5),
        ("ConvTranspose", ([1, 4, 5, 5], [4, 3, 2, 2]), {"strides": [2, 2]}, 25 * 4 * 3 * 4),
        ("MatMul", ([3, 4], [4]), {}, 12),
        ("MatMul", ([2, 1, 3, 4], [5, 4, 6]), {}, 2 * 5 * 3 * 4 * 6),
        ("Gemm", ([4, 3], [4, 5]), {"transA": 1}, 60),
        ("LSTM", ([7, 2, 3], [1, 20, 3], [1, 20, 5]), {"hidden_size": 5}, 7 * 2 * 20 * 8),
    ],
)
def test_products_have_the_multiply_accumulates_of_their_shapes(tmp_path, op, inputs, attributes, macs):
    net = Net(**{f"i{i}": shape for i, shape in enumerate(inputs)})
    y = net.add(op, *(f"i{i}" for i in range(len(inputs))), **attributes)
    assert read(net.save(tmp_path / "net.onnx", y)).workload.macs == macs


@pytest.mark.parametrize(
    ("equation", "shapes", "macs", "vector_ops", "size"),
    [
        ("...ij,...jk->...ik", ([2, 8, 16], [2, 16, 32]), 2 * 8 * 16 * 32, 0, 512),
        ("...ij,jk->...ik", ([2, 8, 16], [16, 32]), 2 * 8 * 16 * 32, 0, 512),
        ("ij,jk,kl->il", ([8, 16], [16, 32], [32, 4]), 16 * 32 * 4 + 8 * 16 * 4, 0, 32),
        ("ij,kl->il", ([8, 16], [32, 4]), 32, 8 * 16 + 32 * 4, 32),
        ("bij,bjk->bik", ([1, 8, 16], [4, 16, 32]), 4 * 8 * 16 * 32, 0, 4 * 8 * 32),
        ("ij,jk", ([8, 16], [16, 4]), 8 * 16 * 4, 0, 32),
        ("ii->i", ([5, 5],), 0, 25, 5),
        ("ij->i", ([5, 7],), 0, 35, 5),
        ("bhsd,bhtd->bhst", ([1, 4, 6, 8], [1, 4, 5, 8]), 4 * 6 * 5 * 8, 0, 120),
    ],
)
def test_einsum_multiplies_what_its_operands_share(tmp_path, equation, shapes, macs, vector_ops, size):
    net = Net(**{f"i{i}": shape for i, shape in enumerate(shapes)})
    y = net.add("Einsum", *(f"i{i}" for i in range(len(shapes))), equation=equation)
    (op,) = read(net.save(tmp_path / "net.onnx", y)).workload.ops
    assert (op.gemm.macs if op.gemm else 0, op.vector_ops, op.output_bytes) == (macs, vector_ops, 4 * size)


def test_an_axis_of_size_0_costs_nothing_and_stops_nothing(tmp_path):
    net = Net(x=[0, 8])
    y = net.add("Relu", net.add("MatMul", "x", net.weight(8, 4)))
    (op,) = read(net.save(tmp_path / "net.onnx", y)).workload.ops
    assert (op.gemm, op.output_bytes, op.weight_bytes) == (None, 0, 128)


def test_a_recurrent_op_without_gates_has_no_products(tmp_path):
    net = Net(x=[5, 1, 8])
    y = net.add("LSTM", "x", net.weight(0, 8), net.weight(0, 4), hidden_size=4)
    (op,) = read(net.save(tmp_path / "net.onnx", y)).workload.ops
    assert (op.kind, op.gemm) == ("recurrent", None)


def test_a_packed_file_is_read_too(tmp_path):
    plain = Path(onnx_models.tiny(tmp_path / "net.onnx")).read_bytes()
    (tmp_path / "net.ONNX.gz").write_bytes(gzip.compress(plain))
    assert load(str(tmp_path / "net.ONNX.gz")) == read(str(tmp_path / "net.ONNX.gz")).workload
    assert read(str(tmp_path / "net.ONNX.gz")).workload.name == "net"


@pytest.mark.parametrize("name", ["net.onnx", "net.onnx.gz", "net.pt2"])
@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"PK\3\4 no zip", b"{}", bytes(range(256)), b"\x1f\x8b\x08\0"]
)
def test_what_is_no_model_is_refused_in_one_line(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=re.escape(name)):
        read(str(tmp_path / name))


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    (tmp_path / "folder.onnx").mkdir()
    for name in ("folder.onnx", "missing.onnx"):
        with pytest.raises(InputError, match=f"{name}: expected a model"):
            load(str(tmp_path / name))


def refused(tmp_path: Path, model: onnx.ModelProto) -> str:
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError) as caught:
        read(str(tmp_path / "net.onnx"))
    return str(caught.value)


def test_models_that_cannot_run_are_refused_with_the_place(tmp_path):
    net = Net(x=[2, 3])
    net.add("Relu", "later")
    assert "node 'relu0' (Relu): expected inputs that are written before, found 'later'" in refused(
        tmp_path, net.model("t0")
    )
    assert "expected output 'nowhere' to be written" in refused(tmp_path, _relu().model("nowhere"))
    assert "found only views and constants" in refused(tmp_path, _identity().model("t0"))
    sequence = _relu().model("t0")
    sequence.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    assert "input 'x': expected a tensor, found sequence_type" in refused(tmp_path, sequence)
    negative = _relu().model("t0")
    negative.graph.initializer.add(name="w", data_type=1, dims=[-2])
    assert "initializer 'w': expected sizes >= 0" in refused(tmp_path, negative)
    huge = _relu()
    huge.inputs[0].type.tensor_type.shape.dim[0].dim_value = 2**62
    assert "expected an integer from 0 to" in refused(tmp_path, huge.model("t0"))
    for op, wrong in (
        ("Constant", {"value_int": "x"}),
        ("Shape", {"end": 0.5}),
        ("Softmax", {"axis": "last"}),
    ):
        typed = Net(x=[2, 3])
        last = typed.add("Relu", typed.add(op, *(["x"] if op != "Constant" else []), **wrong))
        assert f"({op}): expected attributes of their types" in refused(tmp_path, typed.model(last))
    many = Net(x=[2**62] * 20)
    assert "tensor 'x': expected at most" in refused(tmp_path, many.model(many.add("Relu", "x")))


def _relu() -> Net:
    net = Net(x=[2, 3])
    net.add("Relu", "x")
    return net


def _identity() -> Net:
    net = Net(x=[2, 3])
    net.add("Identity", "x")
    return net


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    return Path(onnx_models.bert(folder / "net.onnx", layers=1, length=8, hidden=16, heads=2)).read_bytes()


@given(
    cut=st.integers(0, 10**6),
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=4),
)
def test_a_damaged_file_gives_a_workload_or_one_line(tmp_path_factory, whole, cut, flips):
    data = bytearray(whole[: cut % (len(whole) + 1)] if cut % 3 == 0 else whole)
    for place, change in flips:
        if data:
            data[place % len(data)] ^= change
    file = tmp_path_factory.getbasetemp() / "damaged.onnx"
    file.write_bytes(data)
    said = "damaged.onnx"
    try:
        found = read(str(file)).workload
    except InputError as error:
        said = str(error)
    else:
        assert from_json(to_json(found), "") == found
    assert said.isprintable()
    assert "damaged.onnx" in said


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    file = onnx_models.tiny(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=re.escape('pip install "egrl[onnx]"')):
        read(file)


@pytest.mark.exhaustive
def test_a_model_of_ten_thousand_ops_imports_in_seconds(tmp_path):
    net = Net(x=[1, 8])
    y = "x"
    for _ in range(5000):
        y = net.add("Softmax", net.add("MatMul", y, net.weight(8, 8)))
    assert len(read(net.save(tmp_path / "net.onnx", y)).workload) == 10_000
