"""egrl trace: a run's best mapping on a time axis, for Perfetto."""

from __future__ import annotations

import json
from pathlib import Path

import click

from egrl.cli import flags
from egrl.cli.output import output_file


@click.command(name="trace", short_help="a run's best mapping over time, for Perfetto")
@click.argument("run")
@click.option("-o", "--output", help="file to write [RUN/trace.json]")
@flags.use("problem_of_run")
def command(run: str, output: str | None, problem: str) -> int:
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
