"""Darknet-53 and the detectors on top of such chains: YOLOv3 and its small sister.

Source: Redmon and Farhadi, "YOLOv3: An Incremental Improvement", 2018, table 1; the layers between backbone and outputs
as in the authors' released configurations (yolov3, yolov3-tiny), 80 classes and 3 anchors a scale.

Deviations:
- Batch norms are folded; leaky relus and residual sums are part of the convolution before them.
- Boxes are not decoded: the outputs are the last convolutions.
"""

from __future__ import annotations

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network
from workloads.zoo.cnn import classifier

_STAGES = ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))
"""Channels and residual blocks."""


@network
def darknet53(*, batch: int = 1, resolution: int = 256, classes: int = 1000) -> Workload:
    """Darknet-53, a residual classifier of 1x1 and 3x3 convolutions."""
    net = Builder(batch)
    x = _darknet(net, net.input((resolution, resolution, 3)))[-1]
    return net.build("darknet53", [classifier(net, x, classes)], "Redmon and Farhadi 2018, int8")


@network
def yolov3(*, batch: int = 1, resolution: int = 416, classes: int = 80) -> Workload:
    """YOLOv3: outputs at three scales, each but the coarsest fed by the one before and by the backbone."""
    net = Builder(batch)
    _, _, fine, middle, x = _darknet(net, net.input((resolution, resolution, 3)))
    outputs = []
    for scale, (channels, skip) in enumerate(((512, middle), (256, fine), (128, None))):
        prefix = f"scale{scale}"
        for i in range(5):
            kernel, width = (3, 2 * channels) if i % 2 else (1, channels)
            x = net.conv(f"{prefix}.conv{i}", x, width, kernel, act="leaky")
        y = net.conv(f"{prefix}.conv5", x, 2 * channels, 3, act="leaky")
        outputs.append(net.conv(f"{prefix}.output", y, 3 * (classes + 5), 1))
        if skip is not None:
            x = net.conv(f"{prefix}.route", x, channels // 2, 1, act="leaky")
            x = net.concat(f"{prefix}.concat", [upsample(net, f"{prefix}.upsample", x, 2), skip])
    return net.build("yolov3", outputs, "Redmon and Farhadi 2018, int8")


@network
def yolov3_tiny(*, batch: int = 1, resolution: int = 416, classes: int = 80) -> Workload:
    """The small YOLOv3: a chain of convolutions and poolings, outputs at two scales."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    for i in range(4):
        x = net.conv(f"conv{i}", x, 16 * 2**i, 3, act="leaky")
        x = net.max_pool(f"pool{i}", x, 2, 2)
    skip = net.conv("conv4", x, 256, 3, act="leaky")
    x = net.max_pool("pool4", skip, 2, 2)
    x = net.conv("conv5", x, 512, 3, act="leaky")
    x = net.add("pool5", "pool", [x], x.shape, vector_ops=4 * net.batch * x.elements)
    x = net.conv("conv6", x, 1024, 3, act="leaky")
    x = net.conv("conv7", x, 256, 1, act="leaky")
    y = net.conv("coarse.conv", x, 512, 3, act="leaky")
    coarse = net.conv("coarse.output", y, 3 * (classes + 5), 1)
    x = upsample(net, "fine.upsample", net.conv("fine.route", x, 128, 1, act="leaky"), 2)
    x = net.concat("fine.concat", [x, skip])
    y = net.conv("fine.conv", x, 256, 3, act="leaky")
    fine = net.conv("fine.output", y, 3 * (classes + 5), 1)
    return net.build("yolov3_tiny", [coarse, fine], "Redmon and Farhadi 2018, int8")


def _darknet(net: Builder, x: Tensor) -> list[Tensor]:
    """The ends of the five stages."""
    x = net.conv("conv0", x, 32, 3, act="leaky")
    ends = []
    for stage, (channels, blocks) in enumerate(_STAGES, start=1):
        x = net.conv(f"stage{stage}.down", x, channels, 3, stride=2, act="leaky")
        for block in range(blocks):
            y = net.conv(f"stage{stage}.{block}.conv1", x, channels // 2, 1, act="leaky")
            x = net.conv(f"stage{stage}.{block}.conv2", y, channels, 3, act="leaky", skip=x)
        ends.append(x)
    return ends


def upsample(net: Builder, name: str, x: Tensor, factor: int) -> Tensor:
    """Each pixel `factor` times in both directions."""
    ofm = (x.shape[0] * factor, x.shape[1] * factor, x.shape[2])
    return net.pointwise(name, "upsample", [x], "copy", ofm=ofm)
