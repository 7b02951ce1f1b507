"""egrl allocate: an address for each tensor of a mapping."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from egrl.cli import flags
from egrl.cli.flags import run_or_flags
from egrl.cli.output import OneOf, output_file
from egrl.runs.text import counted
from workloads.errors import InputError

NAMED = 8
"""Tensors that stick out are named up to this many; the file has all."""


@click.command(name="allocate", short_help="an address for each tensor of a mapping")
@click.argument("run", required=False)
@click.option(
    "--workload", help="without RUN: a workload of `egrl list workloads`, or a workload file (.json)"
)
@click.option("--mapping", help="a mapping file, compiler, or best-known [RUN's best, or compiler]")
@click.option(
    "--problem",
    help="what a mapping costs; see `egrl list problems` [nnpi]; needed for a RUN of a problem MODULE:NAME",
)
@flags.use("own_chip", "own_settings")
@click.option("--align", type=int, default=64, help="every offset is a multiple of this many bytes [64]")
@click.option(
    "--fixed",
    help="addresses to keep: a table (.csv) with op, head and offset_bytes, or an allocation (.json) of which the other"
    " tensors were left out",
)
@click.option("--seconds", type=float, default=10.0, help="time limit of the search per memory [10]")
@click.option("--seed", type=int, default=0, help="seed of the search [0]")
@click.option("--format", "form", type=OneOf(["json", "csv"]), help="format of the file [json]")
@click.option("-o", "--output", help="file to write [RUN/allocation.json or .csv; none without RUN]")
@flags.use("json")
def command(
    run: str | None,
    workload: str | None,
    mapping: str | None,
    problem: str | None,
    chip: str | None,
    settings: tuple[str, ...],
    align: int,
    fixed: str | None,
    seconds: float,
    seed: int,
    form: str | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Give each tensor of a run's best mapping an offset in its memory, by lifetime; exit code 1 where one cannot be
    packed.

    \b
    egrl allocate runs/bert-egrl-s0-1
    egrl allocate --workload bert --mapping best_mapping.json --format csv -o allocation.csv
    egrl allocate runs/bert-egrl-s0-1 --fixed addresses.csv
    """
    if align < 1 or align > 2**40 or seed < 0 or not (seconds >= 0 and math.isfinite(seconds)):
        raise InputError(
            "--align, --seconds, --seed: expected a number of bytes from 1 to 2^40, a time and a number not below 0,"
            f" found {align}, {seconds:g} and {seed}"
        )
    if output is not None:
        output_file(output)
    flags = {"--workload": workload, "--mapping": mapping, "--problem": problem, "--chip": chip}
    return _mapping(run, flags, settings, align, fixed, seconds, seed, form or "json", output, as_json)


def _mapping(
    run: str | None,
    flags: Mapping[str, str | None],
    settings: tuple[str, ...],
    align: int,
    fixed: str | None,
    seconds: float,
    seed: int,
    form: str,
    output: str | None,
    as_json: bool,
) -> int:
    """Addresses for a mapping; `flags` as of `run_or_flags`."""
    from egrl.core import atomic, mapping_file
    from egrl.runs import allocation
    from workloads.errors import RunFailure

    subject, chosen, name = run_or_flags("allocate", run, flags, settings)
    given = mapping_file.read_addresses(fixed, subject.space) if fixed is not None else {}
    memories = allocation.allocate(subject, chosen, align, seconds, seed, given, fixed or "")
    report = allocation.document(subject, name, memories, align)
    if output is None and run is not None:
        output = str(Path(run) / f"{allocation.FILE}.{form}")
    if output is not None:
        text = allocation.csv_of(report) if form == "csv" else json.dumps(report, indent=1) + "\n"
        atomic.write_named(Path(output), text)
    click.echo(json.dumps(report) if as_json else text_of(report, output))
    if given and not as_json:
        click.echo(f"kept: {counted(len(given), 'offset')} of {fixed}")
    if not report["packed"]:
        raise RunFailure(failure(report, seconds))
    return 0


def failure(report: Mapping[str, Any], seconds: float) -> str:
    """Which memories could not be packed, by how many bytes, and what sticks out of them."""
    lines = []
    for memory in report["memories"]:
        if memory["packed"]:
            continue
        names = memory["sticking_out"]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        if memory["verdict"] == "impossible":
            why = f"proved impossible at --align {report['align_bytes']}"
        else:
            why = f"no packing found in {seconds:g} s"
        lines.append(
            f"{memory['memory']} does not fit by {memory['over_bytes']:,} bytes ({why}):"
            f" {', '.join(names[:NAMED])}{more}"
        )
    return "; ".join([*lines, advice(report, seconds)])


def advice(report: Mapping[str, Any], seconds: float) -> str:
    """What to try next, by the first memory that could not be packed."""
    memory = next(memory for memory in report["memories"] if not memory["packed"])
    name, align = memory["memory"], report["align_bytes"]
    if memory["fullest_bytes"] > memory["capacity_bytes"]:
        return (
            f"next: {name} holds too much at one step, whatever the addresses; egrl run --start FILE, with this"
            " mapping, finds one that fits"
        )
    smaller = f"give {name} {memory['over_bytes']:,} bytes less in a copy of the chip file, and run the search with it"
    if memory["verdict"] == "impossible" and align > 1:
        return f"next: --align {max(1, align // 4)}, or {smaller}"
    if memory["verdict"] == "impossible":
        return f"next: {smaller}"
    return f"next: --seconds {6 * max(seconds, 1.0):g}, or {smaller}"


def text_of(report: Mapping[str, Any], output: str | None) -> str:
    """The memories as a table, fastest first, and where the addresses are."""
    head = ("memory", "tensors", "fullest step", "height", "capacity", "fits")
    cells: list[Sequence[str]] = [head]
    for memory in reversed(report["memories"]):
        fits = "yes" if memory["packed"] else f"no, by {memory['over_bytes']:,} bytes: {memory['verdict']}"
        numbers = (memory[key] for key in ("tensors", "fullest_bytes", "height_bytes", "capacity_bytes"))
        cells.append((memory["memory"], *(f"{number:,}" for number in numbers), fits))
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for row in cells:
        aligned = [
            cell.ljust(width) if column in (0, len(head) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(aligned).rstrip())
    lines.append(
        f"{report['workload']} on {report['chip']}, {report['mapping']}: sizes in bytes, offsets in multiples of"
        f" {report['align_bytes']}"
    )
    return "\n".join(lines if output is None else [*lines, f"written: {output}"])
