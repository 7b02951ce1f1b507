"""egrl plot: figures from run folders."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import click

from egrl.cli.names import OneOf
from egrl.cli.output import output_file
from egrl.figures import FIGURES
from egrl.figures.drawing import Drawing
from workloads.errors import InputError

HELP = """Draw a figure from one or more run folders.

egrl plot curves runs/bert-egrl-s0-1 -o curves.png

\b
Figures:
"""


def _help() -> str:
    width = max(map(len, FIGURES))
    return HELP + "\n".join(f"  {name:<{width}}  {summary}" for name, (summary, _) in FIGURES.items())


@click.command(name="plot", short_help="draw figures from run folders", help=_help())
@click.argument("figure", type=OneOf(list(FIGURES)), metavar="FIGURE")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    help="file to write: .png, .svg or .pdf [RUN/FIGURE.png; of several runs FIGURE.png in this folder]",
)
@click.option("--json", "as_json", is_flag=True, help="print the numbers behind it as one JSON document")
def command(figure: str, runs: tuple[str, ...], output: str | None, as_json: bool) -> int:
    """Draw a figure and write it to a file."""
    from analysis import style
    from egrl.runs.past import PastRun

    path = None if output is None else output_file(output, *style.FORMATS)
    module = importlib.import_module(FIGURES[figure][1])
    read = getattr(module, "read", PastRun.read)
    drawing: Drawing = module.draw([read(Path(run)) for run in runs])
    if path is None:
        path = (Path(runs[0]) if len(runs) == 1 else Path()) / f"{figure}.png"
        click.echo(f"egrl plot: {path}", err=True)
    try:
        style.save(drawing.figure, path)
    except OSError as error:
        raise InputError(f"--output {path}: expected a file that can be written: {error.strerror}") from error
    for remark in drawing.remarks:
        click.echo(f"egrl plot: {remark}", err=True)
    if as_json:
        document = {"kind": "figure", "version": 1, "figure": figure, **drawing.numbers}
        click.echo(json.dumps(document, allow_nan=False))
    return 0
