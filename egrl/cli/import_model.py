"""egrl import: a workload file from a model of another framework, a program file from what a compiler left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from egrl.cli.output import output_file, readable, remark
from egrl.runs.text import counted
from workloads.errors import InputError

if TYPE_CHECKING:
    from workloads.importers.read import Imported
    from workloads.programs.program import Program


@click.command(name="import", short_help="make a workload file of a model, a program file of a compiled one")
@click.argument("model")
@click.option("-o", "--output", required=True, help="workload or program file to write (.json)")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=NUMBER",
    help="size of a dimension that the model leaves open; several times",
)
@click.option(
    "--bytes",
    "element_bytes",
    type=float,
    help="bytes per element of weights and activations, whatever the file says [the file's]",
)
@click.option(
    "--no-fuse", is_flag=True, help="make every node an op, with no element-wise tails in the ops before them"
)
@click.option(
    "--allow-unknown",
    is_flag=True,
    help="take ops of unknown work as memory traffic alone, even if they could multiply matrices or have more than 5%"
    " of all bytes",
)
@click.option(
    "--weights-once",
    is_flag=True,
    help="count the weights of recurrent ops and loops as read once, not in every step: for hardware that keeps them"
    " where it multiplies",
)
@click.option(
    "--boundary-aliases",
    is_flag=True,
    help="programs: a donated parameter and the result in its memory share a place in the game, too",
)
@click.option(
    "--json", "as_json", is_flag=True, help="print one JSON document: sizes, remarks, nodes of each op"
)
def command(
    model: str,
    output: str,
    dims: tuple[str, ...],
    element_bytes: float | None,
    no_fuse: bool,
    allow_unknown: bool,
    weights_once: bool,
    boundary_aliases: bool,
    as_json: bool,
) -> int:
    """Make a workload file of a model: ONNX (.onnx, .onnx.gz) or an exported PyTorch program (.pt2); or a program file,
    for the problem mmap, of a compiled program that a plug-in reads; or an instance file, for the problem mcm, of a
    profiled placement instance (.json, .json.gz).

    egrl import model.onnx -o model.json --dim batch=1
    """
    from workloads.files import MODELS
    from workloads.importers import dimensions
    from workloads.importers.read import read
    from workloads.load import reads_program
    from workloads.load_partition import ENDINGS

    of_models = {"--dim": bool(dims), "--bytes": element_bytes is not None, "--no-fuse": no_fuse}
    of_models["--weights-once"] = weights_once
    unpriced = {"--boundary-aliases": boundary_aliases, "--allow-unknown": allow_unknown}
    placement, compiled = model.lower().endswith(ENDINGS), reads_program(model)
    if not model.lower().endswith(MODELS) and not compiled and not placement:
        raise InputError(
            f"{model}: expected a file ending in .onnx, .onnx.gz or .pt2 (a model), in {' or '.join(ENDINGS)}"
            " (a placement instance), or as a plug-in's programs do"
        )
    output_file(output, ".json")
    if placement:
        _refuse(of_models | unpriced, "a placement instance")
        return _instance(model, output, as_json)
    if compiled:
        _refuse(of_models, "a program, whose sizes are as compiled")
        return _program(model, output, boundary_aliases, allow_unknown, as_json)
    _refuse({"--boundary-aliases": boundary_aliases}, "a model", "a compiled program")
    if element_bytes is not None and not 1 / 64 <= element_bytes <= 64:
        raise InputError(f"--bytes {element_bytes:g}: expected a number of bytes an element from 1/64 to 64")
    imported = read(model, dimensions.parse(dims), element_bytes, not no_fuse, allow_unknown, weights_once)
    return _workload(imported, model, output, as_json)


def _refuse(flags: Mapping[str, bool], found: str, wanted: str = "a model") -> None:
    """InputError naming the first flag that is set: it is for `wanted`, and something else was found."""
    given = next((flag for flag, on in flags.items() if on), None)
    if given is not None:
        raise InputError(f"{given}: expected with {wanted}, found with {found}")


def _workload(imported: Imported, model: str, output: str, as_json: bool) -> int:
    """Write the workload file of a model and say what is in it."""
    from egrl.core import atomic
    from workloads.serialize import to_json

    atomic.write_named(Path(output), to_json(imported.workload))
    net = imported.workload
    for line in net.remarks:
        remark("import", line)
    document: dict[str, Any] = {
        "kind": "import",
        "version": 1,
        "model": model,
        "workload": output,
        "name": net.name,
        "ops": len(net),
        "parameters": net.parameters,
        "macs": net.macs,
        "weight_bytes": sum(op.weight_bytes for op in net),
        "activation_bytes": sum(op.output_bytes for op in net),
        "element_bytes": {"weight": net.element_bytes.weight, "activation": net.element_bytes.activation},
        "remarks": list(imported.remarks),
        "summary": imported.summary,
        "unknown_shapes": list(imported.unknown),
        "nodes": {name: list(nodes) for name, nodes in imported.nodes.items()},
    }
    if as_json:
        click.echo(json.dumps(document, allow_nan=False))
    else:
        nodes = sum(map(len, imported.nodes.values()))
        click.echo(
            f"{net.name}: {readable(imported.summary)}",
        )
        click.echo(
            f"from {counted(nodes, 'node')}: {document['weight_bytes'] / 1e6:.2f} MB of weights at"
            f" {net.element_bytes.weight:g} bytes an element, {document['activation_bytes'] / 1e6:.2f} MB of"
            f" activations at {net.element_bytes.activation:g}; on a chip its element_bytes count"
        )
        again = [op for op in net if op.steps > 1]
        if again:
            most = max(again, key=lambda op: op.steps)
            read = "reads its weights" if len(again) == 1 else "read their weights"
            click.echo(
                f"{counted(len(again), 'op')} {read} in every step ({readable(most.name)}: {most.steps} steps), from"
                " where these lie; --weights-once counts them once"
            )
        click.echo(f"workload file: {output}")
    return 0


def _instance(file: str, output: str, as_json: bool) -> int:
    from egrl.core import atomic
    from workloads.importers.placement_json import to_json
    from workloads.load_partition import read_instance

    instance = read_instance(file)
    if instance is None:
        raise InputError(
            f"{file}: expected a model, or a placement instance (nodes, edges); a workload file needs no import:"
            f" egrl run --workload {file}"
        )
    atomic.write_named(Path(output), to_json(instance))
    sizes = {"nodes": len(instance.nodes), "edges": len(instance.edges), "devices": instance.devices}
    if as_json:
        document = {"kind": "import", "version": 1, "model": file, "instance": output, "name": instance.name}
        click.echo(json.dumps({**document, **sizes}, allow_nan=False))
    else:
        made = "" if instance.devices is None else f", made for {counted(instance.devices, 'device')}"
        edges = counted(len(instance.edges), "edge")
        click.echo(f"{instance.name}: {counted(len(instance.nodes), 'node')}, {edges}{made}")
        click.echo(f"instance file: {output}")
    return 0


def _program(model: str, output: str, boundary_aliases: bool, allow_unknown: bool, as_json: bool) -> int:
    from workloads.load import read_program

    return write_program(read_program(model, boundary_aliases, allow_unknown), model, output, as_json)


def write_program(program: Program, model: str, output: str, as_json: bool) -> int:
    """Write a program file and say what is in it."""
    from egrl.core import atomic
    from workloads.load import describe
    from workloads.programs.json_file import to_json

    atomic.write_named(Path(output), to_json(program))
    for line in program.remarks:
        remark("import", line)
    sizes = describe(program)
    if as_json:
        document = {"kind": "import", "version": 1, "model": model, "program": output, "name": program.name}
        click.echo(json.dumps({**document, **sizes, "remarks": list(program.remarks)}, allow_nan=False))
    else:
        click.echo(
            f"{program.name}: {counted(sizes['buffers'], 'buffer')} of {counted(sizes['tensors'], 'tensor')},"
            f" {counted(sizes['instructions'], 'instruction')}, {sizes['flops'] / 1e9:.3f} GFLOP,"
            f" {sizes['bytes'] / 1e6:.2f} MB of traffic, {counted(sizes['alias_groups'], 'alias group')}"
        )
        click.echo(f"program file: {output}")
    return 0
