"""Classifiers of parallel branches: SqueezeNet, GoogLeNet, Inception-v3, Xception.

Sources:
- SqueezeNet: Iandola et al., 2016, table 1 (1.0); 1.1 as its authors released it.
- GoogLeNet: Szegedy et al., "Going Deeper with Convolutions", 2015, table 1.
- Inception-v3: Szegedy et al., "Rethinking the Inception Architecture …", 2016, with the branches of torchvision.
- Xception: Chollet, "Xception: Deep Learning with Depthwise Separable Convolutions", 2017, figure 5.

Deviations:
- No auxiliary classifiers, no local response normalisation, no dropout.
- Batch norms are folded; an average pooling of 3x3 costs what a max pooling of 3x3 does.
- A relu before a separable convolution of Xception is counted in its depthwise half.
"""

from __future__ import annotations

from collections.abc import Sequence

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network
from workloads.zoo.cnn import classifier

_FIRES = (16, 16, 32, 32, 48, 48, 64, 64)


@network
def squeezenet(version: str, *, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """SqueezeNet "1_0" or "1_1": eight fire modules (squeeze to 1x1, expand to 1x1 and 3x3)."""
    old = version == "1_0"
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    x = net.conv("conv1", x, 96 if old else 64, 7 if old else 3, stride=2, pad=0, act="relu")
    x = net.max_pool("pool1", x, 3, 2, ceil=True)
    for i, squeezed in enumerate(_FIRES, start=2):
        y = net.conv(f"fire{i}.squeeze", x, squeezed, 1, act="relu")
        sides = [net.conv(f"fire{i}.expand{k}x{k}", y, 4 * squeezed, k, act="relu") for k in (1, 3)]
        x = net.concat(f"fire{i}.concat", sides)
        if i in ((4, 8) if old else (3, 5)):
            x = net.max_pool(f"pool{i}", x, 3, 2, ceil=True)
    x = net.conv("conv10", x, classes, 1, act="relu")
    x = net.average_pool("avgpool", x)
    x = net.pointwise("softmax", "softmax", [x], "softmax")
    return net.build("squeezenet", [x], "Iandola et al. 2016, int8")


_GOOGLENET = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Channels: 1x1; 3x3 reduced, 3x3; 5x5 reduced, 5x5; after the pooling."""


@network
def googlenet(*, batch: int = 1, resolution: int = 224, classes: int = 1000) -> Workload:
    """GoogLeNet (Inception-v1): nine inception modules."""
    net = Builder(batch)
    x = net.conv("conv1", net.input((resolution, resolution, 3)), 64, 7, stride=2, act="relu")
    x = net.max_pool("pool1", x, 3, 2, ceil=True)
    x = net.conv("conv2.reduce", x, 64, 1, act="relu")
    x = net.conv("conv2", x, 192, 3, act="relu")
    x = net.max_pool("pool2", x, 3, 2, ceil=True)
    for block, (one, reduced3, three, reduced5, five, pooled) in _GOOGLENET.items():
        first = net.conv(f"{block}.1x1", x, one, 1, act="relu")
        y = net.conv(f"{block}.3x3.reduce", x, reduced3, 1, act="relu")
        second = net.conv(f"{block}.3x3", y, three, 3, act="relu")
        y = net.conv(f"{block}.5x5.reduce", x, reduced5, 1, act="relu")
        third = net.conv(f"{block}.5x5", y, five, 5, act="relu")
        y = net.max_pool(f"{block}.pool", x, 3, 1, 1)
        fourth = net.conv(f"{block}.pool.project", y, pooled, 1, act="relu")
        x = net.concat(f"{block}.concat", [first, second, third, fourth])
        if block in ("3b", "4e"):
            x = net.max_pool(f"pool{block[0]}", x, 3, 2, ceil=True)
    return net.build("googlenet", [classifier(net, x, classes)], "Szegedy et al. 2015, int8")


_Step = tuple[int, int | tuple[int, int]]
"""Channels and kernel of a convolution in a branch."""


@network
def inception_v3(*, batch: int = 1, resolution: int = 299, classes: int = 1000) -> Workload:
    """Inception-v3: factorised convolutions in eleven modules."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    x = net.conv("conv1", x, 32, 3, stride=2, pad=0, act="relu")
    x = net.conv("conv2", x, 32, 3, pad=0, act="relu")
    x = net.conv("conv3", x, 64, 3, act="relu")
    x = net.max_pool("pool1", x, 3, 2)
    x = net.conv("conv4", x, 80, 1, act="relu")
    x = net.conv("conv5", x, 192, 3, pad=0, act="relu")
    x = net.max_pool("pool2", x, 3, 2)
    for i, pooled in enumerate((32, 64, 64)):
        branches: list[list[_Step]] = [[(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)]]
        x = _mixed(net, f"a{i}", x, branches, pooled)
    x = _reduction(net, "b", x, [[(384, 3)], [(64, 1), (96, 3), (96, 3)]])
    for i, inner in enumerate((128, 160, 160, 192)):
        wide, tall = (7, 1), (1, 7)
        branches = [
            [(192, 1)],
            [(inner, 1), (inner, wide), (192, tall)],
            [(inner, 1), (inner, tall), (inner, wide), (inner, tall), (192, wide)],
        ]
        x = _mixed(net, f"c{i}", x, branches, 192)
    x = _reduction(net, "d", x, [[(192, 1), (320, 3)], [(192, 1), (192, (7, 1)), (192, (1, 7)), (192, 3)]])
    for i in range(2):
        x = _split_mixed(net, f"e{i}", x)
    return net.build("inception_v3", [classifier(net, x, classes)], "Szegedy et al. 2016, int8")


def _branch(net: Builder, prefix: str, x: Tensor, steps: Sequence[_Step]) -> Tensor:
    for i, (channels, kernel) in enumerate(steps):
        x = net.conv(f"{prefix}.conv{i}", x, channels, kernel, act="relu")
    return x


def _mixed(net: Builder, prefix: str, x: Tensor, branches: list[list[_Step]], pooled: int) -> Tensor:
    parts = [_branch(net, f"{prefix}.branch{i}", x, steps) for i, steps in enumerate(branches)]
    y = net.max_pool(f"{prefix}.pool", x, 3, 1, 1)
    parts.append(net.conv(f"{prefix}.pool.project", y, pooled, 1, act="relu"))
    return net.concat(f"{prefix}.concat", parts)


def _reduction(net: Builder, prefix: str, x: Tensor, branches: list[list[_Step]]) -> Tensor:
    """Each branch ends in a convolution of stride 2 without padding, beside a pooling."""
    parts = []
    for i, steps in enumerate(branches):
        y = _branch(net, f"{prefix}.branch{i}", x, steps[:-1])
        channels, kernel = steps[-1]
        parts.append(net.conv(f"{prefix}.branch{i}.last", y, channels, kernel, stride=2, pad=0, act="relu"))
    parts.append(net.max_pool(f"{prefix}.pool", x, 3, 2))
    return net.concat(f"{prefix}.concat", parts)


def _split_mixed(net: Builder, prefix: str, x: Tensor) -> Tensor:
    """The last modules: two branches end in a pair of convolutions side by side."""
    parts = [net.conv(f"{prefix}.1x1", x, 320, 1, act="relu")]
    stems: list[list[_Step]] = [[(384, 1)], [(448, 1), (384, 3)]]
    for i, steps in enumerate(stems):
        y = _branch(net, f"{prefix}.branch{i}", x, steps)
        parts += [
            net.conv(f"{prefix}.branch{i}.wide", y, 384, (3, 1), act="relu"),
            net.conv(f"{prefix}.branch{i}.tall", y, 384, (1, 3), act="relu"),
        ]
    y = net.max_pool(f"{prefix}.pool", x, 3, 1, 1)
    parts.append(net.conv(f"{prefix}.pool.project", y, 192, 1, act="relu"))
    return net.concat(f"{prefix}.concat", parts)


@network
def xception(*, batch: int = 1, resolution: int = 299, classes: int = 1000) -> Workload:
    """Xception: depthwise separable convolutions with residuals; entry, eight middle and exit flow."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    x = net.conv("conv1", x, 32, 3, stride=2, pad=0, act="relu")
    x = net.conv("conv2", x, 64, 3, pad=0, act="relu")
    for i, channels in enumerate((128, 256, 728)):
        x = _halving(net, f"entry{i}", x, channels, channels)
    for i in range(8):
        y = x
        for k in range(3):
            y = separable(net, f"middle{i}.conv{k}", y, 728, skip=x if k == 2 else None)
        x = y
    x = _halving(net, "exit0", x, 728, 1024)
    x = separable(net, "exit1", x, 1536)
    x = separable(net, "exit2", x, 2048)
    return net.build("xception", [classifier(net, x, classes)], "Chollet 2017, int8")


def separable(
    net: Builder, prefix: str, x: Tensor, channels: int, *, stride: int = 1, skip: Tensor | None = None
) -> Tensor:
    """A depthwise 3x3 and a 1x1 convolution."""
    y = net.conv(f"{prefix}.depthwise", x, x.shape[2], 3, stride=stride, groups=x.shape[2], act="relu")
    return net.conv(f"{prefix}.pointwise", y, channels, 1, act="relu", skip=skip)


def _halving(net: Builder, prefix: str, x: Tensor, inner: int, channels: int) -> Tensor:
    y = separable(net, f"{prefix}.conv0", x, inner)
    y = separable(net, f"{prefix}.conv1", y, channels)
    y = net.max_pool(f"{prefix}.pool", y, 3, 2, 1)
    skip = net.conv(f"{prefix}.projection", x, channels, 1, stride=2)
    return net.pointwise(f"{prefix}.add", "elementwise", [y, skip], "add")
