"""Search methods, one a file. A method is a class built from (Setting, its config)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from egrl.types import Method
from hwsim.problem import Problem
from workloads.errors import InputError


@dataclass(frozen=True)
class Entry:
    """A method in the registry: where it lives (nothing is imported until it is used) and one line about it."""

    module: str
    summary: str

    def load(self) -> Definition:
        """Import the method."""
        return importlib.import_module(self.module).DEFINITION


@dataclass(frozen=True)
class Definition:
    """What a method's module exports as DEFINITION.

    Attributes:
        config: dataclass of its settings.
        build: (Setting, config) -> Method.
        serves: why it cannot work on a problem, or None where it can.
        paper: the settings of `--preset paper`, as keys of the config.
    """

    config: type
    build: Callable[[Any, Any], Method]
    serves: Callable[[Problem], str | None]
    paper: dict[str, Any]


METHODS: dict[str, Entry] = {
    "egrl": Entry(
        "egrl.methods.egrl", "population of Graph U-Nets and Boltzmann chromosomes, with discrete SAC"
    ),
    "ea": Entry("egrl.methods.ea", "the population alone"),
    "pg": Entry("egrl.methods.pg", "discrete SAC alone"),
    "es": Entry("egrl.methods.es", "evolution strategies on the weights of one Graph U-Net"),
    "greedy-dp": Entry("egrl.methods.greedy_dp", "node after node, the best of all its joint choices"),
    "annealing": Entry("egrl.methods.annealing", "simulated annealing by flips and swaps"),
    "random": Entry("egrl.methods.random", "independent uniform draws"),
}


def find(name: str) -> Definition:
    """The method called `name`; InputError listing the names where there is none."""
    if name not in METHODS:
        raise InputError(f"--method: expected one of {', '.join(METHODS)}, found {name!r}")
    return METHODS[name].load()


def serves_all(problem: Problem) -> str | None:
    """For methods that need no more than `sample` and `repair`."""
    return None


def needs_graph(problem: Problem) -> str | None:
    """For methods whose policies look at a graph."""
    return None if problem.observation is not None else "the problem has no graph to observe"
