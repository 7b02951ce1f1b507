"""egrl calibrate: a chip file fitted to what runs measured."""

from __future__ import annotations

import json
from pathlib import Path

import click

from egrl.cli import flags
from egrl.cli.output import output_file
from egrl.runs.config import MOST_WORKERS
from workloads.errors import InputError

MOST_FOLDS = 20


@click.command(name="calibrate", short_help="a chip file fitted to what runs measured on a board")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o", "--output", required=True, help="the fitted chip file to write (.toml); it names the chip"
)
@click.option(
    "--measure",
    type=int,
    default=0,
    help="first measure this many further mappings, the most informative ones [0]",
)
@click.option("--evaluator", default="", help="with --measure: the command that measures, as of `egrl run`")
@click.option("--workers", type=int, default=1, help="with --measure: number of boards [1]")
@click.option("--folds", type=int, default=5, help="number of parts of the cross-validation; 0: none [5]")
@click.option("--seed", type=int, default=0, help="seed of the cross-validation, and of what is measured [0]")
@click.option("--figure", help="also draw predicted against measured: .png, .svg or .pdf")
@flags.use("problem_of_runs", "json")
def command(
    runs: tuple[str, ...],
    output: str,
    measure: int,
    evaluator: str,
    workers: int,
    folds: int,
    seed: int,
    figure: str | None,
    problem: str,
    as_json: bool,
) -> int:
    """Fit the chip file of one or more runs on a board to what they measured, and say how well it predicts.

    \b
    egrl calibrate runs/resnet50-twin-s0-1 runs/bert-twin-s0-1 -o mine.toml
    egrl run --workload gpt2 --chip mine.toml
    egrl calibrate runs/bert-twin-s0-1 -o mine.toml --measure 20 --evaluator "python board.py"

    Factors of single ops go into a file beside it, mine.ops.csv.
    """
    from analysis import style
    from egrl.calibrate.calibration import calibrate, drawing, is_worse, measure_some, text_of
    from egrl.calibrate.fit import networks
    from egrl.core import atomic
    from egrl.runs.past_run import PastRun

    path = output_file(output, ".toml")
    picture = None if figure is None else output_file(figure, *style.FORMATS, flag="--figure")
    if folds == 1 or not 0 <= folds <= MOST_FOLDS or seed < 0:
        raise InputError(
            f"--folds, --seed: expected 0 or 2 to {MOST_FOLDS} parts and a number not below 0, found {folds} and {seed}"
        )
    past = [PastRun.read(Path(run), problem) for run in runs]
    if (measure > 0) != bool(evaluator) or measure < 0 or not 1 <= workers <= MOST_WORKERS:
        raise InputError(
            f"--measure, --evaluator: expected a number of mappings and a command, or neither, and 1 to {MOST_WORKERS}"
            f" --workers, found {measure}, {evaluator!r} and {workers}"
        )
    measured = networks(past)
    if measure:
        measure_some(past, measured, measure, evaluator, workers, seed)
        measured = networks(past)
    found = calibrate(measured, path.stem, folds, seed)
    single = path.with_suffix(".ops.csv")
    atomic.write_named(path, found.text)
    atomic.write_named(single, found.single)
    if picture is not None:
        style.save(drawing(measured, found).figure, picture)
    report = {**found.document, "chip_file": str(path), "ops_file": str(single)}
    wrote = f"written: {path}, {single}" + ("" if picture is None else f", {picture}")
    following = (
        ""
        if is_worse(report)
        else f"\nnext: egrl run --workload {Path(runs[0]) / 'workload.json'} --chip {path} --method exact"
    )
    click.echo(json.dumps(report, allow_nan=False) if as_json else f"{text_of(report)}\n\n{wrote}{following}")
    return 0
