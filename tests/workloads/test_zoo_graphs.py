"""What the graphs of the zoo look like inside: consistent sizes, and edges where the papers draw them."""

from __future__ import annotations

from collections import Counter
from math import prod

import pytest

from workloads import zoo
from workloads.features import edge_index
from workloads.serialize import from_json, to_json
from workloads.workload import Op, Workload, check, last_consumer
from workloads.zoo.bert_large import bert_large
from workloads.zoo.builder import Builder, Tensor
from workloads.zoo.cnn import alexnet, mobilenet_v2, resnet, unet, vgg16
from workloads.zoo.transformer import bert, gpt2

SMALL = {
    "resnet18 batch 3": lambda: resnet(18, batch=3, resolution=64, width=16, classes=10),
    "resnet50 narrow": lambda: resnet(50, resolution=96, width=8, classes=7),
    "vgg16 large": lambda: vgg16(resolution=256, batch=2),
    "alexnet large": lambda: alexnet(resolution=256),
    "mobilenet wide": lambda: mobilenet_v2(width=1.4, batch=2),
    "bert batch 2": lambda: bert(batch=2, length=16, layers=2, hidden=32, heads=4, intermediate=64),
    "bert_large batch 2": lambda: bert_large(
        batch=2, length=16, layers=2, hidden=32, heads=4, intermediate=64
    ),
    "gpt2 batch 2": lambda: gpt2(batch=2, length=16, layers=2, hidden=32, heads=4, vocabulary=100),
    "unet padded": lambda: unet(resolution=64, padded=True, depth=3, width=8, channels=3, batch=2),
}
ALL = {**{name: zoo.builder_of(name) for name in zoo.ZOO}, **SMALL}


def by_name(net: Workload) -> dict[str, Op]:
    return {op.name: op for op in net}


def reads(op: Op) -> dict[str, int]:
    return {edge.source: edge.read_bytes for edge in op.inputs}


@pytest.mark.parametrize("name", ALL)
def test_every_network_is_sound_and_comes_back_from_its_json(name):
    net = ALL[name]()
    assert check(net) is net
    assert from_json(to_json(net), name) == net


@pytest.mark.parametrize("name", ALL)
def test_the_bytes_of_every_op_follow_from_its_shapes(name):
    net = ALL[name]()
    for op in net:
        outputs = 3 if op.name.endswith(".split") else 1
        assert op.output_bytes == outputs * op.batch * prod(op.ofm), op.name
        assert op.parameters in (0, op.weight_bytes), op.name
        assert op.weight_read_bytes == op.weight_bytes or op.kind == "embedding", op.name


@pytest.mark.parametrize("name", ALL)
def test_the_first_edge_of_every_op_reads_its_main_input(name):
    net = ALL[name]()
    ops = by_name(net)
    for op in net:
        if op.inputs:
            first = op.inputs[0]
            assert first.read_bytes == op.batch * prod(op.ifm), op.name
            producer = ops[first.source]
            if op.kind not in ("split", "concat") and producer.kind != "split":
                assert first.read_bytes == producer.output_bytes, op.name
        else:
            assert op.external_bytes > 0 or op.weight_bytes > 0, op.name


@pytest.mark.parametrize("name", ALL)
def test_products_of_convolutions_and_matmuls_have_the_shape_of_their_tensors(name):
    for op in ALL[name]():
        if op.gemm is None:
            assert op.kind not in ("conv", "depthwise_conv", "matmul", "attention_matmul"), op.name
            continue
        assert op.gemm.groups * op.gemm.rows * op.gemm.cols == op.output_bytes, op.name
        if op.kind == "attention_matmul":
            assert op.weight_bytes == 0
            assert op.gemm.groups == op.batch * op.ifm[0]
            continue
        bias = 0 if op.name.endswith("matmul") or op.name == "lm_head" else op.ofm[2]
        assert op.gemm.groups * op.gemm.cols * op.gemm.reduction + bias == op.weight_bytes, op.name


@pytest.mark.parametrize("name", ALL)
def test_only_results_are_read_by_nobody(name):
    net = ALL[name]()
    readers = last_consumer(net)
    unread = [op.name for i, op in enumerate(net) if readers[i] == i]
    assert unread == [op.name for op in net if op.is_output] == [net.ops[-1].name]


def test_a_bottleneck_ends_in_a_convolution_that_adds_its_projection():
    ops = by_name(resnet(50))
    assert list(reads(ops["layer1.0.conv3"])) == ["layer1.0.conv2", "layer1.0.projection"]
    assert list(reads(ops["layer1.0.projection"])) == ["maxpool"]
    assert list(reads(ops["layer1.1.conv3"])) == ["layer1.1.conv2", "layer1.0.conv3"]
    assert reads(ops["layer1.1.conv3"])["layer1.0.conv3"] == 56 * 56 * 256
    assert ops["layer1.1.conv3"].vector_ops == 2 * 56 * 56 * 256
    assert ops["layer1.1.conv1"].vector_ops == 56 * 56 * 64


def test_a_bottleneck_halves_the_resolution_in_its_3x3_convolution():
    ops = by_name(resnet(101))
    assert ops["layer3.0.conv1"].stride == 1
    assert ops["layer3.0.conv2"].stride == 2
    assert ops["layer3.22.conv2"].ofm == (14, 14, 256)


def test_resnet50_has_53_convolutions_of_which_four_project():
    net = resnet(50)
    assert Counter(op.kind for op in net) == {"conv": 53, "pool": 2, "matmul": 1, "softmax": 1}
    assert sum(op.name.endswith("projection") for op in net) == 4
    assert edge_index(net).shape[1] == 56 + 16


def test_resnet34_projects_in_three_stages_only():
    assert sum(op.name.endswith("projection") for op in resnet(34)) == 3


def test_mobilenet_adds_ten_skips_and_expands_but_in_its_first_block():
    net = mobilenet_v2()
    assert sum(len(op.inputs) == 2 for op in net) == 10
    assert sum(op.kind == "depthwise_conv" for op in net) == 17
    assert "block1.expand" not in by_name(net)
    assert by_name(net)["block17.depthwise"].groups == 960


def test_alexnet_and_vgg_hand_the_published_feature_maps_to_their_linear_layers():
    assert by_name(alexnet())["pool5"].ofm == (6, 6, 256)
    assert by_name(vgg16())["pool5"].ofm == (7, 7, 512)
    assert by_name(vgg16(resolution=256))["avgpool"].ofm == (7, 7, 512)
    assert vgg16(resolution=256).parameters == vgg16().parameters


def test_the_mask_of_bert_feeds_every_layer_and_lives_until_the_last():
    net = bert()
    readers = [op.name for op in net if "mask.scale" in reads(op)]
    assert readers == [f"layer{i}.attention.mask" for i in range(12)]
    last = last_consumer(net)[net.index()["mask.scale"]]
    assert net.ops[last].name == "layer11.attention.mask"


def test_a_layer_of_bert_reads_its_input_for_queries_keys_values_and_the_residual():
    net = bert()
    readers = [op.name for op in net if "embeddings.layernorm" in reads(op)]
    assert readers == [
        "layer0.query.matmul",
        "layer0.key.matmul",
        "layer0.value.matmul",
        "layer0.output.add",
    ]
    ops = by_name(net)
    assert list(reads(ops["layer0.attention.scores"])) == ["layer0.query.transpose", "layer0.key.transpose"]
    assert list(reads(ops["layer0.attention.context"])) == [
        "layer0.attention.softmax",
        "layer0.value.transpose",
    ]
    assert ops["layer0.attention.scores"].gemm.reduction == 64
    assert ops["layer0.key.transpose"].ofm == (12, 64, 128)


def test_bert_holds_its_whole_table_and_reads_the_rows_it_gathers():
    word = by_name(bert())["embeddings.word"]
    assert word.weight_bytes == 30522 * 768
    assert word.weight_read_bytes == 128 * 768
    assert word.external_bytes == 128 * 4
    assert by_name(bert(batch=8))["embeddings.word"].weight_read_bytes == 8 * 128 * 768
    assert by_name(bert(batch=8))["embeddings.token_type"].weight_read_bytes == 2 * 768


def test_the_pooler_reads_the_first_token_only():
    assert reads(by_name(bert())["pooler.slice"]) == {"layer11.feedforward.layernorm": 768}


def test_each_of_q_k_v_reads_a_third_of_the_split():
    net = gpt2()
    split = by_name(net)["h0.split"]
    assert split.output_bytes == 3 * 128 * 768
    readers = {op.name: reads(op)["h0.split"] for op in net if "h0.split" in reads(op)}
    assert readers == {f"h0.{role}.reshape": 128 * 768 for role in ("query", "key", "value")}


def test_the_tied_head_of_gpt2_holds_a_copy_that_is_counted_once():
    ops = by_name(gpt2())
    assert ops["lm_head"].weight_bytes == ops["wte"].weight_bytes == 50257 * 768
    assert ops["lm_head"].weight_read_bytes == 50257 * 768
    assert (ops["lm_head"].parameters, ops["wte"].parameters) == (0, 50257 * 768)


def test_a_skip_of_unet_is_read_cropped_and_lives_across_the_network():
    net = unet()
    concat = by_name(net)["up0.concat"]
    assert reads(concat) == {"down0.conv2": 392 * 392 * 64, "up0.up": 392 * 392 * 64}
    assert concat.ofm == (392, 392, 128)
    assert by_name(net)["down0.conv2"].ofm == (568, 568, 64)
    last = last_consumer(net)
    assert net.ops[last[net.index()["down0.conv2"]]].name == "up0.concat"


def test_names_of_variants_tell_their_parameters():
    assert resnet(50).name == "resnet50"
    assert resnet(50, batch=8, resolution=320).name == "resnet50-batch8-resolution320"
    assert mobilenet_v2(width=0.5).name == "mobilenet_v2-width0.5"
    assert bert(length=384).name == "bert-length384"


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: resnet(51), "depth: expected one of 18, 34, 50, 101, 152, received 51"),
        (lambda: resnet(18, batch=0), "batch: expected at least 1, received 0"),
        (lambda: bert(length=513), "length: expected 1 to 512"),
        (lambda: bert(heads=7), "heads: expected a divisor of hidden = 768, received 7"),
        (lambda: unet(resolution=570), "resolution: expected an even size before pooling 1"),
        (lambda: alexnet(resolution=16), "resolution: expected at least 3 at pool2, received 1"),
        (lambda: _grouped(4, 8, 3), "groups: expected a divisor of 4 and 8 channels at c, received 3"),
        (lambda: Builder(1).input((2, 2, 3)).view((2, 2, 2)), "shape: expected 12 elements"),
        (lambda: Builder(1).input((2, 2, 3)).part((2, 3, 3)), "shape: expected at most"),
    ],
)
def test_impossible_sizes_are_refused_by_argument(build, words):
    with pytest.raises(ValueError) as caught:
        build()
    assert words in str(caught.value)


def _grouped(channels: int, out: int, groups: int) -> Tensor:
    net = Builder(1)
    return net.conv("c", net.input((8, 8, channels)), out, 3, groups=groups)


def test_a_skip_of_another_shape_is_refused():
    net = Builder(1)
    x = net.input((8, 8, 3))
    with pytest.raises(ValueError, match="skip: expected shape"):
        net.conv("c", x, 4, 3, skip=Tensor(None, (8, 8, 5), 1))
