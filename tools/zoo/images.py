"""Networks that make images: DCGAN, CycleGAN, pix2pix, an autoencoder, EDSR, VDSR.

Sources:
- DCGAN: Radford et al., 2016, figure 1, at 64x64 with 64 channels, as PyTorch's example has it.
- CycleGAN: Zhu et al., 2017, appendix 7.2 (nine residual blocks). pix2pix: Isola et al., 2017, appendix 6.1 (U-Net).
- EDSR: Lim et al., "Enhanced Deep Residual Networks for Single Image Super-Resolution", 2017, table 1 (baseline).
- VDSR: Kim et al., "Accurate Image Super-Resolution Using Very Deep Convolutional Networks", 2016, section 3.1.

Deviations:
- Batch norms are folded; instance norms depend on the image and are ops of their own, with their relu.
- DCGAN's two halves are one graph, in which the discriminator judges what the generator makes.
- The autoencoder is nobody's in particular: strided convolutions, a bottleneck, and their mirror image.
"""

from __future__ import annotations

from math import prod

from workloads.workload import Gemm, Workload
from workloads.zoo.builder import Builder, Tensor, Window, network
from workloads.zoo.vector_ops import VECTOR_OPS


def transposed_conv(
    net: Builder,
    name: str,
    x: Tensor,
    channels: int,
    kernel: int,
    stride: int,
    pad: int,
    *,
    more: int = 0,
    act: str = "",
) -> Tensor:
    """Transposed convolution with bias whose tiles overlap: (size - 1) x stride + kernel - 2 x pad + more."""
    width, height, depth = x.shape
    least = kernel - 2 * pad + more
    ofm = ((width - 1) * stride + least, (height - 1) * stride + least, channels)
    cols = channels * kernel * kernel
    return net.add(
        name,
        "conv",
        [x],
        ofm,
        weights=depth * cols + channels,
        gemm=Gemm(1, net.batch * width * height, cols, depth),
        vector_ops=VECTOR_OPS[act] * net.batch * prod(ofm),
        window=Window((kernel, kernel), stride, pad, 1, 1),
    )


@network
def dcgan(*, batch: int = 1, width: int = 64, noise: int = 100) -> Workload:
    """Generator and discriminator one after the other, 64x64 pixels between them."""
    net = Builder(batch)
    x = transposed_conv(net, "generator.conv0", net.input((1, 1, noise)), 8 * width, 4, 1, 0, act="relu")
    for i, factor in enumerate((4, 2, 1), start=1):
        x = transposed_conv(net, f"generator.conv{i}", x, factor * width, 4, 2, 1, act="relu")
    x = transposed_conv(net, "generator.conv4", x, 3, 4, 2, 1, act="tanh")
    for i, factor in enumerate((1, 2, 4, 8)):
        x = net.conv(f"discriminator.conv{i}", x, factor * width, 4, stride=2, pad=1, act="leaky")
    x = net.conv("discriminator.conv4", x, 1, 4, pad=0)
    x = net.pointwise("discriminator.sigmoid", "activation", [x], "sigmoid")
    return net.build("dcgan", [x], "Radford et al. 2016, int8")


@network
def cyclegan(*, batch: int = 1, resolution: int = 256, blocks: int = 9, width: int = 64) -> Workload:
    """The generator of CycleGAN: two strided convolutions, residual blocks, two transposed convolutions."""
    net = Builder(batch)
    x = _norm(net, "first", net.conv("first", net.input((resolution, resolution, 3)), width, 7))
    for i in (1, 2):
        x = _norm(net, f"down{i}", net.conv(f"down{i}", x, width * 2**i, 3, stride=2))
    for block in range(blocks):
        y = _norm(net, f"block{block}.conv1", net.conv(f"block{block}.conv1", x, x.shape[2], 3))
        y = _norm(net, f"block{block}.conv2", net.conv(f"block{block}.conv2", y, x.shape[2], 3))
        x = net.pointwise(f"block{block}.add", "elementwise", [y, x], "add")
    for i in (1, 0):
        x = transposed_conv(net, f"up{i}", x, width * 2**i, 3, 2, 1, more=1)
        x = _norm(net, f"up{i}", x)
    x = net.conv("last", x, 3, 7, act="tanh")
    return net.build("cyclegan", [x], "Zhu et al. 2017, int8")


@network
def pix2pix(*, batch: int = 1, width: int = 64) -> Workload:
    """The generator of pix2pix: a U-Net of eight strided convolutions and their mirror image, 256x256 pixels."""
    net = Builder(batch)
    x = net.input((256, 256, 3))
    widths = [width * min(8, 2**i) for i in range(8)]
    skips = []
    for i, channels in enumerate(widths):
        x = net.conv(f"down{i}", x, channels, 4, stride=2, pad=1, act="leaky")
        skips.append(x)
    for i in reversed(range(1, 8)):
        x = transposed_conv(net, f"up{i}", x, widths[i - 1], 4, 2, 1, act="relu")
        x = net.concat(f"up{i}.concat", [x, skips[i - 1]])
    x = transposed_conv(net, "up0", x, 3, 4, 2, 1, act="tanh")
    return net.build("pix2pix", [x], "Isola et al. 2017, int8")


@network
def autoencoder(
    *, batch: int = 1, resolution: int = 128, levels: int = 4, width: int = 32, code: int = 256
) -> Workload:
    """Convolutions of stride 2, a code, transposed convolutions."""
    net = Builder(batch)
    x = net.input((resolution, resolution, 3))
    for i in range(levels):
        x = net.conv(f"down{i}", x, width * 2**i, 3, act="relu")
        x = net.conv(f"down{i}.stride", x, width * 2**i, 3, stride=2, act="relu")
    shape = x.shape
    x = net.linear("encode", x, code)
    x = net.linear("decode", x, shape[0] * shape[1] * shape[2], act="relu")
    x = net.pointwise("decode.reshape", "reshape", [x], "view", ofm=shape)
    for i in reversed(range(levels)):
        x = transposed_conv(net, f"up{i}.stride", x, width * 2**i, 4, 2, 1, act="relu")
        x = net.conv(f"up{i}", x, width * 2**i, 3, act="relu")
    x = net.conv("last", x, 3, 3, act="sigmoid")
    return net.build("autoencoder", [x], "a convolutional autoencoder, int8")


@network
def edsr(*, batch: int = 1, resolution: int = 128, blocks: int = 16, width: int = 64) -> Workload:
    """EDSR at twice the resolution: residual blocks between the ends of one long skip, then a pixel shuffle."""
    net = Builder(batch)
    first = net.conv("head", net.input((resolution, resolution, 3)), width, 3)
    x = first
    for block in range(blocks):
        y = net.conv(f"block{block}.conv1", x, width, 3, act="relu")
        x = net.conv(f"block{block}.conv2", y, width, 3, skip=x)
    x = net.conv("body", x, width, 3, skip=first)
    x = net.conv("up", x, 4 * width, 3)
    twice = (2 * resolution, 2 * resolution, width)
    x = net.pointwise("up.shuffle", "transpose", [x], "copy", ofm=twice)
    return net.build("edsr", [net.conv("tail", x, 3, 3)], "Lim et al. 2017, baseline, int8")


@network
def vdsr(*, batch: int = 1, resolution: int = 256, depth: int = 20, width: int = 64) -> Workload:
    """A chain of `depth` convolutions of 3x3 that computes what is added to an enlarged image."""
    net = Builder(batch)
    image = net.input((resolution, resolution, 1))
    x = image
    for i in range(depth - 1):
        x = net.conv(f"conv{i}", x, width, 3, act="relu")
    x = net.conv(f"conv{depth - 1}", x, 1, 3)
    x = net.pointwise("add", "elementwise", [x, image], "add")
    return net.build("vdsr", [x], "Kim et al. 2016, int8")


def _norm(net: Builder, prefix: str, x: Tensor) -> Tensor:
    """Instance normalisation without parameters."""
    return net.pointwise(f"{prefix}.norm", "norm", [x], "layernorm")
