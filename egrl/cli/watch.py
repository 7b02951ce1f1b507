"""egrl watch: the progress of running searches, from another terminal."""

from __future__ import annotations

import time
from pathlib import Path

import click

from workloads.errors import InputError


@click.command(name="watch", short_help="the progress of running searches, from another terminal")
@click.argument("runs", nargs=-1, required=True)
@click.option("--every", type=float, default=2.0, help="seconds between looks [2]")
@click.option("--once", is_flag=True, help="look once, and end")
def command(runs: tuple[str, ...], every: float, once: bool) -> int:
    """Show best speedup, bound, sources, boards and the time left of runs, until all are finished; Ctrl-C ends it.

    The column `by` says which sources had the best mapping, and in what share of the generations.

    \b
    egrl watch runs/bert-egrl-s0-1 runs/bert-ea-s0-1
    """
    from egrl.runs.watching import Watched, table_of

    if not 0.1 <= every <= 86400:
        raise InputError(f"--every: expected 0.1 to 86400 seconds, found {every:g}")
    watched = [Watched.read(Path(run)) for run in runs]
    while True:
        rows = table_of(watched)
        if not once:
            click.clear()
        click.echo(rows)
        if once or all(line.endswith("finished") for line in rows.splitlines()[1:]):
            return 0
        time.sleep(every)
