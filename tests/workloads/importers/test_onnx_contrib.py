"""Fused and quantised ops: the products, weights and bytes of what they stand for."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from onnx_models import Net
from workloads.errors import InputError
from workloads.importers.onnx_contrib import WRITERS
from workloads.importers.read import Imported, read

MICROSOFT = {"domain": "com.microsoft"}


def imported(folder: Path, net: Net, *outputs: str, **options: Any) -> Imported:
    return read(net.save(folder / "net.onnx", *outputs), **options)


def packed(net: Net, *shape: int) -> str:
    return net.weight(*shape, kind=TensorProto.UINT8)


def test_weights_of_few_bits_in_blocks_are_held_as_they_are_packed(tmp_path):
    net = Net(x=[1, 16, 256])
    w, scales = packed(net, 128, 8, 16), net.weight(1024)
    y = net.add("MatMulNBits", "x", w, scales, K=256, N=128, bits=4, block_size=32, **MICROSOFT)
    (op,) = imported(tmp_path, net, y).workload.ops
    assert (op.gemm.macs, op.weight_bytes, op.parameters) == (16 * 256 * 128, 16384 + 4096, 256 * 128)
    assert op.output_bytes == 4 * 16 * 128


def test_blocks_of_a_weight_that_is_scaled_back_hold_their_scales(tmp_path):
    net = Net(x=[1, 64])
    given = (
        net.weight(64, 7, kind=TensorProto.INT4),
        net.weight(2, 7),
        net.weight(2, 7, kind=TensorProto.INT4),
    )
    w = net.add("DequantizeLinear", *given, axis=0, block_size=32)
    found = read(net.save(tmp_path / "net.onnx", net.add("MatMul", "x", w), opset=21))
    (op,) = found.workload.ops
    assert (op.weight_bytes, op.parameters) == (224 + 56 + 7, 448)


def test_rows_of_a_packed_table_are_looked_up(tmp_path):
    net = Net()
    ids = net.ids("ids", [1, 4])
    y = net.add(
        "GatherBlockQuantized",
        packed(net, 100, 32),
        ids,
        net.weight(100, 2),
        bits=4,
        block_size=32,
        **MICROSOFT,
    )
    (op,) = imported(tmp_path, net, y).workload.ops
    assert (op.kind, op.parameters, op.weight_bytes, op.output_bytes) == ("embedding", 6400, 4000, 4 * 256)


def attention(net: Net, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
    return net.add(op, *inputs, outputs=outputs, **attributes, **MICROSOFT)


def test_attention_with_its_projections_is_a_product_and_attention(tmp_path):
    net = Net(x=[1, 16, 64])
    y = attention(net, "Attention", "x", net.weight(64, 192), net.weight(192), num_heads=4)
    project, attend = imported(tmp_path, net, y).workload.ops
    assert (project.gemm.macs, project.parameters) == (16 * 64 * 192, 64 * 192 + 192)
    assert (attend.gemm.macs, attend.kind, attend.output_bytes) == (
        2 * 16 * 16 * 64,
        "attention_matmul",
        4096,
    )


def test_attention_with_a_cache_multiplies_all_its_keys(tmp_path):
    net = Net(x=[1, 1, 64], past=[2, 1, 4, 511, 16])
    given = "x", net.weight(64, 192), net.weight(192), "", "past"
    attention(net, "Attention", *given, outputs=2, num_heads=4)
    _, attend = imported(tmp_path, net, "t0", "t0_1").workload.ops
    assert (attend.gemm.macs, attend.output_bytes) == (2 * 512 * 64, 4 * (64 + 2 * 512 * 64))
    first = Net(x=[1, 16, 64])
    attention(first, "Attention", "x", first.weight(64, 192), first.weight(192), outputs=2, num_heads=4)
    assert imported(tmp_path, first, "t0", "t0_1").workload.ops[-1].output_bytes == 4 * (
        16 * 64 + 2 * 16 * 64
    )
    own = Net(q=[1, 4, 1, 16], k=[1, 4, 1, 16], v=[1, 4, 1, 16], pk=[1, 4, 511, 16], pv=[1, 4, 511, 16])
    y = own.add("Attention", "q", "k", "v", "", "pk", "pv")
    (op,) = read(own.save(tmp_path / "own.onnx", y, opset=23)).workload.ops
    assert op.gemm.macs == 2 * 512 * 64


def test_a_quantised_attention_reads_bytes(tmp_path):
    net = Net(x=[1, 16, 64])
    q = net.add("QuantizeLinear", "x", net.value(np.float32(0.1)), net.value(np.int8(0)))
    w, b = net.weight(64, 192, kind=TensorProto.INT8), net.weight(192)
    scale, zero = net.value(np.float32(0.1)), net.value(np.int8(0))
    y = attention(net, "QAttention", q, w, b, scale, scale, "", zero, zero, num_heads=4)
    _, project, attend = imported(tmp_path, net, y).workload.ops
    assert (project.inputs[0].read_bytes, project.weight_bytes) == (1024, 64 * 192 + 4 * 192)
    assert attend.gemm.macs == 2 * 16 * 16 * 64


@pytest.mark.parametrize("is_packed", [False, True])
def test_heads_that_share_keys_and_values(tmp_path, is_packed):
    caches = {"pk": [1, 2, 60, 16], "pv": [1, 2, 60, 16]}
    net = Net(x=[1, 4, 192] if is_packed else [1, 4, 128], k=[1, 4, 32], v=[1, 4, 32], **caches)
    given = ("x", "", "") if is_packed else ("x", "k", "v")
    lengths = net.value(np.array([63], np.int32)), net.value(np.array(64, np.int32))
    heads = {"num_heads": 8, "kv_num_heads": 2}
    attention(net, "GroupQueryAttention", *given, "pk", "pv", *lengths, outputs=3, **heads)
    (op,) = imported(tmp_path, net, "t0", "t0_1", "t0_2").workload.ops
    assert op.gemm.macs == 8 * 4 * 64 * 32
    assert op.output_bytes == 4 * (4 * 128 + 2 * 64 * 2 * 16)


def test_a_cache_of_bytes_is_written_as_bytes(tmp_path):
    net = Net(x=[1, 4, 128], k=[1, 4, 32], v=[1, 4, 32])
    for name in ("pk", "pv"):
        net.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT8, [1, 2, 60, 16]))
    lengths = net.value(np.array([63], np.int32)), net.value(np.array(64, np.int32))
    heads = {"num_heads": 8, "kv_num_heads": 2}
    attention(net, "GroupQueryAttention", "x", "k", "v", "pk", "pv", *lengths, outputs=3, **heads)
    (op,) = imported(tmp_path, net, "t0", "t0_1", "t0_2").workload.ops
    assert op.output_bytes == 4 * 4 * 128 + 2 * 64 * 2 * 16


@pytest.mark.parametrize(("window", "keys"), [(-1, 4096), (64, 64), (5000, 4096)])
def test_in_a_local_window_a_query_attends_to_the_last_keys(tmp_path, window, keys):
    caches = {"pk": [1, 2, 4095, 16], "pv": [1, 2, 4095, 16]}
    net = Net(x=[1, 1, 128], k=[1, 1, 32], v=[1, 1, 32], **caches)
    lengths = net.value(np.array([4095], np.int32)), net.value(np.array(4096, np.int32))
    given = {"num_heads": 8, "kv_num_heads": 2, "local_window_size": window}
    attention(net, "GroupQueryAttention", "x", "k", "v", "pk", "pv", *lengths, outputs=3, **given)
    (op,) = imported(tmp_path, net, "t0", "t0_1", "t0_2").workload.ops
    assert op.gemm.macs == 8 * keys * 32
    assert op.external_bytes == 4 * (128 + 2 * 32 + 2 * 32 * min(keys, 4095))
    assert op.output_bytes == 4 * (128 + 2 * 4096 * 32)


@pytest.mark.parametrize(
    ("inputs", "keys"),
    [
        ({"q": [1, 4, 128], "k": [1, 6, 128], "v": [1, 6, 128]}, 6),
        ({"q": [1, 4, 128], "k": [1, 8, 9, 16], "v": [1, 8, 9, 16]}, 9),
        ({"q": [1, 4, 128], "k": [1, 6, 8, 2, 16]}, 6),
        ({"q": [1, 4, 8, 3, 16]}, 4),
    ],
)
def test_attention_of_several_heads_in_every_layout(tmp_path, inputs, keys):
    net = Net(**inputs)
    y = attention(net, "MultiHeadAttention", *inputs, num_heads=8)
    (op,) = imported(tmp_path, net, y).workload.ops
    read_elements = sum(int(np.prod(shape)) for shape in inputs.values())
    assert (op.gemm.macs, op.output_bytes) == (8 * 4 * keys * 32, 4 * 4 * 128)
    assert op.external_bytes == 4 * read_elements


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "macs"),
    [
        ("FusedMatMul", ([2, 8, 16], [2, 4, 16]), {"transB": 1}, 2 * 8 * 4 * 16),
        ("FusedMatMul", ([8, 2, 16], [2, 16, 4]), {"transBatchA": 1}, 2 * 8 * 4 * 16),
        ("FusedMatMul", ([2, 16, 8], [16, 4]), {"transA": 1}, 2 * 8 * 4 * 16),
        ("FusedGemm", ([16, 8], [16, 4]), {"transA": 1, "activation": "Relu"}, 8 * 4 * 16),
        ("FusedConv", ([1, 3, 8, 8], [4, 3, 3, 3]), {"activation": "Relu"}, 36 * 4 * 27),
        ("GemmFastGelu", ([2, 8, 16], [16, 4]), {}, 2 * 8 * 4 * 16),
        ("DynamicQuantizeMatMul", ([8, 16], [16, 4]), {}, 8 * 4 * 16),
    ],
)
def test_products_with_a_tail_are_one_op(tmp_path, op, inputs, attributes, macs):
    net = Net(a=inputs[0], b=inputs[1])
    extra = (net.value(np.float32(0.1)),) if op.startswith("Dynamic") else ()
    y = net.add(op, "a", "b", *extra, **attributes, **MICROSOFT)
    (found,) = imported(tmp_path, net, y).workload.ops
    assert found.gemm.macs == macs


def quantised(net: Net, value: str, kind: Any = np.int8) -> str:
    return net.add("QuantizeLinear", value, net.value(np.float32(0.1)), net.value(kind(0)))


@pytest.mark.parametrize(("kind", "width"), [(np.int8, 1), (np.uint8, 1), (np.int16, 2)])
def test_numbers_between_quantising_and_scaling_back_are_read_as_they_are_quantised(tmp_path, kind, width):
    net = Net(x=[1, 8, 32, 32])
    scale, zero = net.value(np.float32(0.1)), net.value(kind(0))
    y = "x"
    for channels in (8, 16):
        q = quantised(net, y, kind)
        x = net.add("DequantizeLinear", q, scale, zero)
        w = net.add(
            "DequantizeLinear", net.weight(16, channels, 3, 3, kind=TensorProto.INT8), net.weight(16), axis=0
        )
        y = net.add("Relu", net.add("Conv", x, w, pads=[1] * 4))
    found = read(net.save(tmp_path / "net.onnx", y, opset=21)).workload
    assert [op.output_bytes for op in found] == [8192 * width, 16384 * width, 65536]
    assert [edge.read_bytes for op in found for edge in op.inputs] == [8192 * width, 16384 * width]
    assert [(op.weight_bytes, op.parameters) for op in found][1:] == [
        (1152 + 64, 1152),
        (2304 + 64, 2304),
    ]


def test_a_result_that_is_scaled_back_is_written_as_floats(tmp_path):
    net = Net(x=[1, 64])
    scale, zero = net.value(np.float32(0.1)), net.value(np.int8(0))
    y = net.add("DequantizeLinear", quantised(net, net.add("Relu", "x")), scale, zero)
    (op,) = imported(tmp_path, net, y).workload.ops
    assert (op.output_bytes, op.is_output) == (256, True)


def test_quantised_ops_are_the_same_as_quantising_around_plain_ones(tmp_path):
    plain, fused = Net(x=[1, 8, 32, 32]), Net(x=[1, 8, 32, 32])
    found = []
    for net in (plain, fused):
        q, scale, zero = quantised(net, "x"), net.value(np.float32(0.1)), net.value(np.int8(0))
        w, scales = net.weight(16, 8, 3, 3, kind=TensorProto.INT8), net.weight(16)
        zeros, bias = net.weight(16, kind=TensorProto.INT8), net.weight(16, kind=TensorProto.INT32)
        if net is fused:
            y = net.add("QLinearConv", q, scale, zero, w, scales, zeros, scale, zero, bias, pads=[1] * 4)
        else:
            back = (
                net.add("DequantizeLinear", q, scale, zero),
                net.add("DequantizeLinear", w, scales, zeros, axis=0),
                net.add("DequantizeLinear", bias, scales, axis=0),
            )
            y = net.add("QuantizeLinear", net.add("Conv", *back, pads=[1] * 4), scale, zero)
        found.append(imported(tmp_path, net, y).workload.ops[-1])
    assert (found[0].gemm, found[0].weight_bytes, found[0].output_bytes) == (
        found[1].gemm,
        found[1].weight_bytes,
        found[1].output_bytes,
    )
    assert found[1].parameters == 16 * 8 * 9 + 16


def test_images_whose_channels_come_last_have_the_same_work(tmp_path):
    found = []
    for last, size in ((0, [1, 8, 20, 24]), (1, [1, 20, 24, 8])):
        net = Net(x=size)
        s, z = net.value(np.float32(0.1)), net.value(np.int8(0))
        w = net.weight(16, 8, 3, 3, kind=TensorProto.INT8)
        given = {"channels_last": last, **MICROSOFT}
        y = net.add("QLinearConv", quantised(net, "x"), s, z, w, s, z, s, z, pads=[1] * 4, **given)
        y = net.add("QLinearGlobalAveragePool", y, s, z, s, z, **given)
        ops = imported(tmp_path, net, y).workload.ops
        found.append([replace(op, name="", inputs=()) for op in ops[1:]])
    assert found[0] == found[1]
    assert (found[0][0].gemm.macs, found[0][-1].output_bytes) == (480 * 16 * 72, 16)


def test_the_other_quantised_ops_read_and_write_bytes(tmp_path):
    net = Net(x=[1, 8, 4, 4])
    s, z = net.value(np.float32(0.1)), net.value(np.int8(0))
    q = quantised(net, "x")
    for op, given in (
        ("QLinearAdd", (q, s, z, q, s, z, s, z)),
        ("QLinearMul", (q, s, z, q, s, z, s, z)),
        ("QLinearLeakyRelu", (q, s, z, s, z)),
        ("QLinearGlobalAveragePool", (q, s, z, s, z)),
        ("QLinearConcat", (s, z, q, s, z, q, s, z)),
    ):
        each = Net(x=[1, 8, 4, 4])
        each.nodes, each.weights = [*net.nodes], net.weights
        attributes = {"axis": 1} if op == "QLinearConcat" else {}
        y = each.add(op, *given, **attributes, **MICROSOFT)
        found = imported(tmp_path, each, y).workload.ops
        size = {"QLinearGlobalAveragePool": 8, "QLinearConcat": 256}.get(op, 128)
        assert (found[-1].output_bytes, found[-1].is_output) == (size, True), op


def test_a_norm_of_a_sum_hands_on_the_sum(tmp_path):
    for op, positions in (("SkipLayerNormalization", 3), ("SkipSimplifiedLayerNormalization", 2)):
        net = Net(x=[1, 4, 8], skip=[1, 4, 8])
        net.add(op, "x", "skip", *(net.weight(8) for _ in range(positions - 1)), outputs=4, **MICROSOFT)
        net.nodes[-1].output[1] = net.nodes[-1].output[2] = ""
        add, norm = imported(tmp_path, net, "t0", "t0_3").workload.ops
        assert (add.kind, add.is_output, norm.kind) == ("elementwise", True, "norm")
        assert norm.parameters == 8 * (positions - 1)


def test_embeddings_with_their_norm_are_lookups_sums_and_a_norm(tmp_path):
    net = Net()
    ids, segments = net.ids("ids", [1, 4]), net.ids("segments", [1, 4])
    tables = [net.weight(rows, 8) for rows in (100, 16, 2)]
    net.add(
        "EmbedLayerNormalization",
        ids,
        segments,
        *tables,
        net.weight(8),
        net.weight(8),
        outputs=2,
        **MICROSOFT,
    )
    net.nodes[-1].output[1] = ""
    found = imported(tmp_path, net, "t0").workload
    assert found.parameters == 8 * (100 + 16 + 2 + 2)
    assert [op.kind for op in found].count("embedding") == 3


def test_a_quantised_recurrent_op_has_the_products_of_a_plain_one(tmp_path):
    net = Net(x=[7, 2, 3])
    w, r = (net.weight(1, depth, 20, kind=TensorProto.INT8) for depth in (3, 5))
    given = "x", w, r, "", "", "", "", "", net.weight(1), net.weight(1), net.weight(1), net.weight(1)
    y = net.add("DynamicQuantizeLSTM", *given, hidden_size=5, **MICROSOFT)
    (op,) = imported(tmp_path, net, y).workload.ops
    assert (op.gemm.macs, op.parameters, op.weight_bytes) == (7 * 2 * 20 * 8, 160, 160)


def test_an_op_of_that_domain_that_is_not_known_is_refused_by_name(tmp_path):
    net = Net(x=[1, 16, 64])
    y = net.add("PackedAttention", "x", net.weight(64, 192), num_heads=4, **MICROSOFT)
    with pytest.raises(
        InputError, match=r"multiply matrices: com\.microsoft\.PackedAttention; --allow-unknown"
    ):
        imported(tmp_path, net, y)


def test_a_known_op_without_what_it_needs_is_refused_in_a_line(tmp_path):
    for op in sorted(WRITERS):
        domain, _, kind = op.rpartition(".")
        net = Net(x=[1, 16, 64], y=[1, 16, 64])
        file = net.save(tmp_path / "net.onnx", net.add(kind, "x", "y", "x", "y", domain=domain))
        with contextlib.suppress(InputError):
            read(file)


def heads(*sizes: int) -> list[list[int]]:
    """Shapes of queries, keys and values [2, 4, 8, 16], the latter with these heads, places and size of values."""
    pairs, keys, width = sizes
    return [[2, 4, 8, 16], [2, pairs, keys, 16], [2, pairs, keys, width]]


def flat(*sizes: int) -> list[list[int]]:
    pairs, keys, width = sizes
    return [[2, 8, 64], [2, keys, pairs * 16], [2, keys, pairs * width]]


OF_HEADS = {"q_num_heads": 4, "kv_num_heads": 2}
ATTENTION: dict[str, tuple[list[list[int]], int, dict[str, int]]] = {
    "heads": (heads(4, 8, 16), 4, {}),
    "fewer keys than queries": (heads(4, 3, 16), 4, {}),
    "wide values, shared keys": (heads(2, 9, 24), 4, {}),
    "flat": (flat(2, 8, 16), 4, OF_HEADS),
    "flat, wide values": (flat(2, 5, 24), 4, OF_HEADS),
    "no scores": (heads(4, 8, 16), 3, {}),
}


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("past", [0, 5])
def test_attention_whose_file_states_no_sizes_has_those_that_it_computes(name, past, tmp_path):
    """The sizes are those of what ONNX's own evaluator computes: results, keys and values, scores."""
    shapes, outputs, attributes = ATTENTION[name]
    given = dict(zip("qkv", shapes, strict=True))
    caches = {}
    if past:
        pairs = shapes[1][1] if len(shapes[1]) == 4 else 2
        widths = [each[-1] if len(each) == 4 else each[-1] // pairs for each in shapes[1:]]
        caches = {f"past{n}": [2, pairs, past, width] for n, width in enumerate(widths)}
    net = Net(**given, **caches)
    names = ["q", "k", "v", *(["", *caches] if past else [])]
    y = net.add("Attention", *names, outputs=outputs, **attributes)
    file = net.save(tmp_path / "net.onnx", y, *(f"{y}_{n}" for n in range(1, outputs)), opset=23)
    (op,) = read(file).workload.ops
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=shape).astype(np.float32) for name, shape in (given | caches).items()}
    made = ReferenceEvaluator(file).run(None, values)
    assert op.output_bytes == sum(each.nbytes for each in made)
    keys = past + shapes[1][-2]
    width = shapes[2][-1] if len(shapes[2]) == 4 else shapes[2][-1] // 2
    assert op.gemm.macs == 2 * 4 * 8 * keys * (16 + width)
