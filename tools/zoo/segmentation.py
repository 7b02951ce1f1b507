"""Networks that label pixels: fully convolutional ResNet-50, DeepLab-v3, SegNet. U-Net is in `unet.py`.

Sources:
- FCN: Long et al., "Fully Convolutional Networks for Semantic Segmentation", 2015, on a dilated ResNet-50 as in
  torchvision.
- DeepLab-v3: Chen et al., "Rethinking Atrous Convolution …", 2017, section 3 (rates 12, 24, 36), likewise.
- SegNet: Badrinarayanan et al., "SegNet", 2017, figure 2.

Deviations:
- No auxiliary heads; batch norms folded; the last upsampling is an op that copies.
- Unpooling of SegNet reads the pooling's output in place of the positions that the pooling kept.
"""

from __future__ import annotations

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network


@network
def fcn_resnet50(*, batch: int = 1, resolution: int = 520, classes: int = 21) -> Workload:
    """A dilated ResNet-50 (output stride 8) with two convolutions on top."""
    net = Builder(batch)
    x = _dilated_resnet50(net, net.input((resolution, resolution, 3)))
    x = net.conv("head.conv", x, 512, 3, act="relu")
    x = net.conv("head.classifier", x, classes, 1)
    return net.build("fcn_resnet50", [_enlarge(net, x, resolution)], "Long et al. 2015, int8")


@network
def deeplab_v3(*, batch: int = 1, resolution: int = 520, classes: int = 21) -> Workload:
    """A dilated ResNet-50 with a pyramid of five parallel branches on top."""
    net = Builder(batch)
    x = _dilated_resnet50(net, net.input((resolution, resolution, 3)))
    branches = [net.conv("aspp.1x1", x, 256, 1, act="relu")]
    branches += [net.conv(f"aspp.rate{rate}", x, 256, 3, dilation=rate, act="relu") for rate in (12, 24, 36)]
    y = net.conv("aspp.pool.conv", net.average_pool("aspp.pool", x), 256, 1, act="relu")
    branches.append(net.pointwise("aspp.pool.spread", "upsample", [y], "copy", ofm=(*x.shape[:2], 256)))
    x = net.conv("aspp.project", net.concat("aspp.concat", branches), 256, 1, act="relu")
    x = net.conv("head.conv", x, 256, 3, act="relu")
    x = net.conv("head.classifier", x, classes, 1)
    return net.build("deeplab_v3", [_enlarge(net, x, resolution)], "Chen et al. 2017, int8")


@network
def segnet(*, batch: int = 1, resolution: int = 352, classes: int = 12) -> Workload:
    """VGG-16's convolutions and their mirror image, joined by the positions of the poolings."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    stages = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
    pools: list[tuple[Tensor, Tensor]] = []
    for i, (channels, convs) in enumerate(stages):
        for k in range(convs):
            x = net.conv(f"down{i}.conv{k}", x, channels, 3, act="relu")
        before = x
        x = net.max_pool(f"down{i}.pool", x, 2, 2)
        pools.append((before, x))
    for i in reversed(range(len(stages))):
        before, pooled = pools[i]
        reads = [x] if x.source == pooled.source else [x, pooled]
        x = net.pointwise(f"up{i}.unpool", "upsample", reads, "copy", ofm=before.shape)
        channels, convs = stages[i]
        for k in range(convs):
            last = k == convs - 1
            out = channels if not last else stages[i - 1][0] if i else classes
            x = net.conv(f"up{i}.conv{k}", x, out, 3, act="" if last and i == 0 else "relu")
    return net.build("segnet", [x], "Badrinarayanan et al. 2017, int8")


def _dilated_resnet50(net: Builder, x: Tensor) -> Tensor:
    """The last two stages keep the resolution and spread their kernels instead."""
    x = net.conv("conv1", x, 64, 7, stride=2, act="relu")
    x = net.max_pool("maxpool", x, 3, 2, 1)
    stages = ((3, 1, 1, 1), (4, 2, 1, 1), (6, 1, 1, 2), (3, 1, 2, 4))
    for stage, (blocks, first_stride, first_dilation, dilation) in enumerate(stages):
        channels = 64 * 2**stage
        for block in range(blocks):
            stride, spread = (first_stride, first_dilation) if block == 0 else (1, dilation)
            prefix = f"layer{stage + 1}.{block}"
            y = net.conv(f"{prefix}.conv1", x, channels, 1, act="relu")
            y = net.conv(f"{prefix}.conv2", y, channels, 3, stride=stride, dilation=spread, act="relu")
            skip = x
            if block == 0:
                skip = net.conv(f"{prefix}.projection", x, 4 * channels, 1, stride=stride)
            x = net.conv(f"{prefix}.conv3", y, 4 * channels, 1, act="relu", skip=skip)
    return x


def _enlarge(net: Builder, x: Tensor, resolution: int) -> Tensor:
    ofm = (resolution, resolution, x.shape[2])
    return net.pointwise("upsample", "upsample", [x], "copy", ofm=ofm)
