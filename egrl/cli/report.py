"""egrl report: one HTML page of a run, of several, or of an exploration."""

from __future__ import annotations

from pathlib import Path

import click

from egrl.cli import flags
from egrl.cli.output import output_file
from workloads.errors import InputError


@click.command(name="report", short_help="one page of a run, to open, send and print")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o", "--output", help="file to write [RUN/report.html; of several runs report.html in this folder]"
)
@flags.use("baseline")
@click.option("--open", "shows", is_flag=True, help="open it in the browser")
@flags.use("problem_of_runs")
def command(runs: tuple[str, ...], output: str | None, baseline: str, shows: bool, problem: str) -> int:
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
