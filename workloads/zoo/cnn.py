"""Convolutional classifiers: ResNet, VGG, AlexNet, MobileNet-v2.

Sources:
- ResNet: He et al., "Deep Residual Learning for Image Recognition", 2016, table 1.
- VGG: Simonyan and Zisserman, "Very Deep Convolutional Networks …", 2015, table 1, column D.
- AlexNet: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014 (one tower).
- MobileNet-v2: Sandler et al., "Inverted Residuals and Linear Bottlenecks", 2018, table 2.

Deviations:
- Batch norms are folded into the convolutions before them: a bias instead of a gain and a shift.
- Activations and residual adds are fused into the convolution before them, whose second edge is the skip.
- ResNet bottlenecks halve the resolution in their 3x3 convolution (known as v1.5), as today's libraries do.
- AlexNet has no local response normalisation, as today's libraries have it.
- Every classifier ends with a softmax.
"""

from __future__ import annotations

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network, variant_name

RESNETS: dict[int, tuple[bool, tuple[int, int, int, int]]] = {
    18: (False, (2, 2, 2, 2)),
    34: (False, (3, 4, 6, 3)),
    50: (True, (3, 4, 6, 3)),
    101: (True, (3, 4, 23, 3)),
    152: (True, (3, 8, 36, 3)),
}
"""Depth -> (bottleneck blocks?, blocks of the four stages)."""


def resnet(
    depth: int, *, batch: int = 1, resolution: int = 224, width: int = 64, classes: int = 1000
) -> Workload:
    """ResNet of `depth` layers; `width` channels in the first stage.

    Raises ValueError for another depth than 18, 34, 50, 101, 152.
    """
    if depth not in RESNETS:
        raise ValueError(f"depth: expected one of {', '.join(map(str, RESNETS))}, received {depth}")
    bottleneck, stages = RESNETS[depth]
    net = Builder(batch)
    x = net.conv("conv1", net.input((resolution, resolution, 3)), width, 7, stride=2, act="relu")
    x = net.max_pool("maxpool", x, 3, 2, 1)
    for stage, blocks in enumerate(stages):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            prefix = f"layer{stage + 1}.{block}"
            x = _residual_block(net, prefix, x, width * 2**stage, stride, bottleneck)
    x = classifier(net, x, classes)
    name = variant_name(
        f"resnet{depth}", resnet, batch=batch, resolution=resolution, width=width, classes=classes
    )
    return net.build(name, [x], "He et al. 2016, v1.5, int8")


def _residual_block(
    net: Builder, prefix: str, x: Tensor, channels: int, stride: int, bottleneck: bool
) -> Tensor:
    """The last convolution reads the skip and adds it; a projection runs just before it."""
    out = channels * 4 if bottleneck else channels
    if bottleneck:
        y = net.conv(f"{prefix}.conv1", x, channels, 1, act="relu")
        y = net.conv(f"{prefix}.conv2", y, channels, 3, stride=stride, act="relu")
    else:
        y = net.conv(f"{prefix}.conv1", x, channels, 3, stride=stride, act="relu")
    skip = x
    if stride != 1 or x.shape[2] != out:
        skip = net.conv(f"{prefix}.projection", x, out, 1, stride=stride)
    last = f"{prefix}.conv3" if bottleneck else f"{prefix}.conv2"
    return net.conv(last, y, out, 1 if bottleneck else 3, act="relu", skip=skip)


def classifier(net: Builder, x: Tensor, classes: int) -> Tensor:
    """Global average pooling, a linear layer and softmax."""
    x = net.average_pool("avgpool", x)
    x = net.linear("fc", x, classes)
    return net.pointwise("softmax", "softmax", [x], "softmax")


@network
def vgg16(*, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """VGG-16. At other resolutions than 224 an average pooling to 7x7 stands before the linear layers."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    for stage, (convs, channels) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), start=1):
        for i in range(1, convs + 1):
            x = net.conv(f"conv{stage}_{i}", x, channels, 3, act="relu")
        x = net.max_pool(f"pool{stage}", x, 2, 2)
    x = _linear_head(net, x, 7, classes)
    return net.build("vgg16", [x], "Simonyan and Zisserman 2015, int8")


@network
def alexnet(*, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """AlexNet. At other resolutions than 224 an average pooling to 6x6 stands before the linear layers."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    x = net.conv("conv1", x, 64, 11, stride=4, pad=2, act="relu")
    x = net.max_pool("pool1", x, 3, 2)
    x = net.conv("conv2", x, 192, 5, act="relu")
    x = net.max_pool("pool2", x, 3, 2)
    x = net.conv("conv3", x, 384, 3, act="relu")
    x = net.conv("conv4", x, 256, 3, act="relu")
    x = net.conv("conv5", x, 256, 3, act="relu")
    x = net.max_pool("pool5", x, 3, 2)
    x = _linear_head(net, x, 6, classes)
    return net.build("alexnet", [x], "Krizhevsky 2014, int8")


def _linear_head(net: Builder, x: Tensor, size: int, classes: int) -> Tensor:
    if x.shape[:2] != (size, size):
        x = net.average_pool("avgpool", x, size)
    x = net.linear("fc1", x, 4096, act="relu")
    x = net.linear("fc2", x, 4096, act="relu")
    x = net.linear("fc3", x, classes)
    return net.pointwise("softmax", "softmax", [x], "softmax")


MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Its stages: expansion, channels, blocks, stride of the first block."""


@network
def mobilenet_v2(
    *, batch: int = 1, resolution: int = 224, width: float = 1.0, classes: int = 1000
) -> Workload:
    """MobileNet-v2; `width` multiplies every number of channels (rounded to multiples of 8)."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    x = net.conv("conv_first", x, multiple_of_8(32 * width), 3, stride=2, act="relu6")
    number = 0
    for expansion, channels, blocks, first_stride in MOBILENET_V2:
        for block in range(blocks):
            number += 1
            stride = first_stride if block == 0 else 1
            x = _inverted_block(net, f"block{number}", x, multiple_of_8(channels * width), expansion, stride)
    x = net.conv("conv_last", x, multiple_of_8(1280 * max(1.0, width)), 1, act="relu6")
    x = classifier(net, x, classes)
    return net.build("mobilenet_v2", [x], "Sandler et al. 2018, int8")


def _inverted_block(
    net: Builder, prefix: str, x: Tensor, channels: int, expansion: int, stride: int
) -> Tensor:
    hidden = x.shape[2] * expansion
    y = net.conv(f"{prefix}.expand", x, hidden, 1, act="relu6") if expansion != 1 else x
    y = net.conv(f"{prefix}.depthwise", y, hidden, 3, stride=stride, groups=hidden, act="relu6")
    skip = x if stride == 1 and x.shape[2] == channels else None
    return net.conv(f"{prefix}.project", y, channels, 1, skip=skip)


def multiple_of_8(channels: float) -> int:
    """The nearest multiple of 8, at least 8, and never more than 10% below."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest
