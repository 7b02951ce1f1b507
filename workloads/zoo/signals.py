"""Recurrent networks over speech, images and measurements.

Sources:
- Deep Speech: Hannun et al., 2014, section 2 (five layers, the fourth recurrent in both directions, 2,048 wide; with an
  LSTM, as its open implementations have it, one way). Deep Speech 2: Amodei et al., 2016, figure 1 and section 3.
- Transducer: He et al., "Streaming End-to-end Speech Recognition For Mobile Devices", 2019, figure 1, narrower.
- Keywords: Zhang et al., "Hello Edge", 2018 (GRU). Text in images: Shi et al., "An End-to-End Trainable Neural Network
  for Image-based Sequence Recognition", 2017, table 1.
- Videos: Donahue et al., "Long-term Recurrent Convolutional Networks …", 2015, figure 1; Shi et al., "Convolutional
  LSTM Network", 2015, figure 3 (encoder and forecaster).
- Autoencoder of measurements: Malhotra et al., 2016, figure 1.

Deviations:
- Layers that a library runs as one op (Deep Speech, the transducer, text in images) are one op here and hold their
  weights once; the others are unrolled, each step holding what it reads (`cells.py`).
- Batch norms are folded, but between recurrent layers, where they are ops.
- The convolutions of a video's frames are unrolled like the steps, smaller than published.
"""

from __future__ import annotations

from math import prod

from workloads.graph import Gemm, Workload
from workloads.zoo.builder import ID_BYTES, VECTOR_OPS, Builder, Tensor, Window
from workloads.zoo.cells import gru, lstm, shared_dense, whole
from workloads.zoo.naming import network


@network
def deep_speech(*, batch: int = 1, frames: int = 256, width: int = 2048, symbols: int = 29) -> Workload:
    """Three layers a frame (with nine frames of context either side), an LSTM, two more layers."""
    net = Builder(batch)
    x = net.input((frames, 1, 19 * 26))
    for i in (1, 2, 3):
        x = net.dense(f"fc{i}", x, width, act="relu")
        x = net.pointwise(f"fc{i}.clip", "activation", [x], "relu6")
    x = net.add(
        "lstm.input",
        "matmul",
        [x],
        (frames, 1, 4 * width),
        weights=4 * width * (width + 1),
        gemm=Gemm(1, batch * frames, 4 * width, width),
    )
    x = net.add(
        "lstm.state",
        "recurrent",
        [x],
        (frames, 1, width),
        weights=4 * width * width,
        gemm=Gemm(1, batch * frames, 4 * width, width),
        vector_ops=VECTOR_OPS["lstm"] * batch * frames * width,
    )
    x = net.dense("fc5", x, width, act="relu")
    x = net.pointwise("fc5.clip", "activation", [x], "relu6")
    x = net.dense("fc6", x, symbols)
    return net.build("deep_speech", [_softmax(net, x)], "Hannun et al. 2014, int8")


@network
def deep_speech_2(
    *, batch: int = 1, frames: int = 400, layers: int = 5, width: int = 800, symbols: int = 29
) -> Workload:
    """Two convolutions over a spectrogram, bidirectional GRUs whose directions are summed, a linear layer."""
    net = Builder(batch)
    x = net.conv("conv1", net.input((frames, 161, 1)), 32, (11, 41), stride=2, act="relu6")
    x = net.conv("conv2", x, 32, (11, 21), stride=1, act="relu6")
    length = x.shape[0]
    x = net.pointwise("flat", "reshape", [x], "view", ofm=(length, 1, x.shape[1] * x.shape[2]))
    for layer in range(layers):
        if layer:
            x = net.pointwise(f"gru{layer}.norm", "norm", [x], "scale", weights=2 * width)
        there = whole(net, f"gru{layer}.forward", x, width, "gru")
        back = whole(net, f"gru{layer}.backward", x, width, "gru")
        x = net.pointwise(f"gru{layer}.sum", "elementwise", [there, back], "add")
    x = net.pointwise("fc.norm", "norm", [x], "scale", weights=2 * width)
    return net.build(
        "deep_speech_2", [_softmax(net, net.dense("fc", x, symbols))], "Amodei et al. 2016, int8"
    )


@network
def transducer(
    *,
    batch: int = 1,
    frames: int = 128,
    words: int = 24,
    layers: int = 8,
    width: int = 640,
    symbols: int = 1024,
) -> Workload:
    """An encoder of LSTMs with projections, halved in time after the second, a prediction network of two, a joint layer
    at the last frame of each symbol."""
    net = Builder(batch)
    x = net.input((frames, 1, 240))
    for layer in range(layers):
        x = whole(net, f"encoder{layer}.lstm", x, width, "lstm")
        x = net.dense(f"encoder{layer}.project", x, width // 2)
        x = net.pointwise(f"encoder{layer}.norm", "norm", [x], "layernorm", weights=width)
        if layer == 1:
            half = (x.shape[0] // 2, 1, 2 * x.shape[2])
            x = net.pointwise("encoder.halve", "reshape", [x], "view", ofm=half)
    y = net.gather("prediction.embedding", [net.input((words, 1, 1), ID_BYTES)], symbols, 128, words)
    for layer in range(2):
        y = whole(net, f"prediction{layer}.lstm", y, width, "lstm")
        y = net.dense(f"prediction{layer}.project", y, width // 2)
    x = net.dense("joint.encoder", x.part((words, 1, x.shape[2])), 512)
    y = net.dense("joint.prediction", y, 512)
    x = net.pointwise("joint.add", "elementwise", [x, y], "add")
    x = net.pointwise("joint.tanh", "activation", [x], "tanh")
    return net.build(
        "transducer", [_softmax(net, net.dense("joint.symbols", x, symbols))], "He et al. 2019, int8"
    )


@network
def keyword_gru(
    *,
    batch: int = 1,
    steps: int = 25,
    features: int = 40,
    layers: int = 1,
    width: int = 154,
    classes: int = 12,
) -> Workload:
    """GRUs over features of frames, unrolled; the last state names the keyword."""
    net = Builder(batch)
    xs = [net.input((1, 1, features)) for _ in range(steps)]
    for layer in range(layers):
        xs = gru(net, f"layer{layer}", xs, width)
    return net.build(
        "keyword_gru", [_softmax(net, net.dense("fc", xs[-1], classes))], "Zhang et al. 2018, int8"
    )


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
    x = _halved_rows(net, "pool4", x)
    x = net.conv("conv5", x, 512, 3, act="relu")
    x = net.conv("conv6", x, 512, 3, act="relu")
    x = _halved_rows(net, "pool6", x)
    x = net.conv("conv7", x, 512, 2, pad=0, act="relu")
    for layer in range(2):
        there = whole(net, f"lstm{layer}.forward", x, 256, "lstm")
        back = whole(net, f"lstm{layer}.backward", x, 256, "lstm")
        x = net.concat(f"lstm{layer}.concat", [there, back])
        if layer == 0:
            x = net.dense("lstm0.project", x, 256)
    return net.build("crnn", [_softmax(net, net.dense("fc", x, symbols))], "Shi et al. 2017, int8")


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
    return net.build("video_classifier", [_softmax(net, total)], "Donahue et al. 2015, int8")


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
        x, inner, outer = _retold(net, t, x, inner, outer, width, code, signals)
        outputs.append(x)
    return net.build("signal_autoencoder", outputs, "Malhotra et al. 2016, int8")


def _retold(
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


def _halved_rows(net: Builder, name: str, x: Tensor) -> Tensor:
    """Max pooling of two rows; columns overlap and keep their number, plus one."""
    ofm = (x.shape[0] + 1, x.shape[1] // 2, x.shape[2])
    window = Window((2, 2), 2, 1, 1, 0)
    return net.add(name, "pool", [x], ofm, vector_ops=4 * net.batch * prod(ofm), window=window)


def _softmax(net: Builder, x: Tensor) -> Tensor:
    return net.pointwise("softmax", "softmax", [x], "softmax")
