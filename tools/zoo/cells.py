"""Recurrent layers, unrolled step by step or as one op.

Sources:
- LSTM: Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al., 2000, as in Zaremba et al., "Recurrent
  Neural Network Regularization", 2014, section 3.1. GRU: Cho et al., 2014, equations 5 to 8.

Deviations:
- The steps of a layer share their weights. Each op that reads weights *holds* them, as everywhere in the zoo: a step
  may lie on any chip, and a chip without the weights cannot compute it. They count once in `parameters`, at the first
  step. Steps that share a chip would need one copy and are charged for several: memory is over-, never underestimated.
  The sizes of the zoo leave room for that.
- The state before the first step is zero and is no tensor; the product with it is computed in full.
- One bias a gate. A layer as one op does its steps one after the other inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workloads.workload import Gemm
from workloads.zoo.builder import ID_BYTES, Builder, Tensor
from workloads.zoo.vector_ops import VECTOR_OPS

Layer = Callable[..., list[Tensor]]


def shared_dense(
    net: Builder, name: str, inputs: Sequence[Tensor], features: int, *, missing: int = 0, first: bool
) -> Tensor:
    """A linear layer of vectors side by side, whose parameters count where `first`; `missing` more elements of the
    input are zero and not read."""
    hidden = sum(t.shape[2] for t in inputs) + missing
    weights = hidden * features + features
    return net.add(
        name,
        "matmul",
        inputs,
        (1, 1, features),
        weights=weights,
        parameters=weights if first else 0,
        gemm=Gemm(1, net.batch, features, hidden),
    )


def lookups(net: Builder, prefix: str, steps: int, rows: int, size: int) -> list[Tensor]:
    """One word per step, each from the same table [rows, size] by an op of its own."""
    return [
        net.add(
            f"{prefix}.t{t}",
            "embedding",
            [net.input((1, 1, 1), ID_BYTES)],
            (1, 1, size),
            weights=rows * size,
            weights_read=min(net.batch, rows) * size,
            parameters=rows * size if t == 0 else 0,
            vector_ops=VECTOR_OPS["copy"] * net.batch * size,
        )
        for t in range(steps)
    ]


def lstm(
    net: Builder, prefix: str, xs: Sequence[Tensor], hidden: int, state: Tensor | None = None
) -> list[Tensor]:
    """Outputs of an LSTM after each step, two ops a step: the products of all gates, and the cell.

    `state` is what a cell of another layer made last, with which this one begins.
    """
    outputs = []
    for t, x in enumerate(xs):
        name = f"{prefix}.t{t}"
        reads = [x] if state is None else [x, state]
        missing = hidden if state is None else 0
        gates = shared_dense(net, f"{name}.gates", reads, 4 * hidden, missing=missing, first=t == 0)
        reads = [gates] if state is None else [gates, state]
        state = net.add(
            f"{name}.cell",
            "recurrent",
            reads,
            (1, 1, hidden),
            outputs=2,
            vector_ops=VECTOR_OPS["lstm"] * net.batch * hidden,
        )
        outputs.append(state)
    return outputs


def gru(
    net: Builder, prefix: str, xs: Sequence[Tensor], hidden: int, state: Tensor | None = None
) -> list[Tensor]:
    """Outputs of a GRU after each step, four ops a step: gates, reset, candidate, update."""
    outputs = []
    for t, x in enumerate(xs):
        name, before = f"{prefix}.t{t}", state
        reads, missing = ([x], hidden) if before is None else ([x, before], 0)
        gates = shared_dense(net, f"{name}.gates", reads, 2 * hidden, missing=missing, first=t == 0)
        if before is not None:
            half = gates.part((1, 1, hidden))
            reads = [x, net.pointwise(f"{name}.reset", "recurrent", [half, before], "sigmoid")]
        candidate = shared_dense(net, f"{name}.candidate", reads, hidden, missing=missing, first=t == 0)
        update = [gates.part((1, 1, hidden)), candidate]
        if before is not None:
            update.append(before)
        state = net.pointwise(f"{name}.update", "recurrent", update, "gru")
        outputs.append(state)
    return outputs


def elementary_lstm(
    net: Builder, prefix: str, xs: Sequence[Tensor], hidden: int, state: Tensor | None = None
) -> list[Tensor]:
    """The same LSTM as a framework writes it: concatenation, product, split, three sigmoids, two tanhs, products and
    sum. Eleven ops a step, seven in the first, whose state is zero."""
    cell: Tensor | None = None
    outputs = []
    for t, x in enumerate(xs):
        name = f"{prefix}.t{t}"

        def op(part: str, reads: list[Tensor], work: str, name: str = name) -> Tensor:
            kind = "activation" if work in ("sigmoid", "tanh") else "elementwise"
            return net.pointwise(f"{name}.{part}", kind, reads, work)

        both = x if state is None else net.concat(f"{name}.concat", [x, state])
        missing = hidden if state is None else 0
        gates = shared_dense(net, f"{name}.gates", [both], 4 * hidden, missing=missing, first=t == 0)
        quarter = gates.part((1, 1, hidden))
        kept = op("input", [quarter], "sigmoid")
        new = op("kept", [kept, op("new", [quarter], "tanh")], "scale")
        if cell is not None:
            new = op(
                "cell", [new, op("remembered", [op("forget", [quarter], "sigmoid"), cell], "scale")], "add"
            )
        cell = new
        shown = op("output", [quarter], "sigmoid")
        state = op("shown", [op("tanh", [cell], "tanh"), shown], "scale")
        outputs.append(state)
    return outputs


def backwards(layer: Layer, net: Builder, prefix: str, xs: Sequence[Tensor], hidden: int) -> list[Tensor]:
    """Outputs of a layer that reads the steps from the last to the first, in the order of the steps."""
    return layer(net, prefix, list(reversed(xs)), hidden)[::-1]


def bidirectional(layer: Layer, net: Builder, prefix: str, xs: Sequence[Tensor], hidden: int) -> list[Tensor]:
    """Both directions side by side, a concatenation a step."""
    there = layer(net, f"{prefix}.forward", xs, hidden)
    back = backwards(layer, net, f"{prefix}.backward", xs, hidden)
    return [
        net.concat(f"{prefix}.concat.t{t}", list(pair))
        for t, pair in enumerate(zip(there, back, strict=True))
    ]


def whole(net: Builder, name: str, x: Tensor, hidden: int, cell: str) -> Tensor:
    """A layer over a sequence (length, 1, z) as one op, which holds its weights once; `cell` is "lstm" or "gru"."""
    length, gates = x.shape[0], {"lstm": 4, "gru": 3}[cell]
    depth = x.shape[2] + hidden
    return net.add(
        name,
        "recurrent",
        [x],
        (length, 1, hidden),
        weights=gates * hidden * (depth + 1),
        gemm=Gemm(1, net.batch * length, gates * hidden, depth),
        vector_ops=VECTOR_OPS["lstm" if cell == "lstm" else "gru"] * net.batch * length * hidden,
    )


def softmax(net: Builder, x: Tensor) -> Tensor:
    """The softmax that ends a network, called so."""
    return net.pointwise("softmax", "softmax", [x], "softmax")
