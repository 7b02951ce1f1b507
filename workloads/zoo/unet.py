"""U-Net: an encoder and a decoder joined by skips that stay alive for most of the network.

Source: Ronneberger, Fischer and Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation",
2015, figure 1.

Deviations:
- Activations are fused into the convolutions; the crop of a skip is the part that the concatenation reads.
- The softmax over the pixels belongs to the training loss and is left out.
"""

from __future__ import annotations

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network


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
