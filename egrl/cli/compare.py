"""egrl compare: several methods on several workloads, a run folder each, and a table of what they reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from egrl.cli import flags
from egrl.cli.output import interrupted, sayer
from egrl.core.contracts import Budget
from workloads.errors import InputError

EVALS = 4000
"""Evaluations of each run, where no budget is given."""


@click.command(name="compare", short_help="compare methods: a table and curves over seeds")
@flags.use("workloads")
@click.option("--methods", required=True, metavar="A,B,…", help="methods of `egrl list methods`")
@click.option("--seeds", type=click.IntRange(1), default=5, help="runs of each method: seeds 0, 1, … [5]")
@flags.budget(f"{EVALS} evaluations", "of each run")
@flags.use("problem")
@click.option(
    "--start",
    default=None,
    help="begin with: cold, compiler, rules, policy, exact, or a mapping FILE [compiler]",
)
@flags.use("baseline", "chip")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="problem.KEY=VALUE, or NAME.KEY=VALUE for the method called NAME",
)
@click.option("--preset", default="", metavar="paper", help="the paper's values")
@click.option("--threads", type=click.IntRange(1, 1024), default=1, help="threads of each run's learner [1]")
@click.option(
    "--out", required=True, help="folder of all runs and of the comparison; an existing one goes on"
)
@flags.use("jobs", "workers")
@flags.output("comparison.json")
def command(
    workloads: str,
    methods: str,
    seeds: int,
    out: str,
    jobs: int,
    gens: int | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run every method on every workload with the same seeds, start and budget, and compare what they reach.

    egrl compare --workload resnet50 --methods egrl,annealing,random --seeds 5 --evals 4000 --out comparison
    """
    from egrl.cli.output import several, several_workloads
    from egrl.compare import report as comparison_report
    from egrl.compare import statistics as comparison

    chosen = several(methods, "--methods")
    if "auto" in chosen:
        raise InputError(
            "--methods: expected names of `egrl list methods`, found 'auto', which is another for each problem"
        )
    folder = Path(out)
    limits = {"gens": gens, "evals": options["evals"], "seconds": options["seconds"]}
    given = {name: value for name, value in limits.items() if value is not None}
    options["evals"] = Budget.of(given or {"evals": EVALS}).evaluations

    document = comparison_report.compare(
        several_workloads(workloads, "--workload"),
        chosen,
        seeds,
        folder,
        options,
        jobs,
        sayer("compare", quiet),
    )
    if document is None:
        return interrupted(quiet)
    if as_json:
        click.echo(json.dumps(document))
    elif not quiet:
        click.echo(comparison.markdown(document), nl=False)
    comparison_report.check(document)
    return 0
