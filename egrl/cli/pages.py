"""egrl plot, report and trace: what a run folder has, drawn."""

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
@click.option("--dark", is_flag=True, help="for a dark page")
@flags.use("baseline", "problem_of_runs")
@click.option("--json", "as_json", is_flag=True, help="print the numbers behind it as one JSON document")
def plot(
    figure: str,
    runs: tuple[str, ...],
    output: str | None,
    dark: bool,
    baseline: str,
    problem: str,
    as_json: bool,
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
    if dark:
        style.darken(drawing.figure)
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


@click.command(name="report", short_help="one page of a run, to open, send and print")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o", "--output", help="file to write [RUN/report.html; of several runs report.html in this folder]"
)
@flags.use("baseline")
@click.option("--open", "shows", is_flag=True, help="open it in the browser")
@flags.use("problem_of_runs")
def report(runs: tuple[str, ...], output: str | None, baseline: str, shows: bool, problem: str) -> int:
    """Write one HTML page that needs no network: what the best mapping gains, and where, op by op.

    \b
    egrl report runs/bert-egrl-s0-1 --open
    egrl report runs/bert-egrl-s0-1 runs/bert-ea-s0-1 -o compared.html
    egrl report explored
    """
    from egrl.core import atomic
    from egrl.figures import explore
    from egrl.report.page import PAGE, page_of, page_of_exploration
    from egrl.runs.past_run import PastRun

    path = (Path(runs[0]) if len(runs) == 1 else Path()) / PAGE
    if output is not None:
        path = output_file(output, ".html")
    if len(runs) == 1 and (Path(runs[0]) / explore.DOCUMENT).is_file():
        if baseline:
            raise InputError("--baseline: expected none, since an exploration has one baseline per chip")
        page = page_of_exploration(explore.read(Path(runs[0])))
    else:
        page = page_of([PastRun.read(Path(run), problem).over(baseline) for run in runs])
    atomic.write_named(path, page)
    click.echo(str(path))
    if shows:
        click.launch(path.resolve().as_uri())
    return 0


@click.command(name="trace", short_help="a run's best mapping over time, for Perfetto")
@click.argument("run")
@click.option("-o", "--output", help="file to write [RUN/trace.json]")
@flags.use("problem_of_run")
def trace_command(run: str, output: str | None, problem: str) -> int:
    """Write a Chrome trace: ops over time, one process per memory with its tensors, their addresses and copies.

    \b
    egrl trace runs/bert-egrl-s0-1 -o trace.json
    """
    from egrl.core import atomic
    from egrl.report.trace import trace
    from egrl.runs.past_run import PastRun

    path = Path(run) / "trace.json" if output is None else output_file(output, ".json")
    atomic.write_named(path, json.dumps(trace(PastRun.read(Path(run), problem)), allow_nan=False) + "\n")
    click.echo(str(path))
    return 0
