"""An export and a command: who works on what, and the least time that jobs take."""

import json

import click

from egrl.runs.past_run import PastRun
from egrl_balance.balance import Balance


def export(run: PastRun) -> str:
    """The jobs of each core, as JSON."""
    labels, nodes = run.problem.space.labels[0], run.problem.space.nodes
    cores = run.best_mapping()[:, 0]
    jobs = {label: [nodes[job] for job in (cores == core).nonzero()[0]] for core, label in enumerate(labels)}
    return json.dumps(jobs, indent=1) + "\n"


@click.command
@click.option("--workload", required=True, help="number of jobs")
@click.option("--chip", default="default", help="number of cores [4]")
def least(workload: str, chip: str) -> int:
    """Print a bound: no core can end before the longest job, nor all before their mean."""
    problem = Balance(workload, chip)
    seconds, cores = problem.seconds, len(problem.space.labels[0])
    click.echo(
        f"{workload} jobs on {cores} cores: at least {max(seconds.max(), seconds.sum() / cores):.3f} s"
    )
    return 0
