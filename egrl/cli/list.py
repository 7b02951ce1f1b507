"""egrl list: what can be named on the command line."""

from __future__ import annotations

import json
from typing import Any

import click

from egrl.cli.names import OneOf
from workloads.errors import InputError
from workloads.nearest import one_of

KINDS = ("workloads", "chips", "methods", "problems", "settings")


def entries(kind: str, of: str | None = None) -> list[dict[str, object]]:
    """Name and a line about each entry of a kind; of settings those of the method or problem `of`."""
    from egrl.methods import METHODS
    from egrl.problems import PROBLEMS

    if kind == "methods":
        return [{"name": name, "summary": entry.summary} for name, entry in METHODS.items()]
    if kind == "problems":
        return [{"name": name, "summary": entry.summary} for name, entry in PROBLEMS.items()]
    if kind == "chips":
        return [
            {"name": chip, "problem": name, **definition.describe(chip)}
            for name, definition in ((n, entry.load()) for n, entry in PROBLEMS.items())
            for chip in definition.chips()
        ]
    if kind == "settings":
        return _settings(of)
    return [*_networks(), *_programs()]


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
    from workloads.load_program import describe, load_program
    from workloads.programs.names import program_names

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


def _settings(of: str | None) -> list[dict[str, object]]:
    """What `--set` can change of a method, a problem or evaluators."""
    from egrl.cli import settings
    from egrl.measure.config import EvaluatorConfig
    from egrl.methods import METHODS, find_method
    from egrl.problems import PROBLEMS, find_problem

    names = (*PROBLEMS, *METHODS, "evaluator")
    if of is None or of.partition(":")[0] not in names:
        expected = (
            one_of(of, names) if of is not None else f"expected one of {', '.join(names)}, found nothing"
        )
        raise InputError(f"list settings: {expected}")
    if of == "evaluator":
        given: Any = EvaluatorConfig()
        prefix = "evaluator"
    elif of in PROBLEMS:
        given, prefix = find_problem(of).load().config(), "problem"
    else:
        given, prefix = find_method(of).config(), "method"
    found = list(settings.known(given, prefix))
    lines = settings.table(found)
    return [
        {
            "name": each.key,
            "summary": line,
            "default": each.default,
            "allowed": each.allowed,
            "meaning": each.meaning,
        }
        for each, line in zip(found, lines, strict=True)
    ]


@click.command(name="list", short_help="list workloads, chips, methods, problems, or settings of one")
@click.argument("kind", type=OneOf(KINDS))
@click.argument("of", required=False)
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
def command(kind: str, of: str | None, as_json: bool) -> int:
    """List workloads, chips, methods or problems; or what `--set` can change of a method or problem.

    egrl list settings annealing
    """
    if of is not None and kind != "settings":
        raise InputError(f"list {kind}: expected nothing after it, found {of!r}")
    found = entries(kind, of)
    if as_json:
        click.echo(json.dumps({"kind": "list", "version": 1, "of": kind, "entries": found}))
    else:
        if not found:
            click.echo(f"egrl list: {of} has no settings", err=True)
        width = max((len(str(entry["name"])) for entry in found), default=0)
        for entry in found:
            click.echo(f"{entry['name']!s:<{width}}  {entry['summary']}")
    return 0
