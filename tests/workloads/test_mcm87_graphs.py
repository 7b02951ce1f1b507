"""What the 87 graphs look like inside: sound, distinct, without attention, with edges where the papers draw them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import prod

import numpy as np
import pytest

from gate import gate
from workloads.features import FEATURES, static_features
from workloads.load import load
from workloads.serialize import from_json, to_json
from workloads.workload import Op, Workload, check, last_consumer
from workloads.zoo.cnn import densenet_cifar
from workloads.zoo.mcm87 import MCM87
from zoo.language import classifier, language_model, tagger, translator
from zoo.mixing import mlp_mixer
from zoo.plain import vgg_tiled
from zoo.residual import cifar_resnet, resnext

each = pytest.mark.parametrize("name", gate(MCM87, tuple(MCM87)[::6]))


@cache
def net(name: str) -> Workload:
    return load(name)


def by_name(workload: Workload) -> dict[str, Op]:
    return {op.name: op for op in workload}


def reads(workload: Workload, name: str) -> list[str]:
    return [edge.source for edge in by_name(workload)[name].inputs]


@each
def test_every_graph_is_sound_bears_its_name_and_has_tens_to_hundreds_of_ops(name):
    workload = net(name)
    assert check(workload) is workload
    assert workload.name == name
    assert 10 <= len(workload) <= 800


@each
def test_every_graph_comes_back_from_its_json(name):
    assert from_json(to_json(net(name)), name) == net(name)


@each
def test_no_graph_has_attention(name):
    """No product of scores, and no softmax but at an output: a softmax over scores would be read by a product."""
    assert not any(op.kind == "attention_matmul" for op in net(name))
    assert all(op.is_output for op in net(name) if op.kind == "softmax")


@each
def test_the_bytes_of_every_op_follow_from_its_shapes(name):
    for op in net(name):
        outputs = 2 if op.kind == "recurrent" and op.name.endswith("cell") else 1
        assert op.output_bytes == outputs * op.batch * prod(op.ofm), op.name
        assert op.parameters in (0, op.weight_bytes), op.name
        assert op.weight_read_bytes == op.weight_bytes or op.kind == "embedding", op.name


@each
def test_every_op_reads_its_main_input_first_and_something_in_any_case(name):
    for op in net(name):
        assert op.inputs or op.external_bytes, op.name
        if op.inputs and not op.external_bytes:
            assert op.inputs[0].read_bytes == op.batch * prod(op.ifm), op.name


@each
def test_weights_are_those_of_the_products_and_a_bias(name):
    for op in net(name):
        if op.gemm is None:
            assert op.kind not in ("conv", "depthwise_conv", "matmul"), op.name
        elif op.weight_bytes:
            held = op.gemm.groups * op.gemm.cols * op.gemm.reduction
            assert op.weight_bytes - held in (0, op.ofm[2], op.gemm.groups * op.gemm.cols), op.name


@each
def test_no_op_holds_more_than_a_chip_of_32_mib(name):
    assert max(op.weight_bytes for op in net(name)) < 32 * 2**20


@each
def test_what_is_read_by_nobody_is_a_result(name):
    readers = last_consumer(net(name))
    unread = {op.name for i, op in enumerate(net(name)) if readers[i] == i}
    assert unread
    assert unread <= {op.name for op in net(name) if op.is_output}


@each
def test_features_stay_in_the_units_of_the_schema(name):
    """Below 2 but for the windows of convolutions over time, dilated by up to 512."""
    x = static_features(net(name))
    windows = [FEATURES.index(column) for column in ("kernel_x", "pad", "dilation")]
    assert (x >= 0).all()
    assert (x[:, windows] < 4).all()
    assert (np.delete(x, windows, axis=1) < 2).all()


def test_no_graph_is_another_at_another_width():
    """Graphs that differ in sizes alone are few: the wide and the grouped ResNets, Mixers, DLRMs."""
    shapes = Counter(
        (tuple(op.kind for op in net(name)), tuple(edge[:2] for edge in net(name).edges())) for name in MCM87
    )
    assert len(shapes) >= 84
    assert max(shapes.values()) <= 3


def test_a_block_of_resnext_has_grouped_convolutions_and_adds_its_projection():
    ops = by_name(resnext(50))
    assert (ops["layer1.0.conv2"].groups, ops["layer1.0.conv2"].ofm) == (32, (56, 56, 128))
    assert reads(resnext(50), "layer1.0.conv3") == ["layer1.0.conv2", "layer1.0.projection"]
    assert reads(resnext(50), "layer1.1.conv3") == ["layer1.1.conv2", "layer1.0.conv3"]


def test_shortcuts_of_a_cifar_resnet_hold_no_weights():
    op = by_name(cifar_resnet(20))["layer2.0.shortcut"]
    assert (op.weight_bytes, op.ofm, op.inputs[0].read_bytes) == (0, (16, 16, 32), 16 * 16 * 16)


def test_four_tiles_of_vgg_read_the_last_pooling_and_are_joined():
    workload = vgg_tiled(16)
    tiles = [f"fc1.tile{i}" for i in range(4)]
    assert all(reads(workload, tile) == ["pool5"] for tile in tiles)
    assert reads(workload, "fc1.concat") == tiles


def test_each_layer_of_a_densenet_reads_all_before_it_through_one_concatenation():
    workload = densenet_cifar(22, growth=12)
    assert reads(workload, "block1.2.concat") == ["block1.1.concat", "block1.2.conv2"]
    assert by_name(workload)["block1.2.conv1"].ifm[2] == 24 + 2 * 12
    assert all(readers <= 2 for readers in Counter(edge[0] for edge in workload.edges()).values())


def test_modules_of_inception_end_in_the_published_numbers_of_channels():
    assert by_name(net("googlenet"))["4e.concat"].ofm == (14, 14, 832)
    sizes = {
        name: by_name(net("inception_v3"))[f"{name}.concat"].ofm for name in ("a2", "b", "c3", "d", "e1")
    }
    assert sizes == {
        "a2": (35, 35, 288),
        "b": (17, 17, 768),
        "c3": (17, 17, 768),
        "d": (8, 8, 1280),
        "e1": (8, 8, 2048),
    }
    assert {op.kernel for op in net("inception_v3") if op.kind == "conv"} >= {(1, 7), (7, 1), (5, 5)}


def test_a_squeeze_is_computed_from_what_it_scales():
    workload = net("efficientnet_b0")
    assert reads(workload, "stage2.0.se.scale") == ["stage2.0.depthwise", "stage2.0.se.expand"]
    assert by_name(workload)["stage2.0.se.reduce"].ofm == (1, 1, 4)


def test_half_of_the_channels_passes_a_unit_of_shufflenet():
    workload = net("shufflenet_v2")
    concat = by_name(workload)["stage2.1.concat"]
    assert [edge.source for edge in concat.inputs] == ["stage2.0.shuffle", "stage2.1.conv2"]
    assert [edge.read_bytes for edge in concat.inputs] == [28 * 28 * 58] * 2


def test_yolo_has_an_output_at_each_of_three_scales():
    outputs = [op.ofm for op in net("yolov3") if op.is_output]
    assert outputs == [(13, 13, 255), (26, 26, 255), (52, 52, 255)]


def test_deeplab_spreads_its_kernels_and_labels_every_pixel():
    dilations = [op.dilation for op in net("deeplab_v3") if op.name.startswith("aspp.rate")]
    assert dilations == [12, 24, 36]
    assert by_name(net("deeplab_v3"))["layer4.2.conv3"].ofm == (48, 48, 2048)
    assert [op.ofm for op in net("deeplab_v3") if op.is_output] == [(384, 384, 21)]


def test_the_halves_of_a_gan_meet_at_an_image():
    assert by_name(net("dcgan"))["generator.conv4"].ofm == (64, 64, 3)
    assert by_name(net("cyclegan"))["up0"].ofm == (256, 256, 64)
    assert by_name(net("autoencoder"))["last"].ofm == (128, 128, 3)


def test_wavenet_doubles_its_dilation_in_every_stack():
    dilations = [op.dilation for op in net("wavenet") if op.name.endswith(".dilated")]
    assert dilations == [2**i for i in range(10)] * 3


def test_the_interaction_of_dlrm_reads_all_tables_and_the_dense_features():
    assert len(reads(net("dlrm"), "stack")) == 27
    assert by_name(net("dlrm"))["top.fc0"].ifm == (1, 1, 27 * 26 // 2 + 16)


def test_a_step_of_an_lstm_reads_the_state_of_the_step_before_and_the_layer_below():
    workload = language_model("lstm", steps=3)
    assert reads(workload, "layer1.t2.gates") == ["layer0.t2.cell", "layer1.t1.cell"]
    assert reads(workload, "layer1.t2.cell") == ["layer1.t2.gates", "layer1.t1.cell"]
    assert reads(workload, "layer0.t0.gates") == ["embedding.t0"]


def test_a_step_of_a_gru_resets_what_its_candidate_reads():
    workload = language_model("gru", layers=1, steps=2)
    assert reads(workload, "layer0.t1.reset") == ["layer0.t1.gates", "layer0.t0.update"]
    assert reads(workload, "layer0.t1.candidate") == ["embedding.t1", "layer0.t1.reset"]
    assert reads(workload, "layer0.t1.update") == [
        "layer0.t1.gates",
        "layer0.t1.candidate",
        "layer0.t0.update",
    ]


def test_the_backward_layer_of_a_tagger_begins_with_the_last_word():
    workload = tagger(steps=3)
    assert reads(workload, "layer0.backward.t0.gates") == ["embedding.t2"]
    assert reads(workload, "layer0.concat.t0") == ["layer0.forward.t0.cell", "layer0.backward.t2.cell"]


def test_a_decoder_begins_with_the_last_state_of_its_encoder():
    workload = translator("lstm", source=3, target=2)
    assert reads(workload, "decoder.layer1.t0.gates") == ["decoder.layer0.t0.cell", "encoder.layer1.t2.cell"]
    assert "encoder.layer1.t2.cell" in reads(workload, "decoder.layer1.t0.cell")


def test_a_classifier_reads_the_last_state_alone():
    assert reads(classifier("lstm", steps=4), "fc") == ["lstm.t3.cell"]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: cifar_resnet(21), "depth: expected 6n + 2, received 21"),
        (lambda: resnext(34), "depth: expected one of 50, 101, 152, received 34"),
        (lambda: vgg_tiled(12), "depth: expected one of 11, 13, 16, 19, received 12"),
        (lambda: vgg_tiled(11, tiles=3), "tiles: expected a divisor of 4096, received 3"),
        (lambda: densenet_cifar(99), "depth: expected 6n + 4, received 99"),
        (lambda: mlp_mixer(patch=15), "patch: expected a divisor of resolution = 224, received 15"),
    ],
)
def test_impossible_sizes_are_refused_by_argument(build, words):
    with pytest.raises(ValueError) as caught:
        build()
    assert words in str(caught.value)


def test_a_builder_names_what_it_builds_after_its_arguments():
    assert resnext(50).name == "resnext_50"
    assert resnext(50, batch=2, group_width=8).name == "resnext_50-group_width8-batch2"
