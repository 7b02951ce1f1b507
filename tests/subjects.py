"""Who takes part in the conformance suites: every problem and every method, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from egrl.methods import METHODS, find
from hwsim.fft.problem import FftConfig, FftProblem
from hwsim.mmap.chip import load_chip as load_mmap_chip
from hwsim.mmap.problem import MmapConfig, MmapProblem
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Problem
from toys import TOYS
from workloads.load import load
from workloads.load_program import load_program


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


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "nnpi": lambda: NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig()),
    "nnpi-penalise": lambda: NnpiProblem(load("resnet18"), load_chip("nnpi"), NnpiConfig(invalid="penalise")),
    "nnpi-noisy": _noisy,
    "nnpi-edge": lambda: NnpiProblem(load("alexnet"), load_chip("edge"), NnpiConfig()),
    "nnpi-quad": lambda: NnpiProblem(load("alexnet"), load_chip("quad"), NnpiConfig()),
    "mmap": lambda: _mmap(MmapConfig()),
    "mmap-literal": lambda: _mmap(MmapConfig(literal_copies=True), "alexnet"),
    "mmap-latency": lambda: _mmap(MmapConfig(reward="latency")),
    "mmap-lost": lambda: _mmap(MmapConfig(drop_backup=False)),
    "fft": lambda: FftProblem(8, FftConfig(cost="model")),
    **{f"toy-{name}": toy for name, toy in TOYS.items()},
}

SMALL: dict[str, dict[str, Any]] = {
    "egrl": {
        "network.width": 8,
        "network.depth": 2,
        "network.attention_heads": 2,
        "learner.critic.width": 8,
        "learner.sac.batch": 4,
    },
    "ea": {"network.width": 8, "network.depth": 2, "network.attention_heads": 2},
    "es": {"network.width": 8, "network.depth": 2, "network.attention_heads": 2},
    "pg": {
        "network.width": 8,
        "network.depth": 2,
        "network.attention_heads": 2,
        "learner.critic.width": 8,
        "learner.sac.batch": 4,
    },
}
"""Settings that make the learning methods small enough for tests."""

ONE_SHOT = ("exact",)
"""Methods that finish before any budget is spent; `tests/egrl/test_certificates.py` has theirs."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, SMALL.get(name, {})) for name in METHODS if name not in ONE_SHOT},
    "annealing-chains": ("annealing", {"chains": 4}),
    "egrl-episodes": ("egrl", {**SMALL["egrl"], "steps_per_episode": 3}),
    "egrl-ragged-rounds": ("egrl", {**SMALL["egrl"], "evolution.population": 7, "learner.rollouts": 2}),
    "es-ragged-rounds": ("es", {**SMALL["es"], "pairs": 3, "readout": "sample"}),
    "ea-boltzmann": ("ea", {**SMALL["ea"], "evolution.boltzmann_fraction": 1.0}),
    "ea-gnn": ("ea", {**SMALL["ea"], "evolution.boltzmann_fraction": 0.0}),
}
"""Method variants that the suite runs: name -> (method, settings)."""


def served(variant: str, problem: Problem) -> bool:
    """Whether the variant's method works on the problem."""
    return find(VARIANTS[variant][0]).serves(problem) is None
