"""egrl export: the best mapping of a run, for other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egrl.cli import flags
from egrl.cli.flags import mapping_of
from egrl.cli.output import OneOf, output_file, remark
from egrl.runs.text import counted
from workloads.errors import InputError

if TYPE_CHECKING:
    from egrl.runs.allocation import PackedMemory
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
    help="a plan for that compiler: the exports of plug-ins",
)
@click.option(
    "--align", type=int, default=64, help="csv, onnx: every address is a multiple of this many bytes [64]"
)
@click.option("--fixed", help="csv, onnx: addresses to keep, as `egrl allocate` takes them")
@flags.use("problem_of_run")
def command(
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
    from egrl.runs.allocation import allocate
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
    output_file(output, ".json")
    past = PastRun.read(Path(run), problem)
    text = export(past)
    if not isinstance(text, str):
        raise InputError(f"--to {to}: expected the text of a file, found {type(text).__name__}")
    atomic.write_named(Path(output), text)
    about = past.problem.about
    click.echo(f"{output}: {about.workload} on {about.chip}, a plan for {to}")
    return 0
