"""Residual classifiers beside ResNet itself: CIFAR's, wide, grouped, squeezed, and RegNet.

Sources:
- CIFAR ResNets: He et al., "Deep Residual Learning for Image Recognition", 2016, section 4.2 (shortcuts A).
- Wide ResNet: Zagoruyko and Komodakis, "Wide Residual Networks", 2016, table 1; wide_resnet50_2: section 3.
- ResNeXt: Xie et al., "Aggregated Residual Transformations for Deep Neural Networks", 2017, table 1.
- SE-ResNet: Hu et al., "Squeeze-and-Excitation Networks", 2018, table 1.
- RegNet: Radosavovic et al., "Designing Network Design Spaces", 2020 (X and Y, 400 MF, as torchvision rounds them).

Deviations:
- Batch norms are folded into the convolution before them. Those of Wide ResNet stand before their convolution, after a
  sum that others read: they are ops of their own, with their relu.
- A block's sum and relu belong to its last convolution; in SE-ResNet to the product of feature map and gate.
- Bottlenecks halve the resolution in their 3x3 convolution.
"""

from __future__ import annotations

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network
from workloads.zoo.cnn import RESNETS, classifier, excite


@network
def cifar_resnet(depth: int, *, batch: int = 1, width: int = 16, classes: int = 10) -> Workload:
    """ResNet of `depth` = 6n + 2 layers for 32x32 pixels: three stages of n blocks.

    Raises ValueError for another depth.
    """
    if depth < 8 or depth % 6 != 2:
        raise ValueError(f"depth: expected 6n + 2, received {depth}")
    net = Builder(batch)
    x = net.conv("conv1", net.input((32, 32, 3)), width, 3, act="relu")
    for stage in range(3):
        for block in range(depth // 6):
            prefix, channels = f"layer{stage + 1}.{block}", width * 2**stage
            stride = 2 if stage > 0 and block == 0 else 1
            y = net.conv(f"{prefix}.conv1", x, channels, 3, stride=stride, act="relu")
            skip = x
            if stride == 2:
                half = x.part((x.shape[0] // 2, x.shape[1] // 2, x.shape[2]))
                skip = net.pointwise(f"{prefix}.shortcut", "other", [half], "copy", ofm=y.shape)
            x = net.conv(f"{prefix}.conv2", y, channels, 3, act="relu", skip=skip)
    return net.build("cifar_resnet", [classifier(net, x, classes)], "He et al. 2016, CIFAR-10, int8")


@network
def wide_resnet(depth: int, widen: int, *, batch: int = 1, classes: int = 10) -> Workload:
    """Wide ResNet of `depth` = 6n + 4 layers, `widen` times as wide, for 32x32 pixels.

    Raises ValueError for another depth.
    """
    if depth < 10 or depth % 6 != 4:
        raise ValueError(f"depth: expected 6n + 4, received {depth}")
    net = Builder(batch)
    x = net.conv("conv1", net.input((32, 32, 3)), 16, 3)
    for stage in range(3):
        channels = 16 * widen * 2**stage
        for block in range((depth - 4) // 6):
            prefix = f"group{stage + 1}.{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            y = _norm(net, f"{prefix}.norm", x)
            skip = net.conv(f"{prefix}.projection", y, channels, 1, stride=stride) if block == 0 else x
            y = net.conv(f"{prefix}.conv1", y, channels, 3, stride=stride, act="relu")
            x = net.conv(f"{prefix}.conv2", y, channels, 3, skip=skip)
    x = classifier(net, _norm(net, "norm", x), classes)
    return net.build("wide_resnet", [x], "Zagoruyko and Komodakis 2016, CIFAR-10, int8")


@network
def resnext(
    depth: int,
    *,
    groups: int = 32,
    group_width: int = 4,
    batch: int = 1,
    resolution: int = 224,
    classes: int = 1000,
) -> Workload:
    """ResNet with bottlenecks of `groups` x `group_width` channels in the first stage; one group: a wide ResNet.

    Raises ValueError for a depth other than 50, 101 and 152.
    """
    net = Builder(batch)
    x = _stem(net, resolution)
    for stage, blocks in enumerate(_bottlenecks(depth)):
        inner, out = groups * group_width * 2**stage, 256 * 2**stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            prefix = f"layer{stage + 1}.{block}"
            y = net.conv(f"{prefix}.conv1", x, inner, 1, act="relu")
            y = net.conv(f"{prefix}.conv2", y, inner, 3, stride=stride, groups=groups, act="relu")
            skip = net.conv(f"{prefix}.projection", x, out, 1, stride=stride) if block == 0 else x
            x = net.conv(f"{prefix}.conv3", y, out, 1, act="relu", skip=skip)
    return net.build("resnext", [classifier(net, x, classes)], "Xie et al. 2017, int8")


@network
def se_resnet(depth: int, *, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """ResNet with squeeze and excitation at the end of each bottleneck, reduction 16.

    Raises ValueError for a depth other than 50, 101 and 152.
    """
    net = Builder(batch)
    x = _stem(net, resolution)
    for stage, blocks in enumerate(_bottlenecks(depth)):
        channels = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            prefix = f"layer{stage + 1}.{block}"
            y = net.conv(f"{prefix}.conv1", x, channels, 1, act="relu")
            y = net.conv(f"{prefix}.conv2", y, channels, 3, stride=stride, act="relu")
            y = net.conv(f"{prefix}.conv3", y, 4 * channels, 1)
            skip = net.conv(f"{prefix}.projection", x, 4 * channels, 1, stride=stride) if block == 0 else x
            x = excite(net, f"{prefix}.se", y, channels // 4, skip=skip)
    return net.build("se_resnet", [classifier(net, x, classes)], "Hu et al. 2018, int8")


_REGNETS = {
    "x": ((32, 64, 160, 400), (1, 2, 7, 12), 16),
    "y": ((48, 104, 208, 440), (1, 3, 6, 6), 8),
}
"""Channels and blocks of the four stages, channels a group: 400 MF."""


@network
def regnet(letter: str, *, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """RegNet X or Y at 400 million multiply-accumulates; Y squeezes and excites before its last convolution."""
    net = Builder(batch)
    x = net.conv("stem", net.input((resolution, resolution, 3)), 32, 3, stride=2, act="relu")
    widths, depths, group = _REGNETS[letter]
    for stage, (channels, blocks) in enumerate(zip(widths, depths, strict=True)):
        for block in range(blocks):
            stride = 2 if block == 0 else 1
            prefix = f"stage{stage + 1}.{block}"
            y = net.conv(f"{prefix}.conv1", x, channels, 1, act="relu")
            y = net.conv(
                f"{prefix}.conv2", y, channels, 3, stride=stride, groups=channels // group, act="relu"
            )
            if letter == "y":
                y = excite(net, f"{prefix}.se", y, round(x.shape[2] / 4))
            skip = net.conv(f"{prefix}.projection", x, channels, 1, stride=2) if block == 0 else x
            x = net.conv(f"{prefix}.conv3", y, channels, 1, act="relu", skip=skip)
    return net.build("regnet", [classifier(net, x, classes)], "Radosavovic et al. 2020, 400 MF, int8")


def _norm(net: Builder, name: str, x: Tensor) -> Tensor:
    return net.pointwise(name, "norm", [x], "batchnorm", weights=2 * x.shape[2])


def _stem(net: Builder, resolution: int) -> Tensor:
    x = net.conv("conv1", net.input((resolution, resolution, 3)), 64, 7, stride=2, act="relu")
    return net.max_pool("maxpool", x, 3, 2, 1)


def _bottlenecks(depth: int) -> tuple[int, int, int, int]:
    known = {each: stages for each, (bottleneck, stages) in RESNETS.items() if bottleneck}
    if depth not in known:
        raise ValueError(f"depth: expected one of {', '.join(map(str, known))}, received {depth}")
    return known[depth]
