"""87 networks without attention, to train partition policies on and to test them with, and how they are split.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", sections 5.1 and 5.2:
87 graphs of tens to hundreds of nodes, convolutional and recurrent networks mostly, none with attention, split at
random into 66 for training, 5 for validation and 16 for test; BERT is outside all three.

Deviations:
- The paper's graphs are not published: these are published architectures, in sizes that differ in structure. Builders
  of the zoo make 15 of them; 72 ship as files, which `tools/make_zoo.py` writes. Each has partitions
  on the package mcm36, and its baseline runs on the device model.
- The split is drawn until no family is missing from training. As in the paper, members of a family, and the same blocks
  at other depths, are on both sides: the test part has unseen graphs, but no unseen kinds of graph.

Choices:

- **Sizes** are the published ones where memory and device model of `mcm36` allow. Smaller here: resolutions of the
  segmentation networks, the width of `pix2pix_narrow`, vocabularies, widths and steps of translators and language
  models, tables of the ranking models. No op may hold more than a chip's 32 MiB: the first linear layer of VGG (98 MiB)
  is four ops of 1,024 outputs each (`vgg16_tiled`), and AlexNet's layers are cut as on the paper's two GPUs.
- **Weights that steps share.** An unrolled recurrent layer has several ops a step: two for an LSTM (products and cell),
  four for a GRU, up to eleven for `character_lstm`, as frameworks write it. Each op *holds* the weights that it reads,
  because steps may lie on different chips, which each need the weights. `parameters` counts them once, the table's MiB
  once for each op. A chip with k steps of a layer is thus charged k copies where it needs one: large recurrent networks
  take more chips than they need, and a partition that is valid here is valid with shared weights, but not the other way
  round. The alternatives are worse: weights held at the first step alone would make partitions valid that lack weights.
  A node of weights that all steps read would, by the rule `triangle`, tie itself and all its readers to two chips.
- **One op a layer.** `deep_speech`, `deep_speech_2`, `transducer` and `crnn` have recurrent layers as libraries run
  them: one op over the whole sequence, which holds its weights once.
- **Long skips.** An edge from the beginning to the end leaves two chips for all that lies between (`triangle`). So the
  U-Nets, `edsr` and `segnet` have few partitions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module, resources
from inspect import signature
from types import MappingProxyType

from workloads.errors import InputError
from workloads.files import PACKED, unpack
from workloads.text import hint
from workloads.workload import Workload
from workloads.zoo.builder import variant_name

SIZES = {"training": 66, "validation": 5, "test": 16}
"""Networks in each part of the split."""
MAX_TEXT = 1 << 24
"""Bytes of a shipped file, unpacked."""


SHIPPED = "shipped"
"""Folder of package data beside this file: NAME.json.xz, one file per network that no builder here makes."""


@dataclass(frozen=True)
class Member:
    """A network: its family; "module.function" in `workloads.zoo` with its arguments, or "" for a shipped file."""

    family: str
    function: str = ""
    args: tuple[int, ...] = ()
    sizes: Mapping[str, float] = field(default_factory=dict)

    def builder(self, name: str) -> Callable[..., Workload]:
        """Returns the workload of this name. A builder takes other sizes by keyword, which then stand in the name; a
        shipped file has one size, and takes none."""
        if not self.function:
            return partial(_shipped, name)
        module, function = self.function.rsplit(".", 1)
        build = partial(getattr(import_module(f"workloads.zoo.{module}"), function), *self.args, **self.sizes)

        def named(**given: float) -> Workload:
            return replace(build(**given), name=variant_name(name, build, **given))

        named.__signature__ = signature(build)  # type: ignore[attr-defined]
        return named


def _shipped(name: str) -> Workload:
    from workloads.serialize import from_json  # pydantic is slow to import, and names need none of it

    file = f"{name}{PACKED}"
    data = (resources.files("workloads.zoo") / SHIPPED / file).read_bytes()
    return from_json(unpack(data, file, MAX_TEXT).decode(), file)


_FAMILIES = {
    "resnet": "resnet18 resnet34 resnet50 resnet101 resnet152",
    "small residual": "resnet20_cifar resnet56_cifar resnet110_cifar wide_resnet28_10",
    "wide residual": "wide_resnet50_2 resnext50 resnext101 se_resnet50 regnet_x regnet_y",
    "plain": "alexnet_towers vgg11_tiled vgg16_tiled vgg19_tiled vgg16_cifar darknet19",
    "branches": "squeezenet1_0 squeezenet1_1 googlenet inception_v3 xception",
    "densenet": "densenet121 densenet169 densenet201 densenet100_cifar",
    "mobile": "mobilenet_v1 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet shufflenet_v2"
    " efficientnet_b0 efficientnet_b1 efficientnet_b4",
    "detection": "darknet53 yolov3 yolov3_tiny",
    "segmentation": "unet_small unet_deep fcn_resnet50 deeplab_v3 segnet",
    "images": "dcgan cyclegan pix2pix_narrow autoencoder edsr vdsr",
    "temporal": "wavenet tcn quartznet5x5 quartznet15x5 vdcnn text_cnn ds_cnn",
    "mixing": "mixer_s16 mixer_b16 tabular_resnet",
    "ranking": "dlrm dlrm_large wide_deep two_tower ncf",
    "language": "lstm_lm_small lstm_lm_wide lstm_lm_deep gru_lm character_lstm lstm_classifier tagger tagger_deep"
    " seq2seq_lstm seq2seq_gru seq2seq_deep",
    "signals": "deep_speech deep_speech_2 transducer keyword_gru crnn video_classifier conv_lstm signal_autoencoder",
}
_BUILT: dict[str, tuple[str, tuple[int, ...], dict[str, float]]] = {
    **{f"resnet{depth}": ("cnn.resnet", (depth,), {}) for depth in (18, 34, 50, 101, 152)},
    **{f"densenet{depth}": ("cnn.densenet", (depth,), {}) for depth in (121, 169, 201)},
    "densenet100_cifar": ("cnn.densenet_cifar", (100,), {}),
    "mobilenet_v2": ("cnn.mobilenet_v2", (), {}),
    "efficientnet_b0": ("cnn.efficientnet", (), {}),
    "efficientnet_b1": ("cnn.efficientnet", (), {"depth": 1.1, "resolution": 240}),
    "efficientnet_b4": ("cnn.efficientnet", (), {"width": 1.4, "depth": 1.8, "resolution": 380}),
    "unet_small": ("cnn.unet", (), {"resolution": 256, "width": 32, "depth": 3, "padded": True}),
    "unet_deep": ("cnn.unet", (), {"resolution": 256, "width": 16, "depth": 5, "padded": True}),
}
"""Networks that a builder makes: "module.function" in `workloads.zoo`, its arguments, and sizes by keyword."""

MCM87: Mapping[str, Member] = MappingProxyType(
    {
        name: Member(family, *_BUILT.get(name, ()))
        for family, names in _FAMILIES.items()
        for name in names.split()
    }
)
"""Name -> entry, family by family."""


@dataclass(frozen=True)
class Split:
    """Names of the networks of each part, in the order of `MCM87`."""

    training: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]


def split(seed: int = 0) -> Split:
    """66, 5 and 16 of the 87 at random; drawn again until training has a network of every family.

    The same seed is the same split on every machine (`random.Random` is part of Python's promise for `random()`).
    """
    rng = random.Random(f"mcm87 {seed}")
    names = list(MCM87)
    families = {entry.family for entry in MCM87.values()}
    while True:
        drawn = sorted(names, key=lambda _: rng.random())
        first = SIZES["training"]
        second = first + SIZES["validation"]
        parts = [
            sorted(part, key=names.index) for part in (drawn[:first], drawn[first:second], drawn[second:])
        ]
        if {MCM87[name].family for name in parts[0]} == families:
            return Split(*map(tuple, parts))


ALIKE = {"small residual": "resnet", "wide residual": "resnet"}
BY_NAME = {
    "resnet": "resnet",
    "vgg": "plain",
    "alexnet": "plain",
    "mobilenet": "mobile",
    "unet": "segmentation",
    "bert": "transformer",
    "gpt2": "transformer",
    "llama3": "transformer",
    "mixtral": "transformer",
}
"""Families that are of one kind, and families of networks that are not among the 87, by the beginnings of names."""


def family_of(workload: str) -> str:
    """The family of a network, of one that is unknown here itself: networks of one family are no independent trials."""
    name = workload.partition(":")[0]
    if name in MCM87:
        return ALIKE.get(MCM87[name].family, MCM87[name].family)
    return next((family for prefix, family in BY_NAME.items() if name.startswith(prefix)), name)


MCM87_NAME = "mcm87"


def is_set(name: str) -> bool:
    """Whether a name is that of a set, or looks like a part of one."""
    return name.partition(":")[0].lower() == MCM87_NAME


def members(name: str) -> tuple[str, ...]:
    """The names of a set: "mcm87", or "mcm87:PART" with PART one of training, validation and test, and with
    ":seed=N" behind it those of another draw than the published one (seed 0).

    Raises:
        InputError: no such set.
    """
    parts = name.lower().split(":")[1:]
    if not is_set(name) or len(parts) > 2 or (parts and parts[0] not in SIZES):
        known = [MCM87_NAME, *(f"{MCM87_NAME}:{part}" for part in SIZES)]
        raise InputError(
            f"workloads {name!r}: expected one of the sets {', '.join(known)}, found none of them{hint(name, known)}"
        )
    if not parts:
        return tuple(MCM87)
    key, _, number = parts[1].partition("=") if len(parts) == 2 else ("seed", "=", "0")
    if key != "seed" or not (number.isascii() and number.isdecimal()) or len(number) > 9:
        raise InputError(f"workloads {name!r}: expected seed=N with N a whole number, found {parts[1]!r}")
    found: tuple[str, ...] = getattr(split(int(number)), parts[0])
    return found
