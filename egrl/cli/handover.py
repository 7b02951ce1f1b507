"""egrl export and allocate: a mapping in a form that other tools take, and an address for each of its tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from egrl.cli import flags
from egrl.cli.flags import mapping_of, run_or_flags
from egrl.cli.output import OneOf, output_file, remark
from egrl.runs.text import counted
from workloads.errors import InputError
from workloads.text import aligned

if TYPE_CHECKING:
    from egrl.runs.export import PackedMemory
    from hwsim.problem import Mapping16, Problem


SECONDS = 10.0
"""Time limit of the search for offsets, per memory; as of `egrl allocate`, which gives the same ones."""


@click.command(
    name="export", short_help="the best mapping of a run as a table, or in a copy of the ONNX file"
)
@click.argument("run")
@click.option("-o", "--output", required=True, help="file to write")
@click.option(
    "--format",
    "form",
    type=OneOf(["json", "csv", "onnx"]),
    help="json: a mapping file; csv: one row per tensor; onnx: metadata in a copy of the model; the last two have"
    " addresses, where the problem has lifetimes [the output's ending]",
)
@click.option("--mapping", help="a mapping file to write instead of RUN's best, as of `egrl simplify`")
@click.option("--model", help="the .onnx file that the run's workload was made of (format onnx)")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=NUMBER",
    help="a dimension, as `egrl import` was given it",
)
@click.option("--no-fuse", is_flag=True, help="if the model was imported with --no-fuse")
@click.option(
    "--to",
    help="model-explorer: a folder of node data for Google's Model Explorer; or a plan for that compiler, the exports"
    " of plug-ins",
)
@click.option(
    "--align", type=int, default=64, help="csv, onnx: every address is a multiple of this many bytes [64]"
)
@click.option("--fixed", help="csv, onnx: addresses to keep, as `egrl allocate` takes them")
@flags.use("problem_of_run")
def export(
    run: str,
    output: str,
    form: str | None,
    mapping: str | None,
    model: str | None,
    dims: tuple[str, ...],
    no_fuse: bool,
    to: str | None,
    align: int,
    fixed: str | None,
    problem: str,
) -> int:
    """Write the best mapping of a run, by the names of the ops.

    egrl export runs/model --format onnx --model model.onnx -o mapped.onnx

    egrl export runs/step-exact-s0-1 --to pytorch -o plan.json
    """
    from egrl.core import atomic, mapping_file
    from egrl.runs.export import to_csv, to_onnx
    from egrl.runs.past_run import PastRun
    from workloads.importers import dimensions

    if to is not None:
        return _plan(
            run,
            output,
            problem,
            to,
            {"--format": form, "--model": model, "--fixed": fixed, "--mapping": mapping},
        )
    path = Path(output)
    form = _form(output, form, model, fixed)
    output_file(output)
    if not 1 <= align <= 2**40:
        raise InputError(f"--align: expected a number of bytes from 1 to 2^40, found {align}")
    past = PastRun.read(Path(run), problem)
    chosen = past.best_mapping() if mapping is None else mapping_of(mapping, past.problem)
    outside: list[str] = []
    data: str | bytes
    memories = None if form == "json" else _addresses(past.problem, chosen, align, run, fixed)
    if form == "json":
        data = mapping_file.dumps(past.problem, chosen)
    elif form == "csv":
        data = to_csv(past.problem, chosen, memories)
    else:
        assert model is not None
        _check_copy(model, path)
        given = dimensions.parse(dims)
        data, outside = to_onnx(past.problem, chosen, model, given, not no_fuse, memories)
        _say_weights(data, Path(model), path)
    atomic.write_named(path, data)
    if outside:
        remark("export", f"nodes of the model without a place, being views or constants: {len(outside)}")
    about, ops = past.problem.about, counted(len(past.problem.space.nodes), "op")
    click.echo(f"{path}: {about.workload} on {about.chip}, {ops}")
    return 0


def _form(output: str, form: str | None, model: str | None, fixed: str | None) -> str:
    """The format of the file: json, csv or onnx. InputError where it does not go with the other flags."""
    form = form or Path(output).suffix.lstrip(".").lower()
    if form not in ("json", "csv", "onnx"):
        raise InputError(f"--output {output}: expected a file ending in .json, .csv or .onnx, or --format")
    if (form == "onnx") != (model is not None):
        wanted = "with --format onnx the model, --model FILE.onnx" if form == "onnx" else "--format onnx"
        raise InputError(
            f"--model: expected {wanted}, found {'none' if model is None else f'--format {form}'}"
        )
    if form == "json" and fixed is not None:
        raise InputError(
            "--fixed: expected with --format csv or onnx, found with json, which has no addresses"
        )
    return form


def _check_copy(model: str, path: Path) -> None:
    """InputError where a copy of a model cannot be written to a path."""
    if not model.lower().endswith((".onnx", ".onnx.gz")):
        raise InputError(f"--model {model}: expected a file ending in .onnx or .onnx.gz")
    if path.exists() and Path(model).exists() and path.samefile(model):
        raise InputError(f"--output {path}: expected another file than --model, found the same")


def _say_weights(data: bytes, model: Path, path: Path) -> None:
    """Say which files with weights a copy of a model in another folder needs beside it."""
    from egrl.runs.export import files_of_weights

    if path.resolve().parent != model.resolve().parent:
        for name in files_of_weights(data):
            remark(
                "export",
                f"weights of the copy are in {name!r}: copy that from {model.parent} to {path.parent}",
            )


def _addresses(
    problem: Problem, mapping: Mapping16, align_bytes: int, run: str, fixed: str | None
) -> Sequence[PackedMemory] | None:
    """The memories with addresses; None if the problem knows no lifetimes. What cannot be packed is said on stderr."""
    from egrl.core import mapping_file
    from egrl.runs.export import allocate
    from hwsim.capabilities import HasLifetimes

    if not isinstance(problem, HasLifetimes):
        return None
    given = mapping_file.read_addresses(fixed, problem.space) if fixed is not None else {}
    memories = allocate(problem, mapping, align_bytes, SECONDS, 0, given, fixed or "")
    for memory in memories:
        if memory.packing.verdict != "packed":
            remark(
                "export",
                f"{memory.name} does not fit by {memory.over_bytes:,} bytes, so its tensors have no addresses; next:"
                f" egrl allocate {run}",
            )
    return memories


def _plan(run: str, output: str, problem: str, to: str, others: Mapping[str, object]) -> int:
    """Write the best mapping of a run as a plan that another compiler applies."""
    from egrl.core import atomic
    from egrl.runs.export import find_export
    from egrl.runs.past_run import PastRun

    for flag, value in others.items():
        if value is not None:
            raise InputError(f"{flag}: expected without --to {to}, found both")
    export = find_export(to)
    past, path = PastRun.read(Path(run), problem), Path(output)
    found = export(past)
    about = past.problem.about
    if isinstance(found, str):
        output_file(output, ".json")
        atomic.write_named(path, found)
        click.echo(f"{output}: {about.workload} on {about.chip}, a plan for {to}")
        return 0
    if not isinstance(found, Mapping) or not found:
        raise InputError(
            f"--to {to}: expected the text of a file, or of several, found {type(found).__name__}"
        )
    if path.suffix or path.is_file():
        raise InputError(f"--output {output}: expected a folder for the files of --to {to}, found a file")
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--output {output}: expected a folder that can be made: {error.strerror}"
        ) from error
    for name, text in found.items():
        output_file(str(path / name), ".json")
        atomic.write_named(path / name, text)
    click.echo(f"{output}: {about.workload} on {about.chip}, for {to}: {', '.join(found)}")
    return 0


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
def allocate_command(
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
    from egrl.core import atomic, mapping_file
    from egrl.runs import export
    from egrl.runs.peak import peaks
    from workloads.errors import RunFailure

    if align < 1 or align > 2**40 or seed < 0 or not (seconds >= 0 and math.isfinite(seconds)):
        raise InputError(
            "--align, --seconds, --seed: expected a number of bytes from 1 to 2^40, a time and a number not below 0,"
            f" found {align}, {seconds:g} and {seed}"
        )
    if output is not None:
        output_file(output)
    named = {"--workload": workload, "--mapping": mapping, "--problem": problem, "--chip": chip}
    subject, chosen, name = run_or_flags("allocate", run, named, settings)
    given = mapping_file.read_addresses(fixed, subject.space) if fixed is not None else {}
    memories = export.allocate(subject, chosen, align, seconds, seed, given, fixed or "")
    report = export.document(subject, name, memories, align, peaks(subject, chosen))
    if output is None and run is not None:
        output = str(Path(run) / f"{export.FILE}.{form or 'json'}")
    if output is not None:
        text = export.csv_of(report) if form == "csv" else json.dumps(report, indent=1) + "\n"
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
    slowest = report["memories"][0]["memory"]
    cells: list[Sequence[str]] = [head]
    for memory in reversed(report["memories"]):
        fits = "yes" if memory["packed"] else f"no, by {memory['over_bytes']:,} bytes: {memory['verdict']}"
        numbers = (memory[key] for key in ("tensors", "fullest_bytes", "height_bytes", "capacity_bytes"))
        cells.append((memory["memory"], *(f"{number:,}" for number in numbers), fits))
    lines = [
        *aligned(cells, (0, len(head) - 1)),
        f"{report['workload']} on {report['chip']}, {report['mapping']}: sizes in bytes, offsets in multiples of"
        f" {report['align_bytes']}",
        *(peak["text"] for peak in reversed(report["peaks"]) if peak["memory"] != slowest),
    ]
    return "\n".join(lines if output is None else [*lines, f"written: {output}"])
