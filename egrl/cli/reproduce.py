"""egrl reproduce: a paper's experiments again, with a report."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from egrl.cli.names import OneOf
from egrl.reproduce import REPORTS


@click.command(name="reproduce", short_help="a paper's experiments again, published numbers beside ours")
@click.argument("paper", type=OneOf(list(REPORTS)))
@click.option("--quick", is_flag=True, help="small networks and budgets: minutes instead of hours")
@click.option(
    "--out",
    help="folder of runs, figures and report; goes on where it is [reproduce-PAPER[-quick]]",
)
@click.option("--workers", type=click.IntRange(1), default=1, help="runs at once, a process each [1]")
@click.option("--quiet", is_flag=True, help="say nothing on the way")
def command(paper: str, quick: bool, out: str | None, workers: int, quiet: bool) -> int:
    """Run a paper's experiments and write OUT/report.md with figures, published numbers beside ours.

    egrl reproduce egrl --quick
    """
    from egrl.core.stopping import Interrupted

    module = importlib.import_module(REPORTS[paper][1])
    plan = module.Plan.quick() if quick else module.Plan()
    folder = Path(out or f"reproduce-{paper}{'-quick' if quick else ''}")

    def say(line: str) -> None:
        if not quiet:
            click.echo(f"egrl reproduce: {line}", err=True)

    minutes = module.seconds(plan, workers) / 60
    say(
        f"about {minutes:.0f} minutes with {workers} worker{'s' if workers > 1 else ''}, less what is already in"
        f" {folder}; Ctrl-C stops, the same command goes on"
    )
    try:
        report = module.reproduce(plan, folder, workers, say)
    except Interrupted as stop:
        click.echo(f"egrl: {stop}", err=True)
        return 130
    if not quiet:
        click.echo(f"report: {report}")
    return 0
