"""Recommendation: DLRM, wide and deep, two towers, neural collaborative filtering.

Sources:
- DLRM: Naumov et al., "Deep Learning Recommendation Model …", 2019, figure 1; layer sizes of its Criteo example (small)
  and of MLPerf's (large); numbers of values of the 26 categories: Criteo's Kaggle data.
- Wide and deep: Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016, figure 4.
- Two towers: Yi et al., "Sampling-Bias-Corrected Neural Modeling …", 2019, figure 2.
- NCF: He et al., "Neural Collaborative Filtering", 2017, figure 3.

Deviations:
- Tables are capped (values beyond the cap share rows, DLRM's max-ind-range), so that each fits on a chip.
- One row a table and sample, batches of samples; wide and deep's crossed features are a hashed table of one column.
"""

from __future__ import annotations

from workloads.workload import Gemm, Workload
from workloads.zoo.builder import ID_BYTES, Builder, Tensor, network

_CRITEO = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
    *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
)
"""Values of the 26 categories."""


@network
def dlrm(*, size: int = 16, cap: int = 1_000_000, large: int = 0, batch: int = 128) -> Workload:
    """DLRM with rows of `size` in 26 tables of at most `cap` rows; `large`: the layers of MLPerf's."""
    bottom, top = ((512, 256), (1024, 1024, 512, 256)) if large else ((512, 256, 64), (512, 256))
    net = Builder(batch)
    x = _layers(net, "bottom", net.input((1, 1, 13)), (*bottom, size))
    rows = [_row(net, f"table{i}", min(values, cap), size) for i, values in enumerate(_CRITEO)]
    count = len(rows) + 1
    stacked = net.pointwise("stack", "concat", [x, *rows], "copy", ofm=(count, 1, size))
    gemm = Gemm(batch, count, count, size)
    y = net.add("interaction", "matmul", [stacked], (count, 1, count), gemm=gemm)
    pairs = count * (count - 1) // 2
    y = net.pointwise("join", "concat", [y, x], "copy", ofm=(1, 1, pairs + size))
    y = _layers(net, "top", y, top)
    return net.build("dlrm", [net.linear("click", y, 1, act="sigmoid")], "Naumov et al. 2019, int8")


@network
def wide_deep(*, size: int = 32, fields: int = 16, batch: int = 128) -> Workload:
    """A deep part over embedded fields beside a wide one over crossed fields, summed."""
    net = Builder(batch)
    rows = [_row(net, f"field{i}", 10 ** (2 + i % 4), size) for i in range(fields)]
    deep = net.concat("deep.concat", rows)
    deep = _layers(net, "deep", deep, (1024, 512, 256))
    deep = net.linear("deep.out", deep, 1)
    crosses = [_row(net, f"wide.cross{i}", 1_000_000, 1) for i in range(4)]
    wide = net.add("wide.sum", "elementwise", crosses, (1, 1, 1), vector_ops=3 * batch)
    x = net.pointwise("sum", "elementwise", [deep, wide], "add")
    x = net.pointwise("sigmoid", "activation", [x], "sigmoid")
    return net.build("wide_deep", [x], "Cheng et al. 2016, int8")


@network
def two_tower(*, size: int = 64, batch: int = 256, users: int = 400_000, items: int = 200_000) -> Workload:
    """A tower for users and one for items, whose ends are multiplied."""
    net = Builder(batch)
    ends = []
    for tower, ids, fields in (("user", users, 6), ("item", items, 4)):
        rows = [_row(net, f"{tower}.id", ids, size)]
        rows += [_row(net, f"{tower}.field{i}", 1000 * 3**i, size) for i in range(fields)]
        x = _layers(net, tower, net.concat(f"{tower}.concat", rows), (1024, 512))
        x = net.linear(f"{tower}.out", x, 128)
        ends.append(net.pointwise(f"{tower}.normalise", "norm", [x], "layernorm"))
    x = net.add("dot", "reduce", ends, (1, 1, 1), vector_ops=2 * batch * 128)
    x = net.pointwise("sigmoid", "activation", [x], "sigmoid")
    return net.build("two_tower", [x], "Yi et al. 2019, int8")


@network
def ncf(*, size: int = 64, batch: int = 1024, users: int = 138_493, items: int = 26_744) -> Workload:
    """Neural matrix factorisation: a product of rows beside layers over other rows (MovieLens-20M's sizes)."""
    net = Builder(batch)
    factors = [_row(net, "user.factors", users, size), _row(net, "item.factors", items, size)]
    product = net.pointwise("product", "elementwise", factors, "scale")
    rows = [_row(net, "user.layers", users, 2 * size), _row(net, "item.layers", items, 2 * size)]
    x = _layers(net, "layers", net.concat("concat", rows), (256, 256, 128, 64))
    x = net.linear("score", net.concat("join", [product, x]), 1, act="sigmoid")
    return net.build("ncf", [x], "He et al. 2017, int8")


def _row(net: Builder, name: str, rows: int, size: int) -> Tensor:
    return net.gather(name, [net.input((1, 1, 1), ID_BYTES)], rows, size, 1)


def _layers(net: Builder, prefix: str, x: Tensor, widths: tuple[int, ...]) -> Tensor:
    for i, width in enumerate(widths):
        x = net.linear(f"{prefix}.fc{i}", x, width, act="relu")
    return x
