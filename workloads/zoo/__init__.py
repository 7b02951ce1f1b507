"""Networks by name; builders take parameters for other sizes. A file is imported when a network of it is built.

`ZOO` are the networks that have certificates and bounds; `DECODERS` are large language models; `MCM87` (`mcm87.py`) is
a data set of further ones.

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
from importlib import import_module

from workloads.workload import Workload

ZOO: dict[str, tuple[str, ...]] = {
    **{f"resnet{depth}": ("cnn.resnet", depth) for depth in ("18", "34", "50", "101", "152")},
    "vgg16": ("cnn.vgg16",),
    "alexnet": ("cnn.alexnet",),
    "mobilenet_v2": ("cnn.mobilenet_v2",),
    "bert": ("transformer.bert",),
    "bert_large": ("bert_large.bert_large",),
    "gpt2": ("transformer.gpt2",),
    "unet": ("cnn.unet",),
}
"""Name -> "file.function" that builds it at its published size, and the number that the function takes first."""
DECODERS = ("llama3_8b", "llama3_70b", "mixtral_8x7b")
"""Names of the large language models; `decoder.py` builds them."""


def canonical_name(name: str) -> str | None:
    """The name in one of the three that is meant ("ResNet-50" is resnet50); None where there is none."""
    wanted = _bare(name)
    found = next((known for known in (*ZOO, *DECODERS) if _bare(known) == wanted), None)
    if found is not None:
        return found
    from workloads.zoo.mcm87 import MCM87

    return next((known for known in MCM87 if _bare(known) == wanted), None)


def builder_of(name: str) -> Callable[..., Workload]:
    """What builds the network of that name in `ZOO`, `DECODERS` or `MCM87`; KeyError where there is none."""
    if name in DECODERS:
        from workloads.zoo import decoder

        return decoder.DECODERS[name]
    if name not in ZOO:
        from workloads.zoo.mcm87 import MCM87

        return MCM87[name].builder(name)
    place, *depth = ZOO[name]
    module, function = place.split(".")
    build: Callable[..., Workload] = getattr(import_module(f"workloads.zoo.{module}"), function)
    return partial(build, *map(int, depth)) if depth else build


def _bare(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
