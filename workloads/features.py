"""The features of a node: Table 1 of the EGRL paper ("Optimizing Memory Placement using Evolutionary Graph
Reinforcement Learning", appendix A), in its order.

Deviations:
- The paper does not say how features are scaled. Here every scale is a constant of the schema, nothing is
  fitted to a workload, so that a policy trained on one network reads another one in the same units.
- `n_w_left` counts weight elements held (bytes held / bytes an element) of this op and all later ones.
- `ifm_size` and `ofm_size` are the products of their three axes, without the batch, as printed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workloads.workload import KINDS, Op, Workload

SCHEMA_VERSION = 1
"""Changes whenever a feature, its meaning or its scale changes; kept beside the weights of a policy."""

OP_ID_SCALE = 1 / 16
"""Per position in `KINDS`; a constant, so that kinds added at the end do not move the others."""
SIZE_SCALE = 1 / 16
"""log1p of bytes, elements or weights: 16 MiB -> 1.04, 1 GiB -> 1.30."""
DIMENSION_SCALE = 1 / 8
"""log1p of an axis, a number of ops or of groups: 224 -> 0.68, 1024 -> 0.87, 50257 -> 1.35."""
BATCH_SCALE = 1 / 4
"""log1p of the batch: 1 -> 0.17, 32 -> 0.87."""
WINDOW_SCALE = 1 / 2
"""log1p of kernel, stride, padding, dilation: 1 -> 0.35, 3 -> 0.69, 7 -> 1.04."""

SCALES: dict[str, float] = {
    "op_id": OP_ID_SCALE,
    "weight_size": SIZE_SCALE,
    "ifm_x": DIMENSION_SCALE,
    "ifm_y": DIMENSION_SCALE,
    "ifm_z": DIMENSION_SCALE,
    "ofm_x": DIMENSION_SCALE,
    "ofm_y": DIMENSION_SCALE,
    "ofm_z": DIMENSION_SCALE,
    "ifm_size": SIZE_SCALE,
    "ofm_size": SIZE_SCALE,
    "n_ops_left": DIMENSION_SCALE,
    "n_w_left": SIZE_SCALE,
    "groups": DIMENSION_SCALE,
    "kernel_x": WINDOW_SCALE,
    "kernel_y": WINDOW_SCALE,
    "stride": WINDOW_SCALE,
    "pad": WINDOW_SCALE,
    "dilation": WINDOW_SCALE,
    "batch": BATCH_SCALE,
}
"""Scale of each feature, in Table 1's order: `op_id` is multiplied by it, log1p of every other one is."""

FEATURES: tuple[str, ...] = tuple(SCALES)
"""Names of the 19 columns of `static_features`."""

CONVOLUTIONS: frozenset[str] = frozenset({"conv", "depthwise_conv"})
"""Kinds whose kernel, stride, padding, dilation and groups are seen; they are 0 for every other kind."""

_OP_ID = {kind: i for i, kind in enumerate(KINDS)}
_SCALE = np.array(list(SCALES.values()), dtype=np.float64)


def static_features(workload: Workload) -> NDArray[np.float32]:
    """float32 [N, 19], columns as in `FEATURES`, values roughly in 0..2. Expects a checked workload."""
    raw = raw_features(workload)
    raw[:, 1:] = np.log1p(raw[:, 1:])
    return (raw * _SCALE).astype(np.float32)


def raw_features(workload: Workload) -> NDArray[np.float64]:
    """float64 [N, 19]: the features in their own units (bytes, elements, counts), before scaling."""
    rows = np.array([_own(op) for op in workload.ops], dtype=np.float64).reshape(len(workload), 15)
    weights = rows[:, 1] / workload.element_bytes.weight
    table = np.empty((len(workload), len(FEATURES)), dtype=np.float64)
    table[:, :8] = rows[:, :8]
    table[:, 8] = rows[:, 2:5].prod(axis=1)
    table[:, 9] = rows[:, 5:8].prod(axis=1)
    table[:, 10] = np.arange(len(workload) - 1, -1, -1)
    table[:, 11] = np.cumsum(weights[::-1])[::-1]
    table[:, 12:] = rows[:, 8:15]
    return table


def edge_index(workload: Workload) -> NDArray[np.int64]:
    """int64 [2, E]: (producer, consumer) of every edge, in execution order of the consumer."""
    edges = [(producer, consumer) for producer, consumer, _ in workload.edges()]
    return np.array(edges, dtype=np.int64).reshape(len(edges), 2).T.copy()


def _own(op: Op) -> tuple[int, ...]:
    """What is known of an op by itself: all columns but the two sizes and the two sums over later ops."""
    window = (0, 0, 0, 0, 0, 0)
    if op.kind in CONVOLUTIONS:
        window = (op.groups, *op.kernel, op.stride, op.pad, op.dilation)
    return (_OP_ID[op.kind], op.weight_bytes, *op.ifm, *op.ofm, *window, op.batch)
