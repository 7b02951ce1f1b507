"""egrl simplify: the fewest changes of the baseline's mapping that keep most of the gain."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import click

from egrl.cli import flags
from egrl.cli.flags import run_or_flags
from egrl.cli.output import output_file, remark
from egrl.runs.folder import CONFIG
from workloads.errors import InputError


def share_of(text: str) -> float:
    """A share as 95% or 0.95. InputError if it is neither, or not above 0 and at most 1."""
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100.0 if number.endswith("%") else 1.0)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise InputError(f"--keep: expected a share of the gain such as 95%, found {text!r}")
    return share


@click.command(name="simplify", short_help="the fewest changes that keep most of the gain")
@click.argument("run", required=False)
@click.option("--keep", default="95%", help="the share of the gain that is kept [95%]")
@flags.use("own_workload")
@click.option("--mapping", help="another mapping file than RUN's best, or best-known")
@flags.use("own_problem", "own_chip", "own_settings", "baseline")
@click.option(
    "--evals",
    type=click.IntRange(1),
    help="evaluations of the model [some seconds: fewer for larger networks]",
)
@click.option("-o", "--output", help="file to write the mapping to [RUN/simplified_mapping.json]")
@flags.use("json")
def command(
    run: str | None,
    keep: str,
    workload: str | None,
    mapping: str | None,
    problem: str | None,
    chip: str | None,
    settings: tuple[str, ...],
    baseline: str,
    evals: int | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Find the fewest changes of the baseline's mapping that keep a share of what a run's best one gains, and write
    the mapping that has them.

    Costs are those of the chip file's model, also of a run on a board: measure the mapping there before you ship it.

    \b
    egrl simplify runs/bert-egrl-s0-1
    egrl simplify runs/bert-egrl-s0-1 --keep 99% -o small.json
    egrl simplify --workload bert --mapping best-known --baseline mine.csv
    """
    from egrl.core import atomic, mapping_file
    from egrl.runs import progress, simplified
    from egrl.runs.folder import SIMPLIFIED
    from hwsim.fewest import evaluations

    share = share_of(keep)
    if output is not None:
        output_file(output, ".json")
    named = {"--workload": workload, "--mapping": mapping, "--problem": problem, "--chip": chip}
    subject, best, _ = run_or_flags("simplify", run, named, settings, baseline)
    with progress.note_if_slow("searching for fewer changes", as_json):
        found = simplified.simplify(subject, best, share, evals or evaluations(subject))
        document = found.document()
    if output is None and run is not None:
        output = str(Path(run) / SIMPLIFIED)
    if output is not None:
        atomic.write_named(Path(output), mapping_file.dumps(subject, found.mapping))
        document["written"] = output
    click.echo(json.dumps(document, allow_nan=False) if as_json else _text(document))
    if run is not None and found.gains and (line := _measured(Path(run), problem or "", str(output))):
        remark("simplify", line)
    return 0


def _text(document: dict[str, Any]) -> str:
    from egrl.runs import simplified

    written = f"\nwritten: {document['written']}" if "written" in document else ""
    return simplified.text_of(document) + written


def _measured(run: Path, problem: str, written: str) -> str:
    """For a run that was measured: that the model chose, and the command that measures what it chose; else ""."""
    from egrl.measure.config import PYTHON, REPORTED
    from egrl.runs.past_run import PastRun

    evaluator = PastRun.read(run, problem).options.evaluator
    if not evaluator:
        return ""
    said = "by the chip file's model, not measured; on the board"
    if evaluator == REPORTED or evaluator.startswith(PYTHON):
        return f"{said} measure it yourself"
    command = ["egrl", "run", "--config", str(run / CONFIG), "--start", written, "--evals", "1"]
    return f"{said}: {shlex.join([*command, '--method', 'random', '--evaluator', evaluator])}"
