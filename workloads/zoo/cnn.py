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

DenseNet: every layer reads all before it in its block.

Source: Huang et al., "Densely Connected Convolutional Networks", 2017, table 1, and section 4 for CIFAR (BC).

Deviations:
- What a layer reads is the concatenation of the one before and its output, as libraries write it: each concatenation is
  an op, so that no op has more than two readers.
- The batch norm before a layer's 1x1 convolution reads such a concatenation, which others read, too: it is an op of its
  own with its relu. The one between the two convolutions is folded into the first.

EfficientNet, and the blocks that it shares with other networks for phones.

Source: Tan and Le, "EfficientNet", 2019, table 1 (B0), scaled as its section 3.3 says.

Deviations:
- Batch norms are folded, activations and residual sums are part of the convolution before them.
- Squeeze and excitation is four ops (pooling, two layers, product); its layers are counted as matmuls.

U-Net: an encoder and a decoder joined by skips that stay alive for most of the network.

Source: Ronneberger, Fischer and Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation",
2015, figure 1.

Deviations:
- Activations are fused into the convolutions; the crop of a skip is the part that the concatenation reads.
- The softmax over the pixels belongs to the training loss and is left out.
"""

from __future__ import annotations

from math import ceil

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


_DENSENETS = {
    121: (32, (6, 12, 24, 16)),
    169: (32, (6, 12, 32, 32)),
    201: (32, (6, 12, 48, 32)),
}
"""Depth -> growth rate, layers of the blocks."""


@network
def densenet(depth: int, *, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """DenseNet-BC of `depth` layers.

    Raises ValueError for a depth other than 121, 169, 201.
    """
    if depth not in _DENSENETS:
        raise ValueError(f"depth: expected one of {', '.join(map(str, _DENSENETS))}, received {depth}")
    growth, blocks = _DENSENETS[depth]
    net = Builder(batch)
    x = net.conv("conv1", net.input((resolution, resolution, 3)), 2 * growth, 7, stride=2, act="relu")
    x = net.max_pool("maxpool", x, 3, 2, 1)
    x = _blocks(net, x, blocks, growth)
    return net.build("densenet", [classifier(net, x, classes)], "Huang et al. 2017, int8")


@network
def densenet_cifar(depth: int, *, growth: int = 12, batch: int = 1, classes: int = 10) -> Workload:
    """DenseNet-BC of `depth` = 6n + 4 layers for 32x32 pixels: three blocks of n layers of two convolutions.

    Raises ValueError for another depth.
    """
    if depth < 10 or depth % 6 != 4:
        raise ValueError(f"depth: expected 6n + 4, received {depth}")
    net = Builder(batch)
    x = net.conv("conv1", net.input((32, 32, 3)), 2 * growth, 3)
    x = _blocks(net, x, ((depth - 4) // 6,) * 3, growth)
    return net.build("densenet_cifar", [classifier(net, x, classes)], "Huang et al. 2017, CIFAR-10, int8")


def _blocks(net: Builder, x: Tensor, blocks: tuple[int, ...], growth: int) -> Tensor:
    for number, layers in enumerate(blocks, start=1):
        for layer in range(layers):
            prefix = f"block{number}.{layer}"
            y = _norm(net, f"{prefix}.norm", x)
            y = net.conv(f"{prefix}.conv1", y, 4 * growth, 1, act="relu")
            y = net.conv(f"{prefix}.conv2", y, growth, 3)
            x = net.concat(f"{prefix}.concat", [x, y])
        x = _norm(net, f"norm{number}", x)
        if number < len(blocks):
            x = net.conv(f"transition{number}.conv", x, x.shape[2] // 2, 1)
            half = (x.shape[0] // 2, x.shape[1] // 2)
            x = net.add(
                f"transition{number}.pool",
                "pool",
                [x],
                (*half, x.shape[2]),
                vector_ops=net.batch * x.elements,
            )
    return x


def _norm(net: Builder, name: str, x: Tensor) -> Tensor:
    return net.pointwise(name, "norm", [x], "batchnorm", weights=2 * x.shape[2])


_EFFICIENTNET = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
"""Expansion, kernel, stride, channels, blocks."""


@network
def efficientnet(
    *, width: float = 1.0, depth: float = 1.0, resolution: int = 224, batch: int = 1, classes: int = 1000
) -> Workload:
    """EfficientNet; `width` multiplies channels, `depth` blocks (rounded up)."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    x = net.conv("conv_first", x, multiple_of_8(32 * width), 3, stride=2, act="swish")
    for i, (expansion, kernel, stride, channels, blocks) in enumerate(_EFFICIENTNET, start=1):
        for block in range(ceil(blocks * depth)):
            hidden, squeezed = expansion * x.shape[2], max(1, x.shape[2] // 4)
            step = stride if block == 0 else 1
            out = multiple_of_8(channels * width)
            x = inverted_block(net, f"stage{i}.{block}", x, hidden, out, kernel, step, "swish", squeezed)
    x = net.conv("conv_last", x, 4 * x.shape[2], 1, act="swish")
    return net.build("efficientnet", [classifier(net, x, classes)], "Tan and Le 2019, int8")


def excite(
    net: Builder, prefix: str, x: Tensor, squeezed: int, *, gate: str = "sigmoid", skip: Tensor | None = None
) -> Tensor:
    """Squeeze and excitation, four ops: pooling, two layers, and the product (with the sum and relu of a block)."""
    y = net.average_pool(f"{prefix}.pool", x)
    y = net.dense(f"{prefix}.reduce", y, squeezed, act="relu")
    y = net.dense(f"{prefix}.expand", y, x.shape[2], act=gate)
    if skip is None:
        return net.pointwise(f"{prefix}.scale", "elementwise", [x, y], "scale")
    return net.pointwise(f"{prefix}.scale", "elementwise", [x, y, skip], "batchnorm")


def inverted_block(
    net: Builder,
    prefix: str,
    x: Tensor,
    hidden: int,
    channels: int,
    kernel: int,
    stride: int,
    act: str,
    squeezed: int = 0,
    gate: str = "sigmoid",
) -> Tensor:
    """Inverted residual: expand, depthwise, squeeze and excite where `squeezed`, project."""
    y = net.conv(f"{prefix}.expand", x, hidden, 1, act=act) if hidden != x.shape[2] else x
    y = net.conv(f"{prefix}.depthwise", y, hidden, kernel, stride=stride, groups=hidden, act=act)
    if squeezed:
        y = excite(net, f"{prefix}.se", y, squeezed, gate=gate)
    skip = x if stride == 1 and x.shape[2] == channels else None
    return net.conv(f"{prefix}.project", y, channels, 1, skip=skip)


@network
def unet(
    *,
    batch: int = 1,
    resolution: int = 572,
    width: int = 64,
    depth: int = 4,
    channels: int = 1,
    classes: int = 2,
    padded: bool = False,
) -> Workload:
    """U-Net of `depth` poolings, `width` feature maps at the top; `padded` convolutions keep the size.

    Raises ValueError for a resolution that is odd before one of the poolings.
    """
    net = Builder(batch)
    pad = 1 if padded else 0
    x = net.input((resolution, resolution, channels))
    skips: list[Tensor] = []
    for level in range(depth):
        x = _two_convs(net, f"down{level}", x, width * 2**level, pad)
        if x.shape[0] % 2:
            raise ValueError(
                f"resolution: expected an even size before pooling {level}, received {resolution} "
                f"({x.shape[0]} there)"
            )
        skips.append(x)
        x = net.max_pool(f"down{level}.pool", x, 2, 2)
    x = _two_convs(net, "bottom", x, width * 2**depth, pad)
    for level in reversed(range(depth)):
        x = net.up_conv(f"up{level}.up", x, width * 2**level, 2)
        x = _concat(net, f"up{level}.concat", skips[level], x)
        x = _two_convs(net, f"up{level}", x, width * 2**level, pad)
    x = net.conv("classifier", x, classes, 1)
    return net.build("unet", [x], "Ronneberger et al. 2015, int8")


def _two_convs(net: Builder, prefix: str, x: Tensor, channels: int, pad: int) -> Tensor:
    x = net.conv(f"{prefix}.conv1", x, channels, 3, pad=pad, act="relu")
    return net.conv(f"{prefix}.conv2", x, channels, 3, pad=pad, act="relu")


def _concat(net: Builder, name: str, skip: Tensor, x: Tensor) -> Tensor:
    """The centre of the skip and x, channel after channel."""
    size_x, size_y, channels = x.shape
    cropped = skip.part((size_x, size_y, skip.shape[2]))
    ofm = (size_x, size_y, cropped.shape[2] + channels)
    return net.pointwise(name, "concat", [cropped, x], "copy", ofm=ofm)
