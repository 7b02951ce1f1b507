"""egrl reproduce: a paper's experiments again, with a report. They are in `papers/` of a clone."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import click

from egrl.cli import flags
from egrl.cli.names import OneOf
from egrl.cli.output import interrupted, sayer
from workloads.errors import InputError

PAPERS = ("mmap", "mcm", "tag", "egrl", "shard")
"""Names of the papers: each has a folder of `papers/`."""
ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds `egrl` and, in a clone, `papers`."""


@click.command(name="reproduce", short_help="a paper's experiments again, published numbers beside ours")
@click.argument("paper", type=OneOf(list(PAPERS)))
@click.option("--quick", is_flag=True, help="small networks and budgets: minutes instead of hours")
@click.option(
    "--out",
    help="folder of runs, figures and report; an existing one goes on [reproduce-PAPER[-quick]]",
)
@click.option(
    "--instances",
    metavar="FOLDER",
    help="where the instances of shard are (.json, .json.gz); needed for it alone",
)
@click.option(
    "--share",
    type=click.FloatRange(0.001, 1.0),
    help="what shard has of the contest's seconds; for it alone [1]",
)
@flags.jobs()
@flags.workers()
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

    module = experiments(paper)
    plan = module.Plan.quick() if quick else module.Plan()
    if hasattr(plan, "instances") != (instances is not None):
        wanted = "a folder of instances" if instances is None else f"none for {paper}"
        raise InputError(f"--instances: expected {wanted}, found {instances or 'none'}")
    if instances is not None:
        plan = replace(plan, instances=instances, share=plan.share if share is None else share)
    elif share is not None:
        raise InputError(f"--share: expected none for {paper}, found {share:g}")
    folder = Path(out or f"reproduce-{paper}{'-quick' if quick else ''}")

    say = sayer("reproduce", quiet)
    minutes = module.seconds(plan, jobs) / 60
    say(
        f"about {minutes:.0f} minutes with {jobs} job{'s' if jobs > 1 else ''} at once, less what is already in"
        f" {folder}; Ctrl-C stops, the same command goes on"
    )
    try:
        report = module.reproduce(plan, folder, jobs, say, workers)
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


def experiments(paper: str) -> ModuleType:
    """The module of a paper's experiments: `Plan`, `seconds` and `reproduce`.

    Raises:
        InputError: the package is installed without its repository.
    """
    if not (ROOT / "papers" / paper / "run.py").is_file():
        raise InputError(
            "egrl reproduce: expected a clone of the repository, found the installed package, which does not include"
            " the papers' experiments; clone the repository and run `pip install -e .` there"
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"papers.{paper}.run")
