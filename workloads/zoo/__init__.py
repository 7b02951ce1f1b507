"""Networks by name. Each is built when it is asked for; builders take parameters for other sizes.
`ZOO` are the networks that have certificates and bounds; `DECODERS` are large language models; `MCM87` (`mcm87.py`) is
a data set of further ones, whose modules are imported when they are built.

- **Sizes** are int8, biases and gains included.
- **Tied weights**, such as the language head of `gpt2` and its word embedding, count once in `parameters`, but each op
  holds its own copy: a gather wants whole rows, a matmul tiles. So do the steps of an unrolled recurrent layer.
- **Batch norms** are folded into the convolution before them: one parameter a channel fewer than published.
- **Fusion**: in convolutional networks activations and residual adds belong to the convolution before them, whose
  second edge reads the skip. Transformers are unfused, as frameworks export them: a matmul and its bias are two ops.
  `bert_large` also takes softmax, layer normalisation and GELU apart; a bias, gain or shift is held by the broadcast
  that spreads it.
- **Shapes** (x, y, z) are width, height, channels. A sequence is (length, 1, hidden), split by heads (length, heads,
  head size), transposed (heads, length, head size), attention scores (heads, length, length).
- **Ids** of tokens and the attention mask arrive from the host as four bytes each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from workloads.workload import Workload
from workloads.zoo.bert_large import bert_large
from workloads.zoo.cnn import alexnet, mobilenet_v2, resnet, unet, vgg16
from workloads.zoo.decoder import DECODERS
from workloads.zoo.mcm87 import MCM87
from workloads.zoo.transformer import bert, gpt2

ZOO: dict[str, Callable[..., Workload]] = {
    "resnet18": partial(resnet, 18),
    "resnet34": partial(resnet, 34),
    "resnet50": partial(resnet, 50),
    "resnet101": partial(resnet, 101),
    "resnet152": partial(resnet, 152),
    "vgg16": vgg16,
    "alexnet": alexnet,
    "mobilenet_v2": mobilenet_v2,
    "bert": bert,
    "bert_large": bert_large,
    "gpt2": gpt2,
    "unet": unet,
}
"""Name -> builder at its published size."""


def canonical_name(name: str) -> str | None:
    """The name in one of the three that is meant ("ResNet-50" is resnet50); None where there is none."""
    wanted = _bare(name)
    return next((known for known in (*ZOO, *DECODERS, *MCM87) if _bare(known) == wanted), None)


def builder(name: str) -> Callable[..., Workload]:
    """What builds the network of that name in `ZOO`, `DECODERS` or `MCM87`; KeyError where there is none."""
    found = ZOO.get(name) or DECODERS.get(name)
    return MCM87[name].builder(name) if found is None else found


def _bare(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


__all__ = [
    "DECODERS",
    "MCM87",
    "ZOO",
    "alexnet",
    "bert",
    "bert_large",
    "builder",
    "canonical_name",
    "gpt2",
    "mobilenet_v2",
    "resnet",
    "unet",
    "vgg16",
]
