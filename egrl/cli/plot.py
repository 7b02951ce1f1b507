"""egrl plot: figures from run folders."""

from __future__ import annotations

import json
from pathlib import Path

import click

from egrl.cli import flags
from egrl.cli.output import output_file, remark
from workloads.errors import InputError

HELP = """Draw a figure from one or more run folders.

egrl plot curves runs/bert-egrl-s0-1 -o curves.png

\b
Figures:
"""


class _Plot(click.Command):
    """A command that lists the figures when it is asked for help, and imports no plug-in before."""

    def format_help_text(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from egrl.figures import list_figures

        found = list_figures()
        width = max(len(str(figure["name"])) for figure in found)
        lines = [f"  {figure['name']!s:<{width}}  {figure['summary']}" for figure in found]
        self.help = HELP + "\n".join(lines)
        super().format_help_text(context, formatter)


@click.command(name="plot", cls=_Plot, short_help="draw figures from run folders", help=HELP)
@click.argument("figure", metavar="FIGURE")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    help="file to write: .png, .svg or .pdf [RUN/FIGURE.png; of several runs FIGURE.png in this folder]",
)
@flags.use("baseline", "problem_of_runs")
@click.option("--json", "as_json", is_flag=True, help="print the numbers behind it as one JSON document")
def command(
    figure: str, runs: tuple[str, ...], output: str | None, baseline: str, problem: str, as_json: bool
) -> int:
    """Draw a figure and write it to a file."""
    from analysis import style
    from egrl.figures import find_figure
    from egrl.figures.repetitions import Drawing
    from egrl.runs import progress
    from egrl.runs.past_run import PastRun

    path = None if output is None else output_file(output, *style.FORMATS)
    found = find_figure(figure)
    read = found.read or (lambda folder, name: PastRun.read(folder, name).over(baseline))
    if found.read is not None and baseline:
        raise InputError(f"--baseline: expected none with plot {figure}, which has several baselines")
    with progress.compiling(quiet=False), progress.note_if_slow(f"drawing {figure}", quiet=False):
        drawing = found.draw([read(Path(run), problem) for run in runs])
    if not isinstance(drawing, Drawing):
        raise InputError(f"plot {figure}: expected a Drawing of it, found {type(drawing).__name__}")
    if path is None:
        name = figure.replace(":", "-")
        path = (Path(runs[0]) if len(runs) == 1 else Path()) / f"{name}.png"
        remark("plot", path)
    try:
        style.save(drawing.figure, path)
    except OSError as error:
        raise InputError(
            f"--output {path}: expected a file that can be written: {error.strerror or error}"
        ) from error
    for line in drawing.remarks:
        remark("plot", line)
    if as_json:
        document = {"kind": "figure", "version": 1, "figure": figure, **drawing.numbers}
        click.echo(json.dumps(document, allow_nan=False))
    return 0
