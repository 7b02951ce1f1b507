"""Operations, parameters and multiply-accumulates against published figures and closed formulas.

Published parameters and multiply-accumulates of the convolutional networks: torchvision's table of
classification weights ("Params", "GFLOPS", where one of its FLOPs is a multiply-accumulate). BERT: the
checkpoint bert-base-uncased without its pre-training heads, and 11.2 GMAC at 128 tokens as commonly measured.
BERT-large: the checkpoint bert-large-uncased likewise, 335,141,888.
GPT-2: the checkpoint gpt2. U-Net: 31.0 M, as commonly counted for the paper's figure 1.
"""

from __future__ import annotations

import pytest

from workloads.zoo import ZOO, builder_of
from workloads.zoo.bert_large import bert_large
from workloads.zoo.cnn import resnet, unet
from workloads.zoo.transformer import bert, gpt2

PUBLISHED = {
    # name: (ops, parameters, multiply-accumulates or None where no figure is published)
    "resnet18": (24, 11_689_512, 1.814e9),
    "resnet34": (40, 21_797_672, 3.664e9),
    "resnet50": (57, 25_557_032, 4.089e9),
    "resnet101": (108, 44_549_160, 7.801e9),
    "resnet152": (159, 60_192_808, 11.514e9),
    "vgg16": (22, 138_357_544, 15.470e9),
    "alexnet": (12, 61_100_840, 0.714e9),
    "mobilenet_v2": (55, 3_504_872, 0.301e9),
    "bert": (376, 109_482_240, 11.2e9),
    "bert_large": (2103, 335_141_888, None),
    "gpt2": (329, 124_439_808, None),
    "unet": (31, 31.0e6, None),
}


@pytest.mark.parametrize("name", ZOO)
def test_ops_parameters_and_macs_are_the_published_ones_within_one_percent(name):
    ops, parameters, macs = PUBLISHED[name]
    net = builder_of(name)()
    assert len(net) == ops
    assert net.parameters == pytest.approx(parameters, rel=0.01)
    if macs is not None:
        assert net.macs == pytest.approx(macs, rel=0.01)


@pytest.mark.parametrize(
    "name", ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "mobilenet_v2"]
)
def test_folding_batch_norms_saves_one_parameter_a_channel_of_every_convolution(name):
    """A batch norm has a gain and a shift; folded into a convolution it leaves a bias."""
    net = builder_of(name)()
    channels = sum(op.ofm[2] for op in net if op.kind in ("conv", "depthwise_conv"))
    assert net.parameters == PUBLISHED[name][1] - channels


@pytest.mark.parametrize("name", ["vgg16", "alexnet", "gpt2"])
def test_networks_without_batch_norms_have_exactly_the_published_parameters(name):
    assert builder_of(name)().parameters == PUBLISHED[name][1]


def test_bert_adds_a_classifier_of_two_classes_to_the_published_parameters():
    assert bert().parameters == 109_482_240 + 2 * 768 + 2


@pytest.mark.parametrize(("length", "layers", "hidden", "batch"), [(128, 12, 768, 1), (384, 2, 64, 3)])
def test_bert_multiplies_as_the_closed_formula_says(length, layers, hidden, batch):
    net = bert(length=length, layers=layers, hidden=hidden, heads=4, intermediate=4 * hidden, batch=batch)
    projections = 4 * length * hidden**2
    attention = 2 * length**2 * hidden
    feedforward = 2 * length * hidden * 4 * hidden
    head = hidden**2 + 2 * hidden
    assert net.macs == batch * (layers * (projections + attention + feedforward) + head)
    assert len(net) == 16 + 30 * layers


def test_bert_large_is_bert_in_elementary_ops():
    large, coarse = bert_large(), bert(layers=24, hidden=1024, heads=16, intermediate=4096)
    assert large.parameters == coarse.parameters == 335_141_888 + 2 * 1024 + 2
    assert large.macs == coarse.macs
    assert abs(len(large) - 2138) < 0.02 * 2138
    assert len(bert_large(layers=3, hidden=64, heads=4)) == 39 + 86 * 3


@pytest.mark.parametrize(("length", "layers", "hidden"), [(128, 12, 768), (1024, 3, 96)])
def test_gpt2_multiplies_as_the_closed_formula_says(length, layers, hidden):
    net = gpt2(length=length, layers=layers, hidden=hidden)
    layer = 12 * length * hidden**2 + 2 * length**2 * hidden
    assert net.macs == layers * layer + length * hidden * 50257
    assert len(net) == 5 + 27 * layers


@pytest.mark.parametrize("padded", [False, True])
def test_unet_has_the_parameters_and_products_of_the_closed_formula(padded):
    """Two 3x3 convolutions a stage; sizes from the paper's figure where nothing is padded."""
    widths = [64, 128, 256, 512, 1024]
    down = [(570, 568), (282, 280), (138, 136), (66, 64), (30, 28)]
    up = [(54, 52), (102, 100), (198, 196), (390, 388)]
    resolution = 572
    if padded:
        resolution = 256
        down = [(size, size) for size in (256, 128, 64, 32, 16)]
        up = [(size, size) for size in (32, 64, 128, 256)]
    parameters = macs = 0
    inputs = [1, *widths[:-1]]
    for before, width, (first, second) in zip(inputs, widths, down, strict=True):
        parameters += 9 * before * width + 9 * width * width + 2 * width
        macs += 9 * before * width * first**2 + 9 * width * width * second**2
    below = down[-1][1]
    for width, (first, second) in zip(reversed(widths[:-1]), up, strict=True):
        parameters += 4 * 2 * width * width + width
        macs += 4 * 2 * width * width * below**2
        parameters += 9 * 2 * width * width + 9 * width * width + 2 * width
        macs += 9 * 2 * width * width * first**2 + 9 * width * width * second**2
        below = second
    parameters += 2 * 64 + 2
    macs += 2 * 64 * below**2
    net = unet(resolution=resolution, padded=padded)
    assert (net.parameters, net.macs) == (parameters, macs)
    assert net.ops[-1].ofm == (below, below, 2)


def test_resnet_products_grow_with_the_batch_and_parameters_do_not():
    one, four = resnet(50), resnet(50, batch=4)
    assert four.macs == 4 * one.macs
    assert four.parameters == one.parameters
    assert four.ops[3].output_bytes == 4 * one.ops[3].output_bytes
