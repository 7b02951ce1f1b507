"""Recurrent networks over words and characters, unrolled: language models, taggers, classifiers, translation.

Sources:
- Language models: Zaremba et al., "Recurrent Neural Network Regularization", 2014, section 4.1 (small: 2 x 200,
  medium: 2 x 650, 10,000 words; 20 steps).
- Characters: Karpathy et al., "Visualizing and Understanding Recurrent Networks", 2016 (LSTM, here in elementary ops).
- Tagger: Huang et al., "Bidirectional LSTM-CRF Models for Sequence Tagging", 2015, figure 4, without the CRF.
- Translation: Sutskever et al., "Sequence to Sequence Learning with Neural Networks", 2014, figure 1; Cho et al., 2014.

Deviations:
- Weights shared by steps are held by each (`cells.py`), tables and output layers, too; vocabularies and widths of the
  translators are smaller than published for that reason.
- A decoder reads the words that are to come, as in training: no search.
"""

from __future__ import annotations

from collections.abc import Sequence

from workloads.workload import Workload
from workloads.zoo.builder import Builder, Tensor, network
from zoo.cells import Layer, bidirectional, elementary_lstm, gru, lookups, lstm, shared_dense

_CELLS: dict[str, Layer] = {"lstm": lstm, "gru": gru, "elementary": elementary_lstm}


@network
def language_model(
    cell: str,
    *,
    layers: int = 2,
    hidden: int = 200,
    steps: int = 20,
    vocabulary: int = 10_000,
    batch: int = 1,
) -> Workload:
    """Words in, a distribution of the next word out at every step; `cell` is "lstm", "gru" or "elementary"."""
    net = Builder(batch)
    xs = lookups(net, "embedding", steps, vocabulary, hidden)
    for layer in range(layers):
        xs = _CELLS[cell](net, f"layer{layer}", xs, hidden)
    outputs = _predictions(net, "decoder", xs, vocabulary)
    return net.build("language_model", outputs, "Zaremba et al. 2014, int8")


@network
def character_model(*, hidden: int = 512, steps: int = 24, symbols: int = 96, batch: int = 1) -> Workload:
    """One LSTM over characters (one-hot, from the host), in elementary ops."""
    net = Builder(batch)
    xs = [net.input((1, 1, symbols)) for _ in range(steps)]
    outputs = _predictions(net, "decoder", elementary_lstm(net, "lstm", xs, hidden), symbols)
    return net.build("character_model", outputs, "Karpathy et al. 2016, int8")


@network
def classifier(
    cell: str, *, hidden: int = 128, steps: int = 40, vocabulary: int = 5000, batch: int = 1
) -> Workload:
    """Words in; the last state says which of two classes a text belongs to."""
    net = Builder(batch)
    xs = _CELLS[cell](net, cell, lookups(net, "embedding", steps, vocabulary, hidden), hidden)
    x = net.dense("fc", xs[-1], 2)
    return net.build("classifier", [net.pointwise("softmax", "softmax", [x], "softmax")], "text, int8")


@network
def tagger(
    *,
    layers: int = 1,
    hidden: int = 100,
    steps: int = 20,
    vocabulary: int = 5000,
    tags: int = 45,
    batch: int = 1,
) -> Workload:
    """Bidirectional LSTMs over words; a tag a step."""
    net = Builder(batch)
    xs = lookups(net, "embedding", steps, vocabulary, hidden)
    for layer in range(layers):
        xs = bidirectional(lstm, net, f"layer{layer}", xs, hidden)
    return net.build("tagger", _predictions(net, "tag", xs, tags), "Huang et al. 2015, int8")


@network
def translator(
    cell: str,
    *,
    layers: int = 2,
    hidden: int = 256,
    source: int = 14,
    target: int = 14,
    vocabulary: int = 8000,
    batch: int = 1,
) -> Workload:
    """An encoder whose last states begin the decoder; a distribution of the next word at every step of that."""
    net = Builder(batch)
    make = _CELLS[cell]
    xs = lookups(net, "encoder.embedding", source, vocabulary, hidden)
    states = []
    for layer in range(layers):
        xs = make(net, f"encoder.layer{layer}", xs, hidden)
        states.append(xs[-1])
    xs = lookups(net, "decoder.embedding", target, vocabulary, hidden)
    for layer in range(layers):
        xs = make(net, f"decoder.layer{layer}", xs, hidden, states[layer])
    outputs = _predictions(net, "decoder.word", xs, vocabulary)
    return net.build("translator", outputs, "Sutskever et al. 2014, int8")


def _predictions(net: Builder, prefix: str, xs: Sequence[Tensor], classes: int) -> list[Tensor]:
    """A linear layer and softmax a step."""
    outputs = []
    for t, x in enumerate(xs):
        y = shared_dense(net, f"{prefix}.t{t}", [x], classes, first=t == 0)
        outputs.append(net.pointwise(f"{prefix}.softmax.t{t}", "softmax", [y], "softmax"))
    return outputs
