"""egrl reproduce: a paper's experiments again, with a report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from egrl.cli import flags
from egrl.cli.output import interrupted, sayer
from workloads.errors import InputError


class _Reproduce(click.Command):
    """A command that lists the papers when it is asked for help."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from egrl.reproduction import list_papers

        with formatter.section("Papers"):
            formatter.write_dl(list(list_papers().items()))


@click.command(
    name="reproduce", cls=_Reproduce, short_help="a paper's experiments again, published numbers beside ours"
)
@click.argument("paper")
@click.option("--quick", is_flag=True, help="small networks and budgets: minutes instead of hours")
@click.option(
    "--out",
    help="folder of runs, figures and report; an existing one goes on [reproduce-PAPER[-quick]]",
)
@click.option(
    "--instances",
    metavar="FOLDER",
    help="where the instances are, of a paper that does not ship them (.json, .json.gz)",
)
@click.option(
    "--share",
    type=click.FloatRange(0.001, 1.0),
    help="of the seconds that the paper has, where --instances is needed [1]",
)
@flags.use("jobs", "workers")
@flags.output("the plan and its results as one JSON document")
def command(
    paper: str,
    quick: bool,
    out: str | None,
    instances: str | None,
    share: float | None,
    jobs: int,
    workers: int,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run a paper's experiments and write OUT/report.md with figures, published numbers beside ours.

    egrl reproduce egrl --quick
    """
    from egrl.core.interrupts import Interrupted
    from egrl.reproduction import find_paper

    experiments = find_paper(paper)
    plan = experiments.plan(quick)
    if hasattr(plan, "instances") != (instances is not None):
        wanted = "a folder of instances" if instances is None else f"none for {paper}"
        raise InputError(f"--instances: expected {wanted}, found {instances or 'none'}")
    if instances is not None:
        plan = replace(plan, instances=instances, share=plan.share if share is None else share)
    elif share is not None:
        raise InputError(f"--share: expected none for {paper}, found {share:g}")
    folder = Path(out or f"reproduce-{paper}{'-quick' if quick else ''}")

    say = sayer("reproduce", quiet)
    minutes = experiments.seconds(plan, jobs) / 60
    say(
        f"about {minutes:.0f} minutes with {jobs} job{'s' if jobs > 1 else ''} at once, less what is already in"
        f" {folder}; Ctrl-C stops, the same command goes on"
    )
    try:
        report = experiments.reproduce(plan, folder, jobs, say, workers)
    except Interrupted as stop:
        return interrupted(quiet, stop)
    if as_json:
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        document = {"kind": "reproduction", "version": 1, "paper": paper, "report": str(report), **results}
        click.echo(json.dumps(document))
        return 0
    if not quiet:
        click.echo(f"report: {report}")
    return 0
