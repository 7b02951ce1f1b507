"""Chains of convolutions with large linear layers: VGG and AlexNet cut to fit, VGG for CIFAR, Darknet-19.

Sources:
- VGG: Simonyan and Zisserman, "Very Deep Convolutional Networks …", 2015, table 1 (columns A, B, D, E).
- AlexNet: Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012, figure 2.
- VGG for CIFAR: Liu and Deng, "Very Deep Convolutional Neural Network Based Image Classification …", 2015, reduced to
  one linear layer, as it is commonly trained.
- Darknet-19: Redmon and Farhadi, "YOLO9000", 2017, table 6.

Deviations:
- The first linear layer of VGG holds 98 MiB. It is cut into tiles of its outputs, joined by a concatenation, so that
  each fits on a chip of a multi-chip module. Parameters and products are those of the whole layer.
- AlexNet has its two towers, with the linear layers cut as they were on the paper's two GPUs; no local response
  normalisation.
- Batch norms are folded, activations are part of the convolution before them.
"""

from __future__ import annotations

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network
from workloads.zoo.cnn import classifier

_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Depth -> convolutions of the five stages."""
_CHANNELS = (64, 128, 256, 512, 512)


@network
def vgg_tiled(
    depth: int, *, batch: int = 1, resolution: int = 224, tiles: int = 4, classes: int = 1000
) -> Workload:
    """VGG of `depth` layers, its first linear layer in `tiles` ops.

    Raises ValueError for a depth other than 11, 13, 16, 19 and tiles that do not divide 4,096.
    """
    net = Builder(batch)
    x = _stages(net, depth, net.input((resolution, resolution, 3)))
    if x.shape[:2] != (7, 7):
        x = net.average_pool("avgpool", x, 7)
    x = _tile(net, "fc1", x, 4096, tiles)
    x = net.linear("fc2", x, 4096, act="relu")
    x = net.linear("fc3", x, classes)
    x = net.pointwise("softmax", "softmax", [x], "softmax")
    return net.build("vgg_tiled", [x], "Simonyan and Zisserman 2015, first linear layer in tiles, int8")


@network
def vgg_cifar(depth: int, *, batch: int = 1, classes: int = 10) -> Workload:
    """VGG of `depth` layers for 32x32 pixels, one linear layer."""
    net = Builder(batch)
    x = _stages(net, depth, net.input((32, 32, 3)))
    return net.build("vgg_cifar", [classifier(net, x, classes)], "Liu and Deng 2015, CIFAR-10, int8")


@network
def alexnet_towers(*, batch: int = 1, classes: int = 1000) -> Workload:
    """AlexNet as published: two towers that meet in the third convolution and in the linear layers."""
    net = Builder(batch)
    towers = []
    for tower in "ab":
        x = net.conv(f"{tower}.conv1", net.input((227, 227, 3)), 48, 11, stride=4, pad=0, act="relu")
        x = net.max_pool(f"{tower}.pool1", x, 3, 2)
        x = net.conv(f"{tower}.conv2", x, 128, 5, act="relu")
        towers.append(net.max_pool(f"{tower}.pool2", x, 3, 2))
    both = net.concat("meet2", towers)
    towers = []
    for tower in "ab":
        x = net.conv(f"{tower}.conv3", both, 192, 3, act="relu")
        x = net.conv(f"{tower}.conv4", x, 192, 3, act="relu")
        x = net.conv(f"{tower}.conv5", x, 128, 3, act="relu")
        towers.append(net.max_pool(f"{tower}.pool5", x, 3, 2))
    x = _tile(net, "fc6", net.concat("meet5", towers), 4096, 2)
    x = _tile(net, "fc7", x, 4096, 2)
    x = net.linear("fc8", x, classes)
    x = net.pointwise("softmax", "softmax", [x], "softmax")
    return net.build("alexnet_towers", [x], "Krizhevsky et al. 2012, two towers, int8")


_DARKNET19 = ((32,), (64,), (128, 64, 128), (256, 128, 256), (512, 256, 512, 256, 512))


@network
def darknet19(*, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """Darknet-19: 3x3 convolutions with 1x1 convolutions between them, five poolings."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    for stage, widths in enumerate(_DARKNET19, start=1):
        x = _alternating(net, f"stage{stage}", x, widths)
        x = net.max_pool(f"pool{stage}", x, 2, 2)
    x = _alternating(net, "stage6", x, (1024, 512, 1024, 512, 1024))
    x = net.conv("classifier", x, classes, 1)
    x = net.average_pool("avgpool", x)
    x = net.pointwise("softmax", "softmax", [x], "softmax")
    return net.build("darknet19", [x], "Redmon and Farhadi 2017, int8")


def _alternating(net: Builder, prefix: str, x: Tensor, widths: tuple[int, ...]) -> Tensor:
    for i, channels in enumerate(widths):
        x = net.conv(f"{prefix}.conv{i + 1}", x, channels, 1 if i % 2 else 3, act="leaky")
    return x


def _stages(net: Builder, depth: int, x: Tensor) -> Tensor:
    if depth not in _STAGES:
        raise ValueError(f"depth: expected one of {', '.join(map(str, _STAGES))}, received {depth}")
    for stage, (convs, channels) in enumerate(zip(_STAGES[depth], _CHANNELS, strict=True), start=1):
        for i in range(1, convs + 1):
            x = net.conv(f"conv{stage}_{i}", x, channels, 3, act="relu")
        x = net.max_pool(f"pool{stage}", x, 2, 2)
    return x


def _tile(net: Builder, name: str, x: Tensor, features: int, tiles: int) -> Tensor:
    """A linear layer as `tiles` ops of equally many outputs, joined."""
    if tiles < 1 or features % tiles:
        raise ValueError(f"tiles: expected a divisor of {features}, received {tiles}")
    if tiles == 1:
        return net.linear(name, x, features, act="relu")
    parts = [net.linear(f"{name}.tile{i}", x, features // tiles, act="relu") for i in range(tiles)]
    return net.concat(f"{name}.concat", parts)
