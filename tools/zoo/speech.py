"""Recurrent networks over speech.

Sources:
- Deep Speech: Hannun et al., 2014, section 2 (five layers, the fourth recurrent in both directions, 2,048 wide; with an
  LSTM, as its open implementations have it, one way). Deep Speech 2: Amodei et al., 2016, figure 1 and section 3.
- Transducer: He et al., "Streaming End-to-end Speech Recognition For Mobile Devices", 2019, figure 1, narrower.
- Keywords: Zhang et al., "Hello Edge", 2018 (GRU).

Deviations:
- Layers that a library runs as one op (Deep Speech, the transducer) are one op here and hold their weights once; those
  of the keywords are unrolled, each step holding what it reads (`cells.py`).
- Batch norms are folded, but between recurrent layers, where they are ops.
"""

from __future__ import annotations

from workloads.workload import Gemm, Workload
from workloads.zoo.builder import ID_BYTES, Builder, network
from workloads.zoo.vector_ops import VECTOR_OPS
from zoo.cells import gru, softmax, whole


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
    return net.build("deep_speech", [softmax(net, x)], "Hannun et al. 2014, int8")


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
    return net.build("deep_speech_2", [softmax(net, net.dense("fc", x, symbols))], "Amodei et al. 2016, int8")


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
        "transducer", [softmax(net, net.dense("joint.symbols", x, symbols))], "He et al. 2019, int8"
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
        "keyword_gru", [softmax(net, net.dense("fc", xs[-1], classes))], "Zhang et al. 2018, int8"
    )
