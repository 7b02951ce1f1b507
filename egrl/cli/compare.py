"""egrl compare: several methods on several workloads, a run folder each, and a table of what they reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from workloads.errors import InputError

EVALS = 4000
"""Evaluations of each run, where no budget is given."""


@click.command(name="compare", short_help="compare methods: a table and curves over seeds")
@click.option(
    "--workload",
    "workloads",
    required=True,
    metavar="W[,W2…]",
    help="workloads, sets of them or files",
)
@click.option("--methods", required=True, metavar="A,B,…", help="methods of `egrl list methods`")
@click.option("--seeds", type=click.IntRange(1), default=5, help="runs of each method: seeds 0, 1, … [5]")
@click.option("--evals", type=int, default=None, help=f"evaluations of each run [{EVALS}]")
@click.option(
    "--seconds", type=float, default=None, help="seconds of searching of each run, instead of --evals"
)
@click.option("--problem", default="nnpi", help="what a mapping costs; see `egrl list problems` [nnpi]")
@click.option("--start", default=None, help="begin with: cold, compiler, exact, or a mapping FILE [compiler]")
@click.option("--chip", default="", help="a chip of `egrl list chips`, or a chip file (.toml)")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="problem.KEY=VALUE, or NAME.KEY=VALUE for the method called NAME",
)
@click.option("--preset", default="", metavar="paper", help="the paper's values")
@click.option("--threads", type=click.IntRange(1, 1024), default=1, help="of each run's learner [1]")
@click.option("--out", required=True, help="folder of all runs and of the comparison; goes on where it is")
@click.option("--workers", type=click.IntRange(1), default=1, help="runs at once, a process each [1]")
@click.option("--quiet", is_flag=True, help="print nothing")
@click.option("--json", "as_json", is_flag=True, help="print comparison.json instead of the table")
def command(
    workloads: str,
    methods: str,
    seeds: int,
    out: str,
    workers: int,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run every method on every workload with the same seeds, start and budget, and compare what they reach.

    egrl compare --workload resnet50 --methods egrl,annealing,random --seeds 5 --evals 4000 --out comparison
    """
    from egrl.cli.names import several, several_workloads
    from egrl.compare import report as comparison_report
    from egrl.compare import statistics as comparison

    folder = Path(out)
    if options["evals"] is not None and options["seconds"] is not None:
        raise InputError("expected one of --evals and --seconds, found both")
    if options["evals"] is None:
        options["evals"] = EVALS

    def say(line: str) -> None:
        if not quiet:
            click.echo(f"egrl compare: {line}", err=True)

    document = comparison_report.compare(
        several_workloads(workloads, "--workload"),
        several(methods, "--methods"),
        seeds,
        folder,
        options,
        workers,
        say,
    )
    if document is None:
        if not quiet:
            click.echo("egrl: interrupted; the same command goes on", err=True)
        return 130
    if as_json:
        click.echo(json.dumps(document))
    elif not quiet:
        click.echo(comparison.markdown(document), nl=False)
    comparison_report.check(document)
    return 0
