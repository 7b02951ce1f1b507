"""Commands: `egrl executorch` makes a program file of what ExecuTorch plans, `egrl tflite` plans an arena."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egrl.cli.output import output_file
from egrl.runs.text import counted
from workloads.errors import InputError

if TYPE_CHECKING:
    from egrl_edge.tflite.plan import ArenaPlan


@click.command(name="executorch", short_help="a program file of what ExecuTorch plans for a model (.pt2)")
@click.argument("model")
@click.option("-o", "--output", required=True, help="program file to write (.json), for --problem banks")
@click.option(
    "--trust", is_flag=True, help="needed: PyTorch's loader may run code that the file holds; trust the file"
)
@click.option("--json", "as_json", is_flag=True, help="print one JSON document: sizes, remarks")
def executorch(model: str, output: str, trust: bool, as_json: bool) -> int:
    """Make the program file of an exported PyTorch program (.pt2), as ExecuTorch plans it, for the problem banks.

    egrl executorch model.pt2 --trust -o program.json
    """
    from egrl.cli.import_model import write_program
    from egrl_edge.executorch import import_program

    if not model.lower().endswith(".pt2"):
        raise InputError(f"{model}: expected an exported program (.pt2), found another file")
    output_file(output, ".json")
    return write_program(import_program(model, trust=trust), model, output, as_json)


@click.command(name="tflite", short_help="a plan of the arena of TensorFlow Lite Micro, in a copy of a model")
@click.argument("model")
@click.option("-o", "--output", help="copy of the model to write, with the plan (.tflite) [none]")
@click.option("--align", type=int, default=16, help="every offset is a multiple of this many bytes [16]")
@click.option("--seconds", type=float, default=10.0, help="time limit of the search [10]")
@click.option("--seed", type=int, default=0, help="seed of the search [0]")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document on stdout")
def tflite(model: str, output: str | None, align: int, seconds: float, seed: int, as_json: bool) -> int:
    """Give each tensor of a model of TensorFlow Lite (.tflite) an offset in its arena, and write a copy with the plan.

    egrl tflite model.tflite -o planned.tflite
    """
    from egrl.core import atomic
    from egrl_edge.tflite import model_file, plan

    if seed < 0 or not (seconds >= 0 and math.isfinite(seconds)):
        raise InputError(f"--seconds, --seed: expected numbers not below 0, found {seconds:g} and {seed}")
    if not 1 <= align <= 2**40 or align % plan.ALIGN_BYTES:
        raise InputError(f"--align: expected a multiple of {plan.ALIGN_BYTES} up to 2^40, found {align}")
    if output is not None:
        output_file(output, ".tflite")
        if Path(output).exists() and Path(model).exists() and Path(output).samefile(model):
            raise InputError(f"--output {output}: expected another file than the model, found the same")
    found = plan.plan(model_file.read(model), align, seconds, seed)
    if output is not None:
        atomic.write_named(Path(output), found.written())
    if as_json:
        click.echo(json.dumps({**found.document(), "model": model, "output": output}))
        return 0
    click.echo("\n".join(_lines(model, found, output)))
    return 0


def _lines(model: str, found: ArenaPlan, output: str | None) -> list[str]:
    """What is said of a plan."""
    limit = "no plan is lower" if found.proved else f"no plan is below {found.lowest_bytes:,}"
    lines = [f"{Path(model).name}: {len(found.model.arena)} tensors in {found.height_bytes:,} bytes; {limit}"]
    if left := found.model.left:
        lines.append(f"left to the runtime: {counted(left, 'tensor')} without a size or of other subgraphs")
    return lines if output is None else [*lines, f"written: {output}"]
