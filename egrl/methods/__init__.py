"""Search methods, a file or a folder each, built from (Context, its config); they propose, and never measure."""

from __future__ import annotations

from egrl.core.registry import MethodDefinition, MethodEntry
from workloads.errors import InputError
from workloads.nearest import one_of

METHODS: dict[str, MethodEntry] = {
    "egrl": MethodEntry(
        "egrl.methods.hybrid.egrl", "population of Graph U-Nets and Boltzmann chromosomes, with discrete SAC"
    ),
    "ea": MethodEntry("egrl.methods.hybrid.ea", "the population alone"),
    "pg": MethodEntry("egrl.methods.hybrid.pg", "discrete SAC alone"),
    "es": MethodEntry("egrl.methods.es", "evolution strategies on the weights of one Graph U-Net"),
    "ppo": MethodEntry(
        "egrl.methods.ppo.method", "proximal policy optimisation of a GraphSAGE network that refines mappings"
    ),
    "muzero": MethodEntry(
        "egrl.methods.muzero.method", "MuZero: plays the problem's game, planning in a model that it learns"
    ),
    "tag": MethodEntry(
        "egrl.methods.graph_search.tag",
        "threshold ascent on graphs: bandits on partial plans, such as those of an FFT",
    ),
    "uct": MethodEntry("egrl.methods.graph_search.uct", "the same graph search with UCT's bandits"),
    "greedy-dp": MethodEntry("egrl.methods.greedy_dp", "node after node, the best of all its joint choices"),
    "exact": MethodEntry("egrl.methods.exact", "the solution of the problem's own model, where it has one"),
    "annealing": MethodEntry("egrl.methods.annealing", "simulated annealing by flips and swaps"),
    "random": MethodEntry("egrl.methods.random", "independent uniform draws"),
    "random-plans": MethodEntry(
        "egrl.methods.graph_search.random_plans", "plans drawn rule by rule from the problem's derivation"
    ),
    "nevergrad": MethodEntry(
        "egrl.methods.peers.nevergrad",
        "nevergrad:NAME, any optimiser of Nevergrad (extra peers)",
        "nevergrad",
    ),
    "optuna": MethodEntry(
        "egrl.methods.peers.optuna", "optuna:NAME, a sampler of Optuna (extra peers)", "optuna"
    ),
    "pymoo": MethodEntry(
        "egrl.methods.peers.pymoo", "pymoo:GA, a genetic algorithm on integers (extra peers)", "pymoo"
    ),
}


def find_method(name: str) -> MethodDefinition:
    """The method called `name`, NAME or NAME:VARIANT; InputError listing the names where there is none."""
    own, colon, variant = name.partition(":")
    entry = METHODS.get(own)
    if entry is None:
        raise InputError(f"--method: {one_of(name, METHODS)}")
    if colon and not (entry.family and variant):
        expected = f"{own}:NAME, or {own}" if entry.family else f"{own}, which has no variants"
        raise InputError(f"--method: expected {expected}, found {name!r}")
    return entry.load(variant)
