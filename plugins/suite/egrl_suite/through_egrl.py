"""Rows of egrl's own methods, its rules, solver and policies, and of others' optimisers; needs egrl.

`NAME` is a method of `egrl list methods` with the settings here; `NAME*` begins with what ships, which was trained on
networks of all families of the suite. `NAME[KEY=VALUE;…]` has other settings of `method`, too: with and without a part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl import ask_tell
from egrl.core.archive import START
from egrl.methods.placed import place, placed_by_network
from egrl_suite.library import DATA, Instance, SuiteError, find
from egrl_suite.tasks import Search, Task
from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.mmap.chip import load_chip as load_program_chip
from hwsim.mmap.problem import MmapProblem
from hwsim.nnpi.chip import parse_chip
from hwsim.nnpi.placer import RULES, compile_map
from hwsim.nnpi.problem import NnpiProblem
from workloads.errors import InputError
from workloads.load import load, load_program

HAND, PROFILED = "method.shipped=false", "method.profile_model.use=off"
METHODS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "egrl": ("egrl", (HAND,), ""),
    "egrl*": ("egrl", (), ""),
    "egrl-paper": ("egrl", (), "paper"),
    "ea": ("ea", (HAND,), ""),
    "pg": ("pg", (HAND,), ""),
    "rank": ("rank", (), ""),
    "annealing": ("annealing", (), ""),
    "greedy-dp": ("greedy-dp", (), ""),
    "twin": ("twin", (), ""),
    "ppo": ("ppo", (), ""),
    "revise": ("revise", (), ""),
    "optuna-tpe": ("egrl_suite.peers:OPTUNA", ("method.optimiser=TPESampler",), ""),
    "optuna-cma": ("egrl_suite.peers:OPTUNA", ("method.optimiser=CmaEsSampler",), ""),
    "optuna-gp": ("egrl_suite.peers:OPTUNA", ("method.optimiser=GPSampler",), ""),
    "nevergrad": ("egrl_suite.peers:NEVERGRAD", ("method.optimiser=NGOpt", "method.budget=400"), ""),
    "pymoo-ga": ("egrl_suite.peers:PYMOO", (), ""),
}
"""Name of a row -> method, settings, preset."""
NAMES = ("rules", "exact", "network*", "place*", *METHODS)
SOLVE_S = 20.0
"""Of the row `exact`."""


def problem_of(instance: Instance, truth: bool = False) -> Any:
    """The instance as a problem of egrl: as a method sees it, or as it truly is."""
    network, chip = (
        instance.truth if truth and instance.kind == "board" else (instance.network, instance.chip)
    )
    if instance.kind == "mcm":
        workload, _, chips = instance.name.removeprefix("mcm:").partition("@")
        return McmProblem(load(workload), load_package("mcm36"), McmConfig(chips=int(chips)))
    if instance.kind == "program":
        program, _, chip = instance.name.removeprefix("program:").partition("@")
        return MmapProblem(load_program(program), load_program_chip(chip))
    text = (DATA / f"chips/{chip}.toml").read_text("utf-8")
    return NnpiProblem(workload_of(network), parse_chip(text, chip))


def workload_of(network: str) -> Any:
    """A network of the suite as egrl's workload."""
    import gzip

    from workloads.serialize import from_json

    return from_json(gzip.decompress((DATA / f"networks/{network}.json.gz").read_bytes()).decode(), network)


def prove(name: str, seconds: float) -> tuple[float, str]:
    """The bound of an instance, in seconds, proved anew within a time, and the kind of proof."""
    problem = problem_of(find(name), truth=True)
    if isinstance(problem, MmapProblem):
        return program_bound(problem, seconds)
    bound = problem.solve(seconds, 0).bound
    return float(bound.cost), str(bound.proof)


def program_bound(problem: MmapProblem, seconds: float) -> tuple[float, str]:
    """What no play of a program takes less than, in seconds, and the kind of proof."""
    bound = problem.bound(seconds)
    return float(problem.tables.none_s - bound.reward * problem.tables.most_s), bound.proof


def method_named(name: str) -> Search:
    """Raises SuiteError if there is none."""
    at_once = {"rules": _rules, "exact": _exact, "network*": _network, "place*": _place}
    if name in at_once:
        return at_once[name]
    base, _, changed = name.removesuffix("]").partition("[")
    if base not in METHODS:
        raise SuiteError(f"--method {name}: expected default, random, {', '.join(NAMES)} or MODULE:NAME")
    method, settings, preset = METHODS[base]
    given = settings + tuple(f"method.{one}" for one in changed.split(";") if one)
    return lambda task, seed: _searched(task, seed, method, given, preset)


def _rules(task: Task, seed: int) -> Any:
    """The best of the compiler's twelve rules: each is measured, or the model says which where one may be."""
    problem = problem_of(task._instance)
    if not isinstance(problem, NnpiProblem):
        return problem.baseline.mapping
    maps = [compile_map(problem.tables, rule) for rule in RULES.values()]
    if task.left == 1:
        return min(maps, key=problem.model_cost)
    for mapping in maps[: task.left]:
        task.measure(mapping)
    return None


def _exact(task: Task, seed: int) -> Any:
    return problem_of(task._instance).solve(SOLVE_S, seed).mapping


def _network(task: Task, seed: int) -> Any:
    found = placed_by_network(problem_of(task._instance))
    return found[0] if len(found) else task.default


def _place(task: Task, seed: int) -> Any:
    return place(problem_of(task._instance)).mapping


def _searched(task: Task, seed: int, method: str, settings: tuple[str, ...], preset: str) -> None:
    """A method of egrl, asked and told until nothing is left."""
    problem = problem_of(task._instance)
    given = list(settings)
    if method == "egrl" and not task._track.profiles:
        given += [PROFILED]
    try:
        search = ask_tell.Search(problem, method=method, seed=seed, settings=given, preset=preset)
    except InputError as error:
        raise SuiteError(f"{method}: {error}") from None
    while task.left:
        batch = search.ask(limit=task.left)
        if batch is None:
            return
        if task._track.apart:
            told = [
                _measured(task, mapping, row)
                for mapping, row in zip(batch.mapping, batch.source, strict=True)
            ]
            search.tell(batch, [seconds for seconds, _ in told], [profile for _, profile in told])
            continue
        found = problem.evaluate(batch.proposals.mapping, batch.key)
        counted = np.array(batch.source) != START  # the default's cost is told to all
        task.record(found.repaired[counted], costs_of(problem, found)[counted])
        search.tell(batch, found if task._track.profiles else replace(found, parts=None))


def costs_of(problem: Any, found: Any) -> NDArray[np.float64]:
    """Seconds; of a play without stalls, which its reward says."""
    cost = found.cost
    if isinstance(problem, MmapProblem):
        cost = problem.tables.none_s - found.reward * problem.tables.most_s
    return np.where(found.usable, cost, np.inf)


def _measured(task: Task, mapping: Any, source: str) -> tuple[float, list[float] | None]:
    """Seconds and profile; the default's is known, and nothing is measured beyond the budget."""
    if source == START:
        return task.default_cost, task.default_profile
    told = task.measure(mapping)
    return told.cost, told.profile
