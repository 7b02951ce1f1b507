"""The program of decisions that a search of the problem `vela` has found: written by Vela, and checked."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from egrl.runs.text import counted
from egrl_vela import report, written
from egrl_vela.compiler import DEFAULT, Outcome, Setting, Target, Vela
from egrl_vela.problem import VelaConfig, VelaProblem
from egrl_vela.search import Found
from egrl_vela.written import Written
from workloads.errors import RunFailure
from workloads.files import read_text

CORE = "Vela's Python core"
DECIDED = Setting(1)
"""Stands for the decisions, which no option of Vela has."""


def decided(
    vela: Vela, target: Target, file: Path, layers: int, time_limit_s: float
) -> tuple[bytes, list[str], dict[str, Any]]:
    """The program, what is said of it, and the same as a document.

    Raises:
        InputError: the file has no decisions for this model, device and Vela.
        RunFailure: Vela writes another program than it scheduled, one that takes too much SRAM, or with other ops.
    """
    problem = VelaProblem(target, VelaConfig(target.config, target.limit_bytes, time_limit_s))
    mapping = problem.read_plan(read_text(file, "decisions"), str(file))
    if wrong := problem.judge(mapping):
        raise RunFailure(f"{file}: {wrong[0]}")
    own = written.read(problem.write(problem.baseline.mapping))
    folder = problem.write(mapping)
    made, data = written.read(folder), written.program(folder).read_bytes()
    expected = sum(problem.cycles(mapping))
    if abs(made.cycles - expected) > 1e-6 * expected or made.outside != own.outside:
        raise RunFailure(f"{file}: Vela wrote another program than it had scheduled")
    found = Found({DEFAULT: Outcome(own), DECIDED: Outcome(made)}, max(own.cache_bytes, own.sram_bytes))
    if why := found.unfit(made):
        raise RunFailure(f"{file}: the program {why}")
    with tempfile.TemporaryDirectory() as place:
        default = vela.compile(target, DEFAULT, Path(place), time_limit_s).written
    lines = [
        report.headline(found, made, CORE),
        report.CAVEAT,
        *report.table(report.changes(own.layers, made.layers), layers),
        f"{counted(len(made.outside), 'op')} on the CPU, the same as by Vela's own schedule",
        _beside(made, default),
    ]
    document = {
        "kind": "vela-decided",
        "version": 1,
        "speedup": own.cycles / made.cycles,
        "core": report.figures(own),
        "best": report.figures(made),
        "default": default and report.figures(default),
    }
    return data, lines, document


def _beside(made: Written, default: Written | None) -> str:
    """What Vela's default core makes of the model: as a whole, and of the layers that both programs have."""
    if default is None:
        return "Vela's default core compiles no program of it"
    both = {layer.name for layer in made.layers} & {layer.name for layer in default.layers}
    of_default, of_made = (
        sum(layer.cycles for layer in each.layers if layer.name in both) / 1e6 for each in (default, made)
    )
    return (
        f"Vela's default core, whose estimate is another model's: {default.cycles / 1e6:.2f} M cycles, "
        f"{counted(len(default.outside), 'op')} on the CPU; "
        f"{of_default:.2f} against {of_made:.2f} M for the {len(both)} layers that both have by name"
    )
