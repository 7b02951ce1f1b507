"""Parameters and multiply-accumulates of the data set against published figures and closed formulas.

Published: torchvision's table of classification weights, without auxiliary heads (its FLOPs are multiply-accumulates);
its segmentation models less their auxiliary head. AlexNet in two towers, GoogLeNet with biases: Caffe's models.
Xception: the paper's table 3. CIFAR ResNets: the counts of reimplementations that follow the paper (0.27, 0.85, 1.7 M).
Wide ResNet, DenseNet-BC, DCGAN, CycleGAN, pix2pix, EDSR, VDSR: PyTorch models as released.
Darknet and YOLO: the released configurations, half of their BFLOPs. Mixer: the released checkpoints. QuartzNet and
CRNN: as their papers state them. SegNet: 29.4 M as commonly counted. Language models: 4.65 M and 19.8 M, as
commonly counted for Zaremba et al.
"""

from __future__ import annotations

import pytest

from workloads.load import load
from zoo.images import pix2pix
from zoo.language import character_model, classifier, language_model, tagger, translator
from zoo.plain import vgg_cifar, vgg_tiled
from zoo.signals import conv_lstm, signal_autoencoder
from zoo.speech import keyword_gru
from zoo.temporal import wavenet

PUBLISHED: dict[str, tuple[float, float | None]] = {
    # name: (parameters, multiply-accumulates or None where no figure is published that counts alike)
    "resnet20_cifar": (269_722, 40.81e6),
    "resnet56_cifar": (853_018, 125.75e6),
    "resnet110_cifar": (1_727_962, None),
    "wide_resnet28_10": (36_479_194, 5.24e9),
    "wide_resnet50_2": (68_883_240, 11.398e9),
    "resnext50": (25_028_904, 4.230e9),
    "resnext101": (88_791_336, 16.414e9),
    "se_resnet50": (28_088_024, None),
    "regnet_x": (5_495_976, 0.414e9),
    "regnet_y": (4_344_144, 0.402e9),
    "alexnet_towers": (60_965_224, 0.724e9),
    "vgg11_tiled": (132_863_336, 7.609e9),
    "vgg16_tiled": (138_357_544, 15.470e9),
    "vgg19_tiled": (143_667_240, 19.632e9),
    "darknet19": (20.84e6, 2.79e9),
    "squeezenet1_0": (1_248_424, 0.819e9),
    "squeezenet1_1": (1_235_496, 0.349e9),
    "googlenet": (6_998_552, 1.58e9),
    "inception_v3": (23_834_568, 5.713e9),
    "xception": (22_855_952, 8.4e9),
    "densenet121": (7_978_856, 2.834e9),
    "densenet169": (14_149_480, 3.360e9),
    "densenet201": (20_013_928, 4.291e9),
    "densenet100_cifar": (769_162, None),
    "mobilenet_v1": (4_231_976, 0.569e9),
    "mobilenet_v3_small": (2_542_856, 0.057e9),
    "mobilenet_v3_large": (5_483_032, 0.217e9),
    "mnasnet": (4_383_312, 0.314e9),
    "shufflenet_v2": (2_278_604, 0.145e9),
    "efficientnet_b0": (5_288_548, 0.386e9),
    "efficientnet_b1": (7_794_184, 0.687e9),
    "efficientnet_b4": (19_341_616, 4.394e9),
    "darknet53": (41_609_928, 9.3e9),
    "yolov3": (61_949_149, 32.93e9),
    "yolov3_tiny": (8_852_366, 2.78e9),
    "fcn_resnet50": (32_957_013, None),
    "deeplab_v3": (39_638_869, None),
    "segnet": (29.4e6, None),
    "dcgan": (3_576_704 + 2_765_568, None),
    "cyclegan": (11_378_179, None),
    "edsr": (1_369_859, None),
    "vdsr": (664_704, None),
    "quartznet5x5": (6.7e6, None),
    "quartznet15x5": (18.9e6, None),
    "mixer_s16": (18_528_264, 3.78e9),
    "mixer_b16": (59_880_472, 12.61e9),
    "lstm_lm_small": (4.65e6, None),
    "crnn": (8.3e6, None),
}
EXACT = ("alexnet_towers", "vgg16_tiled", "squeezenet1_0", "squeezenet1_1", "googlenet", "edsr", "mixer_s16")


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_macs_are_the_published_ones_within_one_percent(name):
    parameters, macs = PUBLISHED[name]
    net = load(name)
    assert net.parameters == pytest.approx(parameters, rel=0.01)
    if macs is not None:
        assert net.macs == pytest.approx(macs, rel=0.01)


@pytest.mark.parametrize("name", EXACT)
def test_networks_without_batch_norms_have_exactly_the_published_parameters(name):
    assert load(name).parameters == PUBLISHED[name][0]


def test_networks_of_the_set_that_are_smaller_than_published_have_the_published_size_at_its_parameters():
    assert pix2pix().parameters == pytest.approx(54_413_955, rel=0.001)
    assert language_model("lstm", hidden=650, steps=2).parameters == pytest.approx(19.78e6, rel=0.001)
    assert vgg_cifar(16).parameters == pytest.approx(14_728_266, rel=0.001)


def test_tiles_of_a_linear_layer_hold_and_do_what_the_whole_layer_does():
    whole, tiled = vgg_tiled(11, tiles=1), vgg_tiled(11, tiles=8)
    assert (whole.parameters, whole.macs) == (tiled.parameters, tiled.macs)
    assert [op.weight_bytes for op in tiled if ".tile" in op.name] == [25088 * 512 + 512] * 8
    assert len(tiled) == len(whole) + 8


@pytest.mark.parametrize(("hidden", "layers", "steps"), [(200, 2, 20), (48, 3, 5)])
def test_an_unrolled_lstm_has_the_parameters_of_one_step_and_the_work_of_all(hidden, layers, steps):
    net = language_model("lstm", hidden=hidden, layers=layers, steps=steps, vocabulary=1000)
    cell = 4 * hidden * (2 * hidden + 1)
    table, output = 1000 * hidden, 1000 * (hidden + 1)
    assert net.parameters == layers * cell + table + output
    assert sum(op.weight_bytes for op in net) == steps * net.parameters
    assert net.macs == steps * (layers * 8 * hidden * hidden + 1000 * hidden)
    assert len(net) == steps * (3 + 2 * layers)


def test_a_gru_multiplies_by_three_matrices_a_step():
    net = keyword_gru(steps=6, features=40, width=64, classes=10)
    assert net.parameters == 3 * 64 * (40 + 64 + 1) + 10 * 65
    assert net.macs == 6 * 3 * 64 * (40 + 64) + 10 * 64


def test_an_lstm_in_elementary_ops_is_the_same_lstm():
    fine = language_model("elementary", hidden=32, steps=4, vocabulary=50)
    coarse = language_model("lstm", hidden=32, steps=4, vocabulary=50)
    assert (fine.parameters, fine.macs) == (coarse.parameters, coarse.macs)
    assert len(fine) == len(coarse) + 2 * (7 + 3 * 11 - 4 * 2)


@pytest.mark.parametrize(
    "build",
    [
        lambda steps: tagger(steps=steps, layers=2, hidden=8, vocabulary=20, tags=5),
        lambda steps: translator("gru", source=steps, target=steps, hidden=8, vocabulary=20),
        lambda steps: classifier("lstm", steps=steps, hidden=8, vocabulary=20),
        lambda steps: character_model(steps=steps, hidden=8, symbols=4),
        lambda steps: conv_lstm(steps=steps, width=4, resolution=16),
        lambda steps: signal_autoencoder(steps=steps, signals=4, width=8, code=4),
    ],
)
def test_more_steps_add_work_and_memory_but_no_parameters(build):
    few, more = build(3), build(6)
    assert few.parameters == more.parameters
    assert more.macs > 1.5 * few.macs
    assert sum(op.weight_bytes for op in more) > 1.5 * sum(op.weight_bytes for op in few)


def test_wavenet_multiplies_as_the_closed_formula_says():
    net = wavenet(length=100, stacks=2, depth=3, width=8, skips=16)
    layers = 6
    gated, skip, residual = 2 * 8 * 8 * 2, 8 * 16, 8 * 8
    ends = 2 * 8 + 16 * 16 + 16 * 256
    assert net.macs == 100 * (layers * (gated + skip) + (layers - 1) * residual + ends)
