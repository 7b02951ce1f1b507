"""DenseNet: every layer reads all before it in its block.

Source: Huang et al., "Densely Connected Convolutional Networks", 2017, table 1, and section 4 for CIFAR (BC).

Deviations:
- What a layer reads is the concatenation of the one before and its output, as libraries write it: each concatenation is
  an op, so that no op has more than two readers.
- The batch norm before a layer's 1x1 convolution reads such a concatenation, which others read, too: it is an op of its
  own with its relu. The one between the two convolutions is folded into the first.
"""

from __future__ import annotations

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network
from workloads.zoo.cnn import classifier

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
