"""87 networks without attention, to train partition policies on and to test them with, and how they are split.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", sections 5.1 and 5.2:
87 graphs of tens to hundreds of nodes, convolutional and recurrent networks mostly, none with attention, split at
random into 66 for training, 5 for validation and 16 for test; BERT is outside all three.

Deviations:
- The paper's graphs are not published: these are published architectures from the zoo's builders, in sizes that differ
  in structure. Each has partitions on the package mcm36, and its baseline runs on the device model.
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
from importlib import import_module
from inspect import signature
from types import MappingProxyType

from workloads.workload import Workload
from workloads.zoo.naming import variant_name

SIZES = {"training": 66, "validation": 5, "test": 16}
"""Networks in each part of the split."""


@dataclass(frozen=True)
class Member:
    """A network: its family, "module.function" in `workloads.zoo`, and what that is called with."""

    family: str
    function: str
    args: tuple[int | str, ...] = ()
    sizes: Mapping[str, float] = field(default_factory=dict)

    def builder(self, name: str) -> Callable[..., Workload]:
        """Builds it under this name; takes other sizes by keyword, which are then told in the name."""
        module, function = self.function.rsplit(".", 1)
        build = partial(getattr(import_module(f"workloads.zoo.{module}"), function), *self.args, **self.sizes)

        def named(**given: float) -> Workload:
            return replace(build(**given), name=variant_name(name, build, **given))

        named.__signature__ = signature(build)  # type: ignore[attr-defined]
        return named


def _family(name: str, **members: tuple[object, ...]) -> dict[str, Member]:
    """Members of one family: name = (function, arguments …, {size: value})."""
    found = {}
    for member, (function, *rest) in members.items():
        sizes = rest.pop() if rest and isinstance(rest[-1], dict) else {}
        found[member] = Member(name, str(function), tuple(rest), sizes)  # type: ignore[arg-type]
    return found


MCM87: Mapping[str, Member] = MappingProxyType(
    {
        **_family(
            "resnet",
            resnet18=("cnn.resnet", 18),
            resnet34=("cnn.resnet", 34),
            resnet50=("cnn.resnet", 50),
            resnet101=("cnn.resnet", 101),
            resnet152=("cnn.resnet", 152),
        ),
        **_family(
            "small residual",
            resnet20_cifar=("residual.cifar_resnet", 20),
            resnet56_cifar=("residual.cifar_resnet", 56),
            resnet110_cifar=("residual.cifar_resnet", 110),
            wide_resnet28_10=("residual.wide_resnet", 28, 10),
        ),
        **_family(
            "wide residual",
            wide_resnet50_2=("residual.resnext", 50, {"groups": 1, "group_width": 128}),
            resnext50=("residual.resnext", 50),
            resnext101=("residual.resnext", 101, {"group_width": 8}),
            se_resnet50=("residual.se_resnet", 50),
            regnet_x=("residual.regnet", "x"),
            regnet_y=("residual.regnet", "y"),
        ),
        **_family(
            "plain",
            alexnet_towers=("plain.alexnet_towers",),
            vgg11_tiled=("plain.vgg_tiled", 11),
            vgg16_tiled=("plain.vgg_tiled", 16),
            vgg19_tiled=("plain.vgg_tiled", 19),
            vgg16_cifar=("plain.vgg_cifar", 16),
            darknet19=("plain.darknet19",),
        ),
        **_family(
            "branches",
            squeezenet1_0=("inception.squeezenet", "1_0"),
            squeezenet1_1=("inception.squeezenet", "1_1"),
            googlenet=("inception.googlenet",),
            inception_v3=("inception.inception_v3",),
            xception=("inception.xception",),
        ),
        **_family(
            "densenet",
            densenet121=("densenet.densenet", 121),
            densenet169=("densenet.densenet", 169),
            densenet201=("densenet.densenet", 201),
            densenet100_cifar=("densenet.densenet_cifar", 100),
        ),
        **_family(
            "mobile",
            mobilenet_v1=("mobile.mobilenet_v1",),
            mobilenet_v2=("cnn.mobilenet_v2",),
            mobilenet_v3_small=("mobile.mobilenet_v3", "small"),
            mobilenet_v3_large=("mobile.mobilenet_v3", "large"),
            mnasnet=("mobile.mnasnet",),
            shufflenet_v2=("mobile.shufflenet_v2", 116),
            efficientnet_b0=("mobile.efficientnet",),
            efficientnet_b1=("mobile.efficientnet", {"depth": 1.1, "resolution": 240}),
            efficientnet_b4=("mobile.efficientnet", {"width": 1.4, "depth": 1.8, "resolution": 380}),
        ),
        **_family(
            "detection",
            darknet53=("detection.darknet53",),
            yolov3=("detection.yolov3",),
            yolov3_tiny=("detection.yolov3_tiny",),
        ),
        **_family(
            "segmentation",
            unet_small=("unet.unet", {"resolution": 256, "width": 32, "depth": 3, "padded": True}),
            unet_deep=("unet.unet", {"resolution": 256, "width": 16, "depth": 5, "padded": True}),
            fcn_resnet50=("segmentation.fcn_resnet50", {"resolution": 384}),
            deeplab_v3=("segmentation.deeplab_v3", {"resolution": 384}),
            segnet=("segmentation.segnet", {"resolution": 224}),
        ),
        **_family(
            "images",
            dcgan=("images.dcgan",),
            cyclegan=("images.cyclegan",),
            pix2pix_narrow=("images.pix2pix", {"width": 48}),
            autoencoder=("images.autoencoder",),
            edsr=("images.edsr",),
            vdsr=("images.vdsr",),
        ),
        **_family(
            "temporal",
            wavenet=("temporal.wavenet",),
            tcn=("temporal.tcn",),
            quartznet5x5=("temporal.quartznet", 1),
            quartznet15x5=("temporal.quartznet", 3),
            vdcnn=("temporal.vdcnn",),
            text_cnn=("temporal.text_cnn",),
            ds_cnn=("temporal.ds_cnn",),
        ),
        **_family(
            "mixing",
            mixer_s16=("mixing.mlp_mixer",),
            mixer_b16=(
                "mixing.mlp_mixer",
                {"layers": 12, "hidden": 768, "tokens": 384, "channels": 3072},
            ),
            tabular_resnet=("mixing.tabular_resnet",),
        ),
        **_family(
            "ranking",
            dlrm=("ranking.dlrm",),
            dlrm_large=("ranking.dlrm", {"size": 128, "cap": 200_000, "large": 1, "batch": 512}),
            wide_deep=("ranking.wide_deep",),
            two_tower=("ranking.two_tower",),
            ncf=("ranking.ncf",),
        ),
        **_family(
            "language",
            lstm_lm_small=("language.language_model", "lstm"),
            lstm_lm_wide=("language.language_model", "lstm", {"hidden": 400, "steps": 12}),
            lstm_lm_deep=(
                "language.language_model",
                "lstm",
                {"layers": 4, "hidden": 128, "vocabulary": 4000},
            ),
            gru_lm=("language.language_model", "gru", {"hidden": 256}),
            character_lstm=("language.character_model",),
            lstm_classifier=("language.classifier", "lstm"),
            tagger=("language.tagger",),
            tagger_deep=("language.tagger", {"layers": 2}),
            seq2seq_lstm=("language.translator", "lstm"),
            seq2seq_gru=("language.translator", "gru", {"layers": 1}),
            seq2seq_deep=("language.translator", "lstm", {"layers": 4, "source": 10, "target": 10}),
        ),
        **_family(
            "signals",
            deep_speech=("speech.deep_speech",),
            deep_speech_2=("speech.deep_speech_2",),
            transducer=("speech.transducer",),
            keyword_gru=("speech.keyword_gru",),
            crnn=("signals.crnn",),
            video_classifier=("signals.video_classifier",),
            conv_lstm=("signals.conv_lstm",),
            signal_autoencoder=("signals.signal_autoencoder",),
        ),
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
