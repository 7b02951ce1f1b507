"""What is run for the EGRL paper: workloads, methods, budgets, trainings."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from egrl.core.typed_tables import flattened
from egrl.methods.named import PRINTED as AS_PRINTED

DRAWN = ("umap", "shift", "bands", "utilisation", "breakdown")
"""Figures of the first method's runs, a workload each."""
METHODS = ("egrl", "ea", "pg", "greedy-dp", "annealing", "random")
OURS = Path(__file__).with_name("ours.toml")
"""What is run as ours: all settings of each method, so that no default can change what the figures repeat."""
PRINTED = ("egrl", "ea", "pg")
"""Methods that run as the paper prints them, too."""
SECONDS_AN_EVALUATION = {"egrl": (0.002, 4e-6), "pg": (0.002, 8e-6)}
"""Method -> seconds and seconds per node, one thread of a 2.5 GHz server core; others: `OTHERS`."""
AS_PRINTED_SECONDS = {"egrl": (0.005, 4.7e-5), "pg": (0.014, 1.6e-4)}
"""The same as printed, where networks are large."""
OTHERS = (0.0015, 7e-6)
A_RUN_S = 6.0
"""Seconds of a run that are not its search: starting, its bound, writing."""
PRETRAINING_S = 0.0026
"""Seconds an evaluation in pre-training."""


def ours(methods: Sequence[str]) -> tuple[str, ...]:
    """The settings METHOD.KEY=VALUE of `OURS` for these methods."""
    found = flattened(tomllib.loads(OURS.read_text(encoding="utf-8")))
    return tuple(f"{key}={_text(value)}" for key, value in found.items() if key.partition(".")[0] in methods)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def digest() -> str:
    """Of all settings that are run, ours and as printed: results of another composition have another one."""
    files = (OURS, resources.files("egrl.methods.egrl") / AS_PRINTED)
    settings = [flattened(tomllib.loads(file.read_text(encoding="utf-8"))) for file in files]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        workloads: of Figures 3, 5 and 6.
        methods: of Figure 3; the first is the one that the other figures show.
        evals, seeds: of each run of Figure 3.
        printed_seeds: of the paper's algorithm as printed (`--preset paper`, methods of PRINTED).
        sources: workloads whose policies are transferred in Figure 4.
        training, validation: of pre-training.
        held_out: workloads that no policy was trained on.
        gens: of pre-training.
        alone: further training workloads on which policies are trained alone.
        composition: `digest` of what is run.
    """

    workloads: tuple[str, ...] = ("resnet50", "resnet101", "bert")
    methods: tuple[str, ...] = METHODS
    evals: int = 4000
    seeds: int = 5
    printed_seeds: int = 3
    sources: tuple[str, ...] = ("bert", "resnet50")
    training: tuple[str, ...] = (
        "alexnet",
        "mobilenet_v2",
        "resnet50",
        "resnet101",
        "bert",
        "unet",
        "bert:layers=6",
        "resnet50:batch=4",
    )
    validation: tuple[str, ...] = (
        "mobilenet_v2:width=1.4",
        "bert:layers=4:length=256",
        "resnet101:batch=2",
    )
    held_out: tuple[str, ...] = ("resnet18", "resnet34", "resnet152", "vgg16", "gpt2")
    gens: int = 2000
    alone: tuple[str, ...] = ("alexnet", "mobilenet_v2", "unet")
    composition: str = field(default_factory=digest)

    @staticmethod
    def quick() -> Plan:
        """Everything once and small: it shows that and how it works, not what it reaches."""
        return replace(
            Plan(),
            workloads=("resnet50", "alexnet"),
            methods=("egrl", "ea", "pg", "greedy-dp"),
            evals=630,
            seeds=2,
            printed_seeds=1,
            sources=("resnet50", "alexnet"),
            training=("alexnet", "resnet50", "mobilenet_v2"),
            validation=("resnet34",),
            held_out=("resnet18", "vgg16"),
            gens=60,
            alone=("mobilenet_v2",),
        )
