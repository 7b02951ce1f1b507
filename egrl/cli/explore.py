"""egrl explore: the best latency and its proven bound over a grid of chip files."""

from __future__ import annotations

import json
from typing import Any

import click

from egrl.cli import flags
from egrl.cli.output import interrupted, sayer
from egrl.core.typed_tables import meanings
from egrl.exploration.grid import POINTS, SECONDS
from egrl.runs.config import RunOptions

MOST_ROWS = 30
"""Points that are printed; the file has all."""


@click.command(name="explore", short_help="what more memory or bandwidth would buy, with a proof")
@flags.use("workloads", "problem", "chip")
@click.option(
    "--vary",
    multiple=True,
    required=True,
    metavar="PATH=VALUES",
    help="a value of the chip file: PATH=LOW..HIGH, LOW..HIGH:POINTS, 'LOW..HIGH log' or A,B,C; once or twice",
)
@click.option(
    "--points", type=click.IntRange(2), default=POINTS, help=f"values of a range that does not say [{POINTS}]"
)
@click.option(
    "--seconds-per-point",
    type=float,
    default=SECONDS,
    help=f"time limit of a solve, in seconds [{SECONDS:g}]",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="seed of the solves [0]")
@flags.use("settings")
@click.option("--executor", default="local", help=meanings(RunOptions)["executor"] + " [local]")
@click.option("--ray-address", default="", help=meanings(RunOptions)["ray_address"])
@click.option("-o", "--out", required=True, help="folder of all points and figures; an existing one goes on")
@flags.use("workers")
@flags.output("explore.json")
def command(workloads: str, quiet: bool, as_json: bool, **options: Any) -> int:
    """Solve a workload on a grid of chip files: the best found, its proven bound, and what more is worth.

    \b
    egrl explore --workload bert --vary "memories.sram.capacity_bytes=1MiB..8MiB" -o explored
    egrl explore --workload bert --vary "memories.sram.capacity_bytes=1MiB..8MiB"
        --vary "memories.dram.bandwidth_Bps=50%..200%" --points 6 --workers 2 -o map
    """
    from egrl.cli.output import several_workloads
    from egrl.exploration import summary
    from egrl.exploration.explore import explore

    try:
        found = explore(several_workloads(workloads, "--workload"), say=sayer("explore", quiet), **options)
    except KeyboardInterrupt:
        return interrupted(quiet)
    if as_json:
        click.echo(json.dumps(found.document, allow_nan=False))
    elif not quiet:
        click.echo(summary.text_of(found.document, MOST_ROWS))
        click.echo(f"\nfigure, table and mappings: {options['out']}")
    return 0
