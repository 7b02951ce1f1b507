"""Who takes part in the conformance suites: every problem and every method, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from egrl.methods import METHODS, find_method
from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.mmap.chip import load_chip as load_mmap_chip
from hwsim.mmap.problem import MmapConfig, MmapProblem
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Problem
from toys import ABLE, TOYS, ToyGrammar
from workloads.load import load, load_program


def _noisy() -> Problem:
    chip = load_chip("nnpi")
    return NnpiProblem(
        load("alexnet"), replace(chip, effects=replace(chip.effects, noise=True)), NnpiConfig()
    )


def _mmap(config: MmapConfig, program: str = "alexnet:backward=1") -> Problem:
    """AlexNet's training step, which has alias groups, with as little fast memory as makes its weights compete."""
    chip = load_mmap_chip("tpuv4i")
    cmem = replace(chip.cmem, capacity_bytes=8 * 2**20)
    return MmapProblem(load_program(program), replace(chip, cmem=cmem), config)


def _mcm(config: McmConfig) -> Problem:
    return McmProblem(load("mobilenet_v2"), load_package("edge4"), config)


PINS = (
    "conv[12].weight=dram",
    "pool?.activation=sram",
    "fc3.weight=llc",
    "conv3.activation=conv1.activation",
    "conv5.weight=conv4.weight",
    "sram.free=64KiB",
)
"""What a user may want of AlexNet: tensors in each of the memories, others together, and room that stays free."""

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "nnpi": lambda: NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig()),
    "nnpi-penalise": lambda: NnpiProblem(load("resnet18"), load_chip("nnpi"), NnpiConfig(invalid="penalise")),
    "nnpi-noisy": _noisy,
    "nnpi-edge": lambda: NnpiProblem(load("alexnet"), load_chip("edge"), NnpiConfig()),
    "nnpi-quad": lambda: NnpiProblem(load("alexnet"), load_chip("quad"), NnpiConfig()),
    "nnpi-pinned": lambda: NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig(pins=list(PINS))),
    "mmap": lambda: _mmap(MmapConfig()),
    "mmap-literal": lambda: _mmap(MmapConfig(literal_copies=True), "alexnet"),
    "mmap-latency": lambda: _mmap(MmapConfig(reward="latency")),
    "mmap-lost": lambda: _mmap(MmapConfig(drop_backup=False)),
    "mcm": lambda: _mcm(McmConfig()),
    "mcm-device": lambda: _mcm(McmConfig(model="device")),
    "mcm-free": lambda: _mcm(McmConfig(solver=False)),
    "toy-grammar-large": lambda: ToyGrammar(45),
    **{f"toy-{name}": toy for name, toy in (TOYS | ABLE).items()},
}


SMALL: dict[str, dict[str, Any]] = {
    "egrl": {
        "network.width": 8,
        "network.depth": 2,
        "network.attention_heads": 2,
        "learner.critic.width": 8,
        "learner.sac.batch": 4,
        "profile_model.steps": 5,
        "profile_model.most": 16,
        "profile_model.proposals": 3,
    },
    "ea": {"network.width": 8, "network.depth": 2, "network.attention_heads": 2},
    "rank": {"width": 8, "samples": 4, "training.rounds": 20},
    "es": {"network.width": 8, "network.depth": 2, "network.attention_heads": 2},
    "pg": {
        "network.width": 8,
        "network.depth": 2,
        "network.attention_heads": 2,
        "learner.critic.width": 8,
        "learner.sac.batch": 4,
    },
    "ppo": {
        "network.layers": 1,
        "network.width": 8,
        "network.waves": 2,
        "learner.epochs": 1,
        "learner.minibatches": 1,
    },
    "revise": {"moves": 50},
    "twin": {"steps": 40, "candidates": 30},
}
"""Settings that make the methods that learn, or work long between evaluations, small enough for tests."""

ONE_SHOT = ("exact",)
"""Methods that finish before any budget is spent; `tests/egrl/runs/test_certificates.py` has theirs."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, SMALL.get(name, {})) for name in METHODS if name not in ONE_SHOT},
    "annealing-chains": ("annealing", {"chains": 4}),
    "annealing-distributions": ("annealing", {"space": "distributions"}),
    "egrl-twin": ("egrl", {**SMALL["egrl"], "twin": "on"}),
    "egrl-ragged-rounds": ("egrl", {**SMALL["egrl"], "evolution.population": 7, "learner.rollouts": 2}),
    "es-ragged-rounds": ("es", {**SMALL["es"], "pairs": 3, "readout": "sample"}),
    "ppo-literal": (
        "ppo",
        {**SMALL["ppo"], "passes": 2, "begin": "outset", "outset": "nothing", "coupling": 0.0},
    ),
    "ppo-ragged-rounds": ("ppo", {**SMALL["ppo"], "rollouts": 7, "draw": "problem", "credit": "ran"}),
    "ea-boltzmann": ("ea", {**SMALL["ea"], "evolution.boltzmann_fraction": 1.0}),
    "ea-network": ("ea", {**SMALL["ea"], "evolution.boltzmann_fraction": 0.0}),
}
"""Method variants that the suite runs: name -> (method, settings)."""


Problems = Mapping[str, Callable[[], Problem]]
Variants = Mapping[str, tuple[str, dict[str, Any]]]
_PLUGGED_PROBLEMS: dict[str, Callable[[], Problem]] = {}
_PLUGGED_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {}


def take_part(problems: Problems, variants: Variants) -> None:
    """Let a plug-in's problems and variants of methods take part in the suites that its tests take."""
    _PLUGGED_PROBLEMS.update(problems)
    _PLUGGED_VARIANTS.update(variants)


def problems() -> Problems:
    """All problems, those of plug-ins last."""
    return PROBLEMS | _PLUGGED_PROBLEMS


@functools.cache
def problem(name: str) -> Problem:
    """The problem of that name, built once per process."""
    return problems()[name]()


def variant_of(name: str) -> tuple[str, dict[str, Any]]:
    """The method of a variant, and its settings."""
    return (VARIANTS | _PLUGGED_VARIANTS)[name]


def served(variant: str, problem: Problem) -> bool:
    """Whether the variant's method works on the problem."""
    return find_method(variant_of(variant)[0]).serves(problem) is None
