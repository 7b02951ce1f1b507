"""EfficientNet, and the blocks that it shares with other networks for phones.

Source: Tan and Le, "EfficientNet", 2019, table 1 (B0), scaled as its section 3.3 says.

Deviations:
- Batch norms are folded, activations and residual sums are part of the convolution before them.
- Squeeze and excitation is four ops (pooling, two layers, product); its layers are counted as matmuls.
"""

from __future__ import annotations

from math import ceil

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network
from workloads.zoo.cnn import classifier, multiple_of_8

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
