"""Networks of linear layers: MLP-Mixer and a residual network for tables.

Sources:
- MLP-Mixer: Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision", 2021, figure 1 and table 1.
- Tables: Gorishniy et al., "Revisiting Deep Learning Models for Tabular Data", 2021, section 3.2 (ResNet).

Deviations:
- A bias, an activation and a residual sum are part of the matmul before them. Batch norms of the residual network stand
  after a sum that others read, and are ops.
"""

from __future__ import annotations

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network


@network
def mlp_mixer(
    *,
    layers: int = 8,
    hidden: int = 512,
    tokens: int = 256,
    channels: int = 2048,
    patch: int = 16,
    batch: int = 1,
    resolution: int = 224,
    classes: int = 1000,
) -> Workload:
    """MLP-Mixer: `layers` times a mixing of patches (`tokens` wide inside) and one of channels.

    Raises ValueError where patches do not divide the resolution.
    """
    if resolution % patch:
        raise ValueError(f"patch: expected a divisor of resolution = {resolution}, received {patch}")
    net = Builder(batch)
    side = resolution // patch
    x = net.conv("patches", net.input((resolution, resolution, 3)), hidden, patch, stride=patch, pad=0)
    x = net.pointwise("patches.reshape", "reshape", [x], "view", ofm=(side * side, 1, hidden))
    for layer in range(layers):
        prefix = f"layer{layer}"
        y = net.pointwise(f"{prefix}.norm1", "norm", [x], "layernorm", weights=2 * hidden)
        y = net.pointwise(f"{prefix}.turn", "transpose", [y], "copy", ofm=(hidden, 1, side * side))
        y = net.dense(f"{prefix}.tokens1", y, tokens, act="gelu")
        y = net.dense(f"{prefix}.tokens2", y, side * side)
        y = net.pointwise(f"{prefix}.turn_back", "transpose", [y], "copy", ofm=(side * side, 1, hidden))
        x = net.pointwise(f"{prefix}.add1", "elementwise", [y, x], "add")
        y = net.pointwise(f"{prefix}.norm2", "norm", [x], "layernorm", weights=2 * hidden)
        y = net.dense(f"{prefix}.channels1", y, channels, act="gelu")
        y = net.dense(f"{prefix}.channels2", y, hidden)
        x = net.pointwise(f"{prefix}.add2", "elementwise", [y, x], "add")
    x = net.pointwise("norm", "norm", [x], "layernorm", weights=2 * hidden)
    x = net.add("mean", "reduce", [x], (1, 1, hidden), vector_ops=batch * x.elements)
    x = net.linear("head", x, classes)
    x = net.pointwise("softmax", "softmax", [x], "softmax")
    return net.build("mlp_mixer", [x], "Tolstikhin et al. 2021, int8")


@network
def tabular_resnet(
    *, batch: int = 64, features: int = 200, blocks: int = 8, width: int = 512, classes: int = 10
) -> Workload:
    """Blocks of norm, two linear layers and a sum, over a row of a table."""
    net = Builder(batch)
    x: Tensor = net.linear("first", net.input((1, 1, features)), width)
    for block in range(blocks):
        prefix = f"block{block}"
        y = net.pointwise(f"{prefix}.norm", "norm", [x], "batchnorm", weights=2 * width)
        y = net.linear(f"{prefix}.linear1", y, 2 * width, act="relu")
        y = net.linear(f"{prefix}.linear2", y, width)
        x = net.pointwise(f"{prefix}.add", "elementwise", [y, x], "add")
    x = net.pointwise("norm", "norm", [x], "batchnorm", weights=2 * width)
    x = net.linear("head", x, classes)
    x = net.pointwise("softmax", "softmax", [x], "softmax")
    return net.build("tabular_resnet", [x], "Gorishniy et al. 2021, int8")
