"""Recurrent networks over images, videos and measurements.

Sources:
- Text in images: Shi et al., "An End-to-End Trainable Neural Network for Image-based Sequence Recognition", 2017,
  table 1.
- Videos: Donahue et al., "Long-term Recurrent Convolutional Networks …", 2015, figure 1; Shi et al., "Convolutional
  LSTM Network", 2015, figure 3 (encoder and forecaster).
- Autoencoder of measurements: Malhotra et al., 2016, figure 1.

Deviations:
- The layers of text in images, which a library runs as one op, are one op here and hold their weights once; the others
  are unrolled, each step holding what it reads (`cells.py`).
- Batch norms are folded.
- The convolutions of a video's frames are unrolled like the steps, smaller than published.
"""

from __future__ import annotations

from math import prod

from workloads.workload import Gemm, Workload
from workloads.zoo.builder import Builder, Tensor, Window, network
from workloads.zoo.vector_ops import VECTOR_OPS
from zoo.cells import lstm, shared_dense, softmax, whole


@network
def crnn(*, batch: int = 1, width: int = 100, symbols: int = 37) -> Workload:
    """Text in images of 32 rows: seven convolutions, two bidirectional LSTMs over columns."""
    net = Builder(batch)
    x = net.conv("conv1", net.input((width, 32, 1)), 64, 3, act="relu")
    x = net.max_pool("pool1", x, 2, 2)
    x = net.conv("conv2", x, 128, 3, act="relu")
    x = net.max_pool("pool2", x, 2, 2)
    x = net.conv("conv3", x, 256, 3, act="relu")
    x = net.conv("conv4", x, 256, 3, act="relu")
    x = _halve_rows(net, "pool4", x)
    x = net.conv("conv5", x, 512, 3, act="relu")
    x = net.conv("conv6", x, 512, 3, act="relu")
    x = _halve_rows(net, "pool6", x)
    x = net.conv("conv7", x, 512, 2, pad=0, act="relu")
    for layer in range(2):
        there = whole(net, f"lstm{layer}.forward", x, 256, "lstm")
        back = whole(net, f"lstm{layer}.backward", x, 256, "lstm")
        x = net.concat(f"lstm{layer}.concat", [there, back])
        if layer == 0:
            x = net.dense("lstm0.project", x, 256)
    return net.build("crnn", [softmax(net, net.dense("fc", x, symbols))], "Shi et al. 2017, int8")


@network
def video_classifier(
    *,
    batch: int = 1,
    frames: int = 8,
    resolution: int = 112,
    width: int = 32,
    hidden: int = 256,
    classes: int = 101,
) -> Workload:
    """Convolutions of each frame, an LSTM over frames, the mean of the frames' predictions."""
    net = Builder(batch)
    xs: list[Tensor] = []
    for t in range(frames):
        x = net.input((resolution, resolution, 3))
        for i in range(4):
            x = _shared_conv(net, f"conv{i}.t{t}", [x], width * 2**i, 2, act="relu", first=t == 0)
        x = net.average_pool(f"pool.t{t}", x)
        xs.append(x)
    total: Tensor | None = None
    for t, x in enumerate(lstm(net, "lstm", xs, hidden)):
        reads = [x] if total is None else [x, total]
        weights = hidden * classes + classes
        total = net.add(
            f"fc.t{t}",
            "matmul",
            reads,
            (1, 1, classes),
            weights=weights,
            parameters=0 if t else weights,
            gemm=Gemm(1, batch, classes, hidden),
            vector_ops=len(reads) * batch * classes,
        )
    assert total is not None
    return net.build("video_classifier", [softmax(net, total)], "Donahue et al. 2015, int8")


@network
def conv_lstm(
    *, batch: int = 1, steps: int = 8, resolution: int = 64, patch: int = 4, width: int = 64, layers: int = 2
) -> Workload:
    """Convolutional LSTMs that read frames, and others, begun with their states, that foretell as many."""
    net = Builder(batch)
    side, pixels = resolution // patch, patch * patch
    xs: list[Tensor] = [net.input((side, side, pixels)) for _ in range(steps)]
    states = []
    for layer in range(layers):
        xs = _conv_lstm(net, f"encoder{layer}", xs, width, None)
        states.append(xs[-1])
    xs = [net.input((side, side, pixels)) for _ in range(steps)]
    for layer in range(layers):
        xs = _conv_lstm(net, f"forecaster{layer}", xs, width, states[layer])
    outputs = [
        _shared_conv(net, f"frame.t{t}", [x], pixels, 1, kernel=1, act="sigmoid", first=t == 0)
        for t, x in enumerate(xs)
    ]
    return net.build("conv_lstm", outputs, "Shi et al. 2015, int8")


@network
def signal_autoencoder(
    *, batch: int = 1, steps: int = 30, signals: int = 32, width: int = 128, code: int = 64
) -> Workload:
    """LSTMs that read measurements to a code, and others that tell them again from it, step by step."""
    net = Builder(batch)
    xs: list[Tensor] = [net.input((1, 1, signals)) for _ in range(steps)]
    xs = lstm(net, "encoder.outer", xs, width)
    state = lstm(net, "encoder.inner", xs, code)[-1]
    outputs = []
    x = net.dense("decoder.first", state, signals)
    inner, outer = state, None
    for t in range(steps):
        x, inner, outer = _decoder_step(net, t, x, inner, outer, width, code, signals)
        outputs.append(x)
    return net.build("signal_autoencoder", outputs, "Malhotra et al. 2016, int8")


def _decoder_step(
    net: Builder, t: int, x: Tensor, inner: Tensor, outer: Tensor | None, width: int, code: int, signals: int
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of the decoder, which reads what the step before told."""
    first = t == 0
    gates = shared_dense(net, f"decoder.inner.t{t}.gates", [x, inner], 4 * code, first=first)
    inner = _cell(net, f"decoder.inner.t{t}.cell", gates, inner, code)
    reads = [inner] if outer is None else [inner, outer]
    missing = width if outer is None else 0
    name = f"decoder.outer.t{t}.gates"
    gates = shared_dense(net, name, reads, 4 * width, missing=missing, first=first)
    outer = _cell(net, f"decoder.outer.t{t}.cell", gates, outer, width)
    return shared_dense(net, f"decoder.signals.t{t}", [outer], signals, first=first), inner, outer


def _cell(net: Builder, name: str, gates: Tensor, before: Tensor | None, hidden: int) -> Tensor:
    reads = [gates] if before is None else [gates, before]
    work = VECTOR_OPS["lstm"] * net.batch * hidden
    return net.add(name, "recurrent", reads, (1, 1, hidden), outputs=2, vector_ops=work)


def _conv_lstm(net: Builder, prefix: str, xs: list[Tensor], width: int, state: Tensor | None) -> list[Tensor]:
    """Outputs after each step, two ops a step."""
    outputs = []
    for t, x in enumerate(xs):
        reads = [x] if state is None else [x, state]
        missing = width if state is None else 0
        gates = _shared_conv(
            net, f"{prefix}.t{t}.gates", reads, 4 * width, 1, kernel=5, missing=missing, first=t == 0
        )
        reads = [gates] if state is None else [gates, state]
        ofm = (*x.shape[:2], width)
        work = VECTOR_OPS["lstm"] * net.batch * prod(ofm)
        state = net.add(f"{prefix}.t{t}.cell", "recurrent", reads, ofm, outputs=2, vector_ops=work)
        outputs.append(state)
    return outputs


def _shared_conv(
    net: Builder,
    name: str,
    reads: list[Tensor],
    channels: int,
    stride: int,
    *,
    kernel: int = 3,
    act: str = "",
    missing: int = 0,
    first: bool,
) -> Tensor:
    """A convolution of feature maps side by side whose parameters count where `first`; keeps the size at stride 1."""
    width, height = (-(-size // stride) for size in reads[0].shape[:2])
    ofm = (width, height, channels)
    reduction = (sum(t.shape[2] for t in reads) + missing) * kernel * kernel
    weights = channels * reduction + channels
    return net.add(
        name,
        "conv",
        reads,
        ofm,
        weights=weights,
        parameters=weights if first else 0,
        gemm=Gemm(1, net.batch * width * height, channels, reduction),
        vector_ops=VECTOR_OPS[act] * net.batch * prod(ofm),
        window=Window((kernel, kernel), stride, kernel // 2, 1, 1),
    )


def _halve_rows(net: Builder, name: str, x: Tensor) -> Tensor:
    """Max pooling of two rows; columns overlap and keep their number, plus one."""
    ofm = (x.shape[0] + 1, x.shape[1] // 2, x.shape[2])
    window = Window((2, 2), 2, 1, 1, 0)
    return net.add(name, "pool", [x], ofm, vector_ops=4 * net.batch * prod(ofm), window=window)
