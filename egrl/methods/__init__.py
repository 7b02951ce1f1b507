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
    """A method in the registry: where it lives (nothing is imported until it is used) and one line about it.

    A family of methods, `NAME:VARIANT`, names a function of its module that takes the variant ("": its default).
    """

    module: str
    summary: str
    family: str = ""

    def load(self, variant: str = "") -> Definition:
        """Import the method. InputError where a family has no such variant."""
        module = importlib.import_module(self.module)
        found: Definition = getattr(module, self.family)(variant) if self.family else module.DEFINITION
        return found


@dataclass(frozen=True)
class Definition:
    """What a method's module exports as DEFINITION.

    Attributes:
        config: dataclass of its settings.
        build: (Setting, config) -> Method.
        serves: why it cannot work on a problem, or None where it can.
        paper: the settings of `--preset paper`, as keys of the config.
        takes_policy: whether it can begin with a saved policy (`--init`).
        several: whether it trains one policy on several workloads at once (`egrl pretrain`).
    """

    config: type
    build: Callable[[Any, Any], Method]
    serves: Callable[[Problem], str | None]
    paper: dict[str, Any]
    takes_policy: bool = False
    several: bool = False


METHODS: dict[str, Entry] = {
    "egrl": Entry(
        "egrl.methods.egrl", "population of Graph U-Nets and Boltzmann chromosomes, with discrete SAC"
    ),
    "ea": Entry("egrl.methods.ea", "the population alone"),
    "pg": Entry("egrl.methods.pg", "discrete SAC alone"),
    "es": Entry("egrl.methods.es", "evolution strategies on the weights of one Graph U-Net"),
    "ppo": Entry(
        "egrl.methods.ppo", "proximal policy optimisation of a GraphSAGE network that refines mappings"
    ),
    "muzero": Entry(
        "egrl.methods.muzero", "MuZero: plays the problem's game, planning in a model that it learns"
    ),
    "tag": Entry(
        "egrl.methods.tag", "threshold ascent on graphs: bandits on partial plans, such as those of an FFT"
    ),
    "uct": Entry("egrl.methods.uct", "the same graph search with UCT's bandits"),
    "greedy-dp": Entry("egrl.methods.greedy_dp", "node after node, the best of all its joint choices"),
    "exact": Entry("egrl.methods.exact", "the solution of the problem's own model, where it has one"),
    "annealing": Entry("egrl.methods.annealing", "simulated annealing by flips and swaps"),
    "random": Entry("egrl.methods.random", "independent uniform draws"),
    "nevergrad": Entry(
        "egrl.methods.nevergrad", "nevergrad:NAME, any optimiser of Nevergrad (extra peers)", "nevergrad"
    ),
    "optuna": Entry("egrl.methods.optuna", "optuna:NAME, a sampler of Optuna (extra peers)", "optuna"),
    "pymoo": Entry("egrl.methods.pymoo", "pymoo:GA, a genetic algorithm on integers (extra peers)", "pymoo"),
}


def find(name: str) -> Definition:
    """The method called `name`, NAME or NAME:VARIANT; InputError listing the names where there is none."""
    own, colon, variant = name.partition(":")
    entry = METHODS.get(own)
    if entry is None or (colon and not (entry.family and variant)):
        raise InputError(f"--method: expected one of {', '.join(METHODS)}, found {name!r}")
    return entry.load(variant)


def serves_all(problem: Problem) -> str | None:
    """For methods that need no more than `sample` and `repair`."""
    return None


def needs_graph(problem: Problem) -> str | None:
    """For methods whose policies look at a graph."""
    return None if problem.observation is not None else "the problem has no graph to observe"
