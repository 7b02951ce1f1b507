"""egrl list: what can be named on the command line."""

from __future__ import annotations

import json

import click

KINDS = ("workloads", "chips", "methods", "problems")


def entries(kind: str) -> list[dict[str, object]]:
    """Name and a line about each entry of a kind."""
    from egrl import methods, problems

    if kind == "methods":
        return [{"name": name, "summary": entry.summary} for name, entry in methods.METHODS.items()]
    if kind == "problems":
        return [{"name": name, "summary": entry.summary} for name, entry in problems.PROBLEMS.items()]
    if kind == "chips":
        return [
            {"name": chip, "problem": name, **definition.describe(chip)}
            for name, definition in ((n, entry.load()) for n, entry in problems.PROBLEMS.items())
            for chip in definition.chips()
        ]
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
    from workloads.load_program import describe, load_program, program_names

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


@click.command(name="list", short_help="list workloads, chips, methods or problems")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
def command(kind: str, as_json: bool) -> int:
    """List workloads, chips, methods or problems."""
    found = entries(kind)
    if as_json:
        click.echo(json.dumps({"kind": "list", "version": 1, "of": kind, "entries": found}))
    else:
        width = max(len(str(entry["name"])) for entry in found)
        for entry in found:
            click.echo(f"{entry['name']!s:<{width}}  {entry['summary']}")
    return 0
