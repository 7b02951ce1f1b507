"""Networks for phones: MobileNet-v1 and -v3, MnasNet, ShuffleNet-v2.

Sources:
- MobileNet-v1: Howard et al., "MobileNets", 2017, table 1.
- MobileNet-v3: Howard et al., "Searching for MobileNetV3", 2019, tables 1 and 2.
- MnasNet: Tan et al., "MnasNet: Platform-Aware Neural Architecture Search for Mobile", 2019 (B1).
- ShuffleNet-v2: Ma et al., "ShuffleNet V2", 2018, table 5.

Deviations:
- Batch norms are folded, activations and residual sums are part of the convolution before them.
- Squeeze and excitation is four ops (pooling, two layers, product); its layers are counted as matmuls.
- Both halves of a channel split are read by their readers themselves; the shuffle is an op.
"""

from __future__ import annotations

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network
from workloads.zoo.cnn import classifier, inverted_block, multiple_of_8

_SEPARABLE = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
"""Channels and stride."""


@network
def mobilenet_v1(
    *, batch: int = 1, resolution: int = 224, width: float = 1.0, classes: int = 1000
) -> Workload:
    """MobileNet-v1; `width` multiplies every number of channels."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    x = net.conv("conv1", x, int(32 * width), 3, stride=2, act="relu6")
    for i, (channels, stride) in enumerate(_SEPARABLE, start=2):
        hidden = x.shape[2]
        x = net.conv(f"conv{i}.depthwise", x, hidden, 3, stride=stride, groups=hidden, act="relu6")
        x = net.conv(f"conv{i}.pointwise", x, int(channels * width), 1, act="relu6")
    return net.build("mobilenet_v1", [classifier(net, x, classes)], "Howard et al. 2017, int8")


_V3_LARGE = (
    (3, 16, 16, 0, "relu", 1),
    (3, 64, 24, 0, "relu", 2),
    (3, 72, 24, 0, "relu", 1),
    (5, 72, 40, 1, "relu", 2),
    (5, 120, 40, 1, "relu", 1),
    (5, 120, 40, 1, "relu", 1),
    (3, 240, 80, 0, "hardswish", 2),
    (3, 200, 80, 0, "hardswish", 1),
    (3, 184, 80, 0, "hardswish", 1),
    (3, 184, 80, 0, "hardswish", 1),
    (3, 480, 112, 1, "hardswish", 1),
    (3, 672, 112, 1, "hardswish", 1),
    (5, 672, 160, 1, "hardswish", 2),
    (5, 960, 160, 1, "hardswish", 1),
    (5, 960, 160, 1, "hardswish", 1),
)
_V3_SMALL = (
    (3, 16, 16, 1, "relu", 2),
    (3, 72, 24, 0, "relu", 2),
    (3, 88, 24, 0, "relu", 1),
    (5, 96, 40, 1, "hardswish", 2),
    (5, 240, 40, 1, "hardswish", 1),
    (5, 240, 40, 1, "hardswish", 1),
    (5, 120, 48, 1, "hardswish", 1),
    (5, 144, 48, 1, "hardswish", 1),
    (5, 288, 96, 1, "hardswish", 2),
    (5, 576, 96, 1, "hardswish", 1),
    (5, 576, 96, 1, "hardswish", 1),
)
"""Kernel, expanded, channels, squeezed?, activation, stride."""


@network
def mobilenet_v3(size: str, *, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """MobileNet-v3, `size` "small" or "large"."""
    blocks, last = (_V3_LARGE, 1280) if size == "large" else (_V3_SMALL, 1024)
    net = Builder(batch)
    x = net.conv("conv_first", net.input((resolution, resolution, 3)), 16, 3, stride=2, act="hardswish")
    for i, (kernel, hidden, channels, squeeze, act, stride) in enumerate(blocks, start=1):
        squeezed = multiple_of_8(hidden / 4) if squeeze else 0
        x = inverted_block(net, f"block{i}", x, hidden, channels, kernel, stride, act, squeezed, "hardswish")
    x = net.conv("conv_last", x, 6 * x.shape[2], 1, act="hardswish")
    x = net.average_pool("avgpool", x)
    x = net.linear("fc1", x, last, act="hardswish")
    x = net.linear("fc2", x, classes)
    x = net.pointwise("softmax", "softmax", [x], "softmax")
    return net.build("mobilenet_v3", [x], "Howard et al. 2019, int8")


_MNASNET = (
    (3, 2, 3, 24, 3),
    (5, 2, 3, 40, 3),
    (5, 2, 6, 80, 3),
    (3, 1, 6, 96, 2),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
"""Kernel, stride, expansion, channels, blocks."""


@network
def mnasnet(*, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """MnasNet-B1 at depth multiplier 1."""
    net = Builder(batch)
    x = net.conv("conv_first", net.input((resolution, resolution, 3)), 32, 3, stride=2, act="relu")
    x = net.conv("first.depthwise", x, 32, 3, groups=32, act="relu")
    x = net.conv("first.project", x, 16, 1)
    for i, (kernel, stride, expansion, channels, blocks) in enumerate(_MNASNET, start=1):
        for block in range(blocks):
            hidden = expansion * x.shape[2]
            x = inverted_block(
                net, f"stack{i}.{block}", x, hidden, channels, kernel, stride if block == 0 else 1, "relu"
            )
    x = net.conv("conv_last", x, 1280, 1, act="relu")
    return net.build("mnasnet", [classifier(net, x, classes)], "Tan et al. 2019, B1, int8")


@network
def shufflenet_v2(channels: int, *, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """ShuffleNet-v2 with `channels` in its first stage: 48 (x0.5) or 116 (x1.0)."""
    net = Builder(batch)
    x = net.conv("conv1", net.input((resolution, resolution, 3)), 24, 3, stride=2, act="relu")
    x = net.max_pool("maxpool", x, 3, 2, 1)
    for stage, units in enumerate((4, 8, 4), start=2):
        half = channels * 2 ** (stage - 2) // 2
        for unit in range(units):
            x = _shuffle(net, f"stage{stage}.{unit}", x, half, halve=unit == 0)
    x = net.conv("conv5", x, 1024, 1, act="relu")
    return net.build("shufflenet_v2", [classifier(net, x, classes)], "Ma et al. 2018, int8")


def _shuffle(net: Builder, prefix: str, x: Tensor, half: int, *, halve: bool) -> Tensor:
    """A unit: one half of the channels (or all, where the size is halved) goes through three convolutions."""
    size = (*x.shape[:2], half)
    left, right, stride = (x, x, 2) if halve else (x.part(size), x.part(size), 1)
    if halve:
        hidden = x.shape[2]
        left = net.conv(f"{prefix}.left.depthwise", left, hidden, 3, stride=2, groups=hidden)
        left = net.conv(f"{prefix}.left.pointwise", left, half, 1, act="relu")
    right = net.conv(f"{prefix}.conv1", right, half, 1, act="relu")
    right = net.conv(f"{prefix}.depthwise", right, half, 3, stride=stride, groups=half)
    right = net.conv(f"{prefix}.conv2", right, half, 1, act="relu")
    y = net.concat(f"{prefix}.concat", [left, right])
    return net.pointwise(f"{prefix}.shuffle", "transpose", [y], "copy")
