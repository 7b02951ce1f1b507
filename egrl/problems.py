"""The registry of problems: how one is built from a workload, a chip and its settings."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

from egrl.core import typed_tables
from egrl.core.registry import Choice, ProblemDefinition, ProblemEntry, memories_of, on_chips
from hwsim.capabilities import HasPlacer
from hwsim.problem import Mapping16, Problem
from workloads import plugins
from workloads.errors import InputError
from workloads.references import failed


def _nnpi() -> ProblemDefinition:
    from hwsim.nnpi.chip import chip_around, chip_names, describe, load_chip
    from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
    from workloads.load import load

    loaders, paper = (load, load_chip), {"invalid": "penalise"}
    names = (chip_names, "nnpi")
    definition = on_chips(
        "nnpi", NnpiConfig, NnpiProblem, loaders, names, (describe, memories_of), paper, _networks
    )
    return replace(
        definition,
        around=lambda chip, rng, name: chip_around(
            load_chip(chip) if isinstance(chip, str) else chip, rng, name
        ),
    )


def _mmap() -> ProblemDefinition:
    from hwsim.mmap.chip import chip_names, describe, load_chip
    from hwsim.mmap.problem import MmapConfig, MmapProblem
    from workloads.load import load_program

    def both(chip: Any) -> dict[str, Any]:
        return {"cmem": asdict(chip.cmem), "hbm": asdict(chip.hbm)}

    loaders, paper = (load_program, load_chip), {"literal_copies": True}
    return on_chips(
        "mmap", MmapConfig, MmapProblem, loaders, (chip_names, "tpuv4i"), (describe, both), paper, _programs
    )


def _mcm() -> ProblemDefinition:
    from hwsim.mcm.config import McmConfig
    from hwsim.mcm.package import describe, load_package, package_names
    from hwsim.mcm.problem import McmProblem
    from workloads.load_partition import load_partition

    loaders, paper = (load_partition, load_package), {"model": "device"}
    return on_chips(
        "mcm", McmConfig, McmProblem, loaders, (package_names, "mcm36"), (describe, asdict), paper
    )


def _networks() -> list[dict[str, object]]:
    from workloads.load import all_names, load

    return [
        {
            "name": name,
            "summary": f"{len(graph)} ops, {graph.parameters / 1e6:.1f} M parameters, {graph.macs / 1e9:.2f} GMAC",
            "ops": len(graph),
            "parameters": graph.parameters,
            "macs": graph.macs,
        }
        for name in all_names()
        for graph in [load(name)]
    ]


def _programs() -> list[dict[str, object]]:
    from workloads.load import describe, load_program
    from workloads.programs import program_names

    return [
        {
            "name": name,
            "summary": f"program for --problem mmap: {sizes['buffers']} buffers, {sizes['flops'] / 1e9:.1f} GFLOP,"
            f" {sizes['bytes'] / 1e6:.0f} MB of traffic",
            **sizes,
        }
        for name in program_names()
        for sizes in [describe(load_program(name))]
    ]


PROBLEMS: dict[str, ProblemEntry] = {
    "nnpi": ProblemEntry(
        "the memory of each weight and activation on a chip like Intel's NNP-I, in seconds an inference",
        "workload.json",
        "chip.toml",
        _nnpi,
        modelled=Choice("exact", "no board measures, and the chip's model can be solved"),
        measured=Choice(
            "egrl", "a board is measured, and its twin learns from totals, its profile model from profiles"
        ),
    ),
    "mmap": ProblemEntry(
        "the MMapGame: which buffers of a program lie in a TPU's fast memory (CMEM), when and where, in seconds a run",
        "program.json",
        "chip.toml",
        _mmap,
        "revise",
    ),
    "mcm": ProblemEntry(
        "which chip of a multi-chip module each op of a network runs on, in seconds a sample",
        "workload.json",
        "chip.toml",
        _mcm,
    ),
}


KIND = plugins.Kind(
    "problem",
    "--problem",
    tuple(PROBLEMS),
    "a ProblemEntry, a ProblemDefinition, or what makes a Problem of (workload, chip)",
)
"""What plug-ins of the group `egrl.problems` are."""
PARTS = ("about", "space", "baseline", "evaluate", "judge", "fingerprint")
"""Attributes of every `Problem`."""
LEARNED, LEARNED_NAME = "learned", "the trained rule"
"""In the place of a baseline's file: the first of the rules that ship, which learned on other networks and chips."""
DEFAULT_CHIP = "default"
"""The chip that a class or function gets if the user names none."""


def find_problem(name: str) -> ProblemEntry:
    """The problem called `name`: one of the package's, a plug-in's, or MODULE:NAME.

    InputError in one line if there is none, or if its code cannot be imported.
    """
    if name in PROBLEMS:
        plugins.installed(KIND)  # says which plug-ins cannot have their names
        return PROBLEMS[name]
    return entry_of(plugins.find(KIND, name))


def build_problem(problem: str, workload: Any, chip: Any, settings: Any, baseline: str = "") -> Problem:
    """The problem called `problem` on a workload and a chip. InputError if one of the arguments is wrong.

    Args:
        problem: a name that `find_problem` knows.
        workload, chip: names, files or objects; chip "": the problem's default.
        settings: the dataclass of the problem's settings, or the texts that `--set` takes.
        baseline: file with the mapping that speedups are over; "": the problem's own baseline.
    """
    definition = find_problem(problem).load()
    if isinstance(chip, str) and not chip:
        chip = definition.chips()[0]
    if isinstance(settings, list | tuple):
        table = typed_tables.parse_set(settings, "problem")["problem"]
        settings = typed_tables.build(definition.config, table, "--set problem")
    settings, baseline = own_baseline(settings, baseline)
    return with_baseline_of(definition.build(workload, chip, settings), baseline)


def own_baseline(settings: Any, baseline: str) -> tuple[Any, str]:
    """Settings of a problem and what is left of --baseline: a name that its setting `baseline` takes becomes that."""
    hint = typing.get_type_hints(type(settings)).get("baseline") if is_dataclass(settings) else None
    if not baseline or baseline not in typing.get_args(hint):
        return settings, baseline
    return replace(settings, baseline=baseline), ""


def with_baseline_of(problem: Problem, file: str) -> Problem:
    """The problem with speedups over the mapping in `file`, or over that of a trained rule if it is `LEARNED`.

    The problem as it is if `file` is "". The baseline is called what the file calls it, or by the name of the file.
    InputError if the file cannot be read or does not fit the problem, or if its mapping is not valid.
    """
    if not file:
        return problem
    from egrl.core import mapping_file
    from hwsim.baseline import with_baseline

    if file == LEARNED:
        return with_baseline(problem, _of_learned_rule(problem), LEARNED_NAME, f"--baseline {file}")
    try:
        mapping, name = mapping_file.read_named(file, problem)
    except InputError as error:
        raise InputError(f"--baseline {error}") from error
    see = f"; egrl evaluate --mapping {file} --json lists all"
    return with_baseline(problem, mapping, name or Path(file).name, f"--baseline {file}", see)


def _of_learned_rule(problem: Problem) -> Mapping16:
    """What the first of the rules that ship places, int16 [N, H]. InputError if none ships for the problem."""
    from policies.places import Places
    from policies.shipped import scored_by_rules

    if isinstance(problem, HasPlacer):
        placer = problem.placer
        scored = scored_by_rules(placer.feature_names, Places.of(placer, problem.space.shape))
        if scored is not None:
            scores, free = scored
            return placer.place(scores[:1], free[:1])[0]
    raise InputError(
        f"--baseline {LEARNED}: expected a problem that rules ship for, such as nnpi, found {problem.about.name}"
    )


def list_problems() -> list[dict[str, object]]:
    """Name and summary of every problem, those of plug-ins included."""
    own = {name: entry.summary for name, entry in PROBLEMS.items()}
    return plugins.listing(KIND, own, lambda found: entry_of(found).summary)


def entry_of(found: plugins.Outside) -> ProblemEntry:
    """The problem that code outside the package defines. InputError if it defines none.

    If the code names no files, a run keeps none, and is resumed from the same workload and chip.
    """
    thing = found.thing
    if isinstance(thing, ProblemEntry):
        return replace(thing, load=lambda: _loaded(found, thing))
    if isinstance(thing, ProblemDefinition):
        plugins.check_settings(found, thing.config)
        return _entry(plugins.summary_of(thing.build), thing)
    if not callable(thing):
        raise found.refuse(plugins.described(found))
    return _entry(plugins.summary_of(thing), _definition(found, thing))


def _loaded(found: plugins.Outside, entry: ProblemEntry) -> ProblemDefinition:
    try:
        definition = entry.load()
    except InputError:
        raise
    except Exception as error:  # whatever code of someone else raises
        raise failed(found.where, error) from error
    if not isinstance(definition, ProblemDefinition):
        raise found.refuse(f"one whose load() gives no ProblemDefinition but {type(definition).__name__}")
    plugins.check_settings(found, definition.config)
    return definition


def _entry(summary: str, definition: ProblemDefinition) -> ProblemEntry:
    return ProblemEntry(summary, "", "", lambda: definition, "annealing", "what the problem takes")


def _definition(found: plugins.Outside, make: Callable[..., Problem]) -> ProblemDefinition:
    settings = plugins.settings_of(found, make, ("workload", "chip"))

    def build(workload: str, chip: str, config: Any) -> Problem:
        given = (workload, chip) if settings is plugins.NoSettings else (workload, chip, config)
        problem = make(*given)
        missing = [part for part in PARTS if not hasattr(problem, part)]
        if missing:
            raise found.refuse(f"{type(problem).__name__} without {', '.join(missing)}")
        return problem

    def described(chip: str) -> dict[str, Any]:
        return {"summary": f"problem {found.name}: what it is given where --chip is not"}

    return ProblemDefinition(settings, build, lambda: [DEFAULT_CHIP], described, {})
