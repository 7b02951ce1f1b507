"""Commands: `egrl fits` says whether a training step fits in a memory, `egrl capture` makes a file of one."""

from __future__ import annotations

import json
from pathlib import Path

import click

from egrl.cli.output import OneOf, output_file
from egrl.runs.text import counted
from egrl_training.quiet import no_prints
from workloads.errors import InputError
from workloads.text import read_quantity

SECONDS = 20.0


@click.command(name="fits", short_help="whether a training step fits in memory, before it runs")
@click.argument("step")
@click.option("--memory", required=True, help='of the device, such as "24 GiB"')
@click.option(
    "--optimizer",
    default="adamw",
    show_default=True,
    help="whose state counts, too: sgd, sgd-momentum, any of torch.optim, or none",
)
@click.option(
    "--batch-dim", type=int, default=0, help="the dimension of the inputs that is the batch [0]", metavar="N"
)
@click.option("--flops", metavar="RATE", help='of the device, such as "300 TFLOP/s" [as measured here]')
@click.option("--bandwidth", metavar="RATE", help='of its memory, such as "2 TB/s" [as measured here]')
@click.option("--seconds", type=float, default=SECONDS, help="time limit of each search [20]")
@click.option(
    "--backend",
    type=OneOf(["aot_eager", "inductor"]),
    default="aot_eager",
    help="the backend of torch.compile that will run it [aot_eager]",
)
@click.option("--json", "as_json", is_flag=True, help="print one JSON document on stdout")
def fits(
    step: str,
    memory: str,
    optimizer: str,
    batch_dim: int,
    flops: str | None,
    bandwidth: str | None,
    seconds: float,
    backend: str,
    as_json: bool,
) -> int:
    """Say whether the training step that build() in a Python file makes fits in a memory: with every value kept, as
    PyTorch plans it, and with recomputation; and the largest batch of each. The file is run, but build() makes tensors
    without data, and no step runs. Exit code 1 if nothing fits.

    egrl fits step.py --memory "24 GiB"
    """
    rates = {
        "flops": _rate("--flops", flops, "FLOP/s", "300 TFLOP/s"),
        "Bps": _rate("--bandwidth", bandwidth, "B/s", "2 TB/s"),
    }
    from egrl_training.pytorch import fits as within
    from egrl_training.pytorch.estimates import Rates
    from egrl_training.pytorch.no_data import load_without_data

    function, inputs = load_without_data(step)
    with no_prints():  # of the solver
        answer = within.fits(
            function,
            inputs,
            memory,
            optimizer=optimizer,
            batch_dim=batch_dim,
            rates=Rates(**rates),
            seconds=seconds,
            name=Path(step).stem,
            backend=backend,
        )
    click.echo(json.dumps(answer.document(), allow_nan=False) if as_json else str(answer))
    return 0 if answer.fits else 1


@click.command(name="capture", short_help="a file of a training step, of a Python file that builds it")
@click.argument("model", metavar="STEP.py")
@click.option("-o", "--output", required=True, help="file of the step to write (.json)")
@click.option(
    "--backend",
    type=OneOf(["aot_eager", "inductor"]),
    default="aot_eager",
    help="the backend of torch.compile that will run it [aot_eager]",
)
@click.option("--json", "as_json", is_flag=True, help="print one JSON document: sizes")
def capture(model: str, output: str, backend: str, as_json: bool) -> int:
    """Make the file of a training step, for the problem training, of a Python file whose build() returns a loss
    function and its inputs. The file is run.

    egrl capture step.py -o step.json
    """
    from egrl.core import atomic
    from egrl_training.pytorch.capture import import_step
    from egrl_training.steps.json_file import to_json
    from workloads.text import size_text

    output_file(output, ".json")
    step = import_step(model, backend)
    atomic.write_named(Path(output), to_json(step))
    size = sum(step.values[number].size_bytes for number in step.candidates)
    document = {
        "kind": "import",
        "version": 1,
        "model": model,
        "workload": output,
        "name": step.name,
        "ops": len(step.ops),
        "values": len(step.candidates),
        "value_bytes": size,
        "seconds": sum(op.seconds for op in step.ops),
    }
    if as_json:
        click.echo(json.dumps(document, allow_nan=False))
    else:
        click.echo(
            f"{step.name}: {counted(len(step.ops), 'op')}, {document['seconds']:.3f} s one by one,"
            f" {counted(len(step.candidates), 'value')} to keep or compute again, {size_text(size)}"
        )
        click.echo(f"workload file: {output}")
    return 0


def _rate(flag: str, text: str | None, unit: str, example: str) -> float:
    """The number per second that a flag says; 0 if it is not given. InputError if it is none."""
    if text is None:
        return 0.0
    named = text.strip().upper().endswith(unit.upper())
    rate = read_quantity(f"{text.strip()[: -len(unit)]}B/s") if named else None
    if not rate or rate <= 0:
        raise InputError(f'{flag}: expected a rate such as "{example}", found {text!r}')
    return rate
