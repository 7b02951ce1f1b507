"""Convolutions over time: WaveNet, TCN, QuartzNet, VDCNN, a text classifier, keyword spotting.

Sources:
- WaveNet: van den Oord et al., 2016, figure 4; the paper gives no widths, these (32 residual and 512 skip channels, 30
  layers) are those of widespread implementations.
- TCN: Bai et al., "An Empirical Evaluation of Generic Convolutional and Recurrent Networks …", 2018, figure 1.
- QuartzNet: Kriman et al., 2020, table 1. VDCNN: Conneau et al., 2017, figure 1 and table 2 (29 convolutions).
- Text classifier: Kim, "Convolutional Neural Networks for Sentence Classification", 2014, figure 1.
- DS-CNN: Zhang et al., "Hello Edge: Keyword Spotting on Microcontrollers", 2018 (large, stride 2 both ways).

Deviations:
- A causal convolution pads before the sequence; sizes and work are those of one that keeps the length.
- WaveNet's sum of skips is taken layer by layer, within the skips' convolutions. Batch norms are folded.
- k-max pooling of VDCNN costs an operation an input element, like an average.
"""

from __future__ import annotations

from workloads.workload import Gemm, Workload
from workloads.zoo.builder import ID_BYTES, Builder, Tensor, Window, network
from workloads.zoo.vector_ops import VECTOR_OPS
from zoo.inception import separable


@network
def wavenet(
    *, batch: int = 1, length: int = 1024, stacks: int = 3, depth: int = 10, width: int = 32, skips: int = 512
) -> Workload:
    """`stacks` times `depth` gated layers, dilated by 1, 2, 4, …; the skips' sum goes on to 256 levels a sample."""
    net = Builder(batch)
    x = conv1d(net, "first", net.input((length, 1, 1)), width, 2)
    total: Tensor | None = None
    for stack in range(stacks):
        for layer in range(depth):
            prefix = f"stack{stack}.{layer}"
            y = conv1d(net, f"{prefix}.dilated", x, 2 * width, 2, dilation=2**layer)
            y = net.pointwise(f"{prefix}.gate", "activation", [y], "gate", ofm=(length, 1, width))
            total = conv1d(net, f"{prefix}.skip", y, skips, 1, skip=total)
            if (stack, layer) != (stacks - 1, depth - 1):
                x = conv1d(net, f"{prefix}.residual", y, width, 1, skip=x)
    assert total is not None
    x = net.pointwise("relu", "activation", [total], "relu")
    x = conv1d(net, "out1", x, skips, 1, act="relu")
    x = conv1d(net, "out2", x, 256, 1)
    x = net.pointwise("softmax", "softmax", [x], "softmax")
    return net.build("wavenet", [x], "van den Oord et al. 2016, int8")


@network
def tcn(
    *,
    batch: int = 1,
    length: int = 400,
    levels: int = 8,
    width: int = 256,
    kernel: int = 3,
    classes: int = 88,
) -> Workload:
    """Residual blocks of two causal convolutions, dilated by 1, 2, 4, …; a prediction a step."""
    net = Builder(batch)
    x = net.input((length, 1, classes))
    for level in range(levels):
        y = conv1d(net, f"level{level}.conv1", x, width, kernel, dilation=2**level, act="relu")
        skip = x if level else conv1d(net, "level0.projection", x, width, 1)
        x = conv1d(net, f"level{level}.conv2", y, width, kernel, dilation=2**level, act="relu", skip=skip)
    x = net.dense("decoder", x, classes, act="sigmoid")
    return net.build("tcn", [x], "Bai et al. 2018, int8")


_QUARTZNET = ((256, 33), (256, 39), (512, 51), (512, 63), (512, 75))
"""Channels and kernel of the blocks."""


@network
def quartznet(repeats: int, *, batch: int = 1, frames: int = 512, symbols: int = 29) -> Workload:
    """QuartzNet of 5 x `repeats` blocks of five separable convolutions over 64 mel features a frame."""
    net = Builder(batch)
    x = net.input((frames, 1, 64))
    x = _separable(net, "first", x, 256, 33, stride=2)
    for number, (channels, kernel) in enumerate(_QUARTZNET):
        for repeat in range(repeats):
            prefix = f"block{number}.{repeat}"
            y = x
            for k in range(4):
                y = _separable(net, f"{prefix}.conv{k}", y, channels, kernel)
            skip = conv1d(net, f"{prefix}.skip", x, channels, 1)
            x = _separable(net, f"{prefix}.conv4", y, channels, kernel, skip=skip)
    x = _separable(net, "second", x, 512, 87, dilation=2)
    x = conv1d(net, "third", x, 1024, 1, act="relu")
    x = conv1d(net, "symbols", x, symbols, 1)
    x = net.pointwise("softmax", "softmax", [x], "softmax")
    return net.build("quartznet", [x], "Kriman et al. 2020, int8")


@network
def vdcnn(*, batch: int = 1, length: int = 1024, classes: int = 14) -> Workload:
    """Very deep convolutional network over characters: 29 convolutions, shortcuts, three linear layers."""
    net = Builder(batch)
    x = net.gather("embedding", [net.input((length, 1, 1), ID_BYTES)], 69, 16, length)
    x = conv1d(net, "first", x, 64, 3, act="relu")
    for stage, (channels, blocks) in enumerate(((64, 5), (128, 5), (256, 2), (512, 2))):
        for block in range(blocks):
            prefix = f"stage{stage}.{block}"
            y = conv1d(net, f"{prefix}.conv1", x, channels, 3, act="relu")
            skip = x if x.shape == y.shape else conv1d(net, f"{prefix}.projection", x, channels, 1)
            x = conv1d(net, f"{prefix}.conv2", y, channels, 3, act="relu", skip=skip)
        if stage < 3:
            half = (x.shape[0] // 2, 1, x.shape[2])
            window = Window((3, 1), 2, 1, 1, 0)
            work = 3 * batch * half[0] * half[2]
            x = net.add(f"stage{stage}.pool", "pool", [x], half, vector_ops=work, window=window)
    x = net.add("kmax", "pool", [x], (8, 1, 512), vector_ops=batch * x.elements)
    x = net.linear("fc1", x, 2048, act="relu")
    x = net.linear("fc2", x, 2048, act="relu")
    x = net.linear("fc3", x, classes)
    return net.build(
        "vdcnn", [net.pointwise("softmax", "softmax", [x], "softmax")], "Conneau et al. 2017, int8"
    )


@network
def text_cnn(
    *, batch: int = 1, length: int = 64, vocabulary: int = 20000, width: int = 300, maps: int = 100
) -> Workload:
    """Convolutions over three, four and five words side by side, each followed by its largest value over time."""
    net = Builder(batch)
    x = net.gather("embedding", [net.input((length, 1, 1), ID_BYTES)], vocabulary, width, length)
    tops = []
    for words in (3, 4, 5):
        y = net.conv(f"conv{words}", x, maps, (words, 1), pad=0, act="relu")
        tops.append(net.add(f"pool{words}", "pool", [y], (1, 1, maps), vector_ops=batch * y.elements))
    x = net.linear("fc", net.concat("concat", tops), 2)
    return net.build("text_cnn", [net.pointwise("softmax", "softmax", [x], "softmax")], "Kim 2014, int8")


@network
def ds_cnn(
    *, batch: int = 1, frames: int = 98, width: int = 276, blocks: int = 5, classes: int = 12
) -> Workload:
    """Depthwise separable convolutions over 40 mel features a frame, for keywords."""
    net = Builder(batch)
    x = net.conv("first", net.input((frames, 40, 1)), width, (10, 4), stride=2, pad=(5, 1), act="relu")
    for i in range(blocks):
        x = separable(net, f"block{i}", x, width)
    x = net.linear("fc", net.average_pool("pool", x), classes)
    return net.build(
        "ds_cnn", [net.pointwise("softmax", "softmax", [x], "softmax")], "Zhang et al. 2018, int8"
    )


def conv1d(
    net: Builder,
    name: str,
    x: Tensor,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    act: str = "",
    skip: Tensor | None = None,
) -> Tensor:
    """Convolution over the first axis with bias, a fused sum and activation; keeps the length at stride 1."""
    length, _, depth = x.shape
    ofm = (-(-length // stride), 1, channels)
    reduction = depth // groups * kernel
    work = VECTOR_OPS[act] + (VECTOR_OPS["add"] if skip is not None else 0)
    return net.add(
        name,
        "depthwise_conv" if groups == depth == channels and groups > 1 else "conv",
        [x] if skip is None else [x, skip],
        ofm,
        weights=channels * reduction + channels,
        gemm=Gemm(groups, net.batch * ofm[0], channels // groups, reduction),
        vector_ops=work * net.batch * ofm[0] * channels,
        window=Window((kernel, 1), stride, dilation * (kernel - 1) // 2, dilation, groups),
    )


def _separable(
    net: Builder,
    prefix: str,
    x: Tensor,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    skip: Tensor | None = None,
) -> Tensor:
    """A depthwise convolution over time and one over channels."""
    hidden = x.shape[2]
    y = conv1d(net, f"{prefix}.depthwise", x, hidden, kernel, stride=stride, dilation=dilation, groups=hidden)
    return conv1d(net, f"{prefix}.pointwise", y, channels, 1, act="relu", skip=skip)
