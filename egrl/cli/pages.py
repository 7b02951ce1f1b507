"""egrl plot, report, trace and calibrate: what run folders have, drawn, told, over time, or as a chip file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from egrl.cli import flags
from egrl.cli.output import output_file, remark
from egrl.runs.config import MOST_WORKERS
from workloads.errors import InputError

MOST_FOLDS = 20
"""Parts of a cross-validation."""

HELP = """Draw a figure from one or more run folders.

egrl plot curves runs/bert-egrl-s0-1 -o curves.png

\b
Figures:
"""


class _Plot(click.Command):
    """A command that lists the figures when it is asked for help, and imports no plug-in before."""

    def format_help_text(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from egrl.figures import list_figures

        found = list_figures()
        width = max(len(str(figure["name"])) for figure in found)
        lines = [f"  {figure['name']!s:<{width}}  {figure['summary']}" for figure in found]
        self.help = HELP + "\n".join(lines)
        super().format_help_text(context, formatter)


@click.command(name="plot", cls=_Plot, short_help="draw figures from run folders", help=HELP)
@click.argument("figure", metavar="FIGURE")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    help="file to write: .png, .svg or .pdf [RUN/FIGURE.png; of several runs FIGURE.png in this folder]",
)
@flags.use("baseline", "problem_of_runs")
@click.option("--json", "as_json", is_flag=True, help="print the numbers behind it as one JSON document")
def plot(
    figure: str, runs: tuple[str, ...], output: str | None, baseline: str, problem: str, as_json: bool
) -> int:
    """Draw a figure and write it to a file."""
    from analysis import style
    from egrl.figures import find_figure
    from egrl.figures.repetitions import Drawing
    from egrl.runs import progress
    from egrl.runs.past_run import PastRun

    path = None if output is None else output_file(output, *style.FORMATS)
    found = find_figure(figure)
    read = found.read or (lambda folder, name: PastRun.read(folder, name).over(baseline))
    if found.read is not None and baseline:
        raise InputError(f"--baseline: expected none with plot {figure}, which has several baselines")
    with progress.compiling(quiet=False), progress.note_if_slow(f"drawing {figure}", quiet=False):
        drawing = found.draw([read(Path(run), problem) for run in runs])
    if not isinstance(drawing, Drawing):
        raise InputError(f"plot {figure}: expected a Drawing of it, found {type(drawing).__name__}")
    if path is None:
        name = figure.replace(":", "-")
        path = (Path(runs[0]) if len(runs) == 1 else Path()) / f"{name}.png"
        remark("plot", path)
    try:
        style.save(drawing.figure, path)
    except OSError as error:
        raise InputError(
            f"--output {path}: expected a file that can be written: {error.strerror or error}"
        ) from error
    for line in drawing.remarks:
        remark("plot", line)
    if as_json:
        document = {"kind": "figure", "version": 1, "figure": figure, **drawing.numbers}
        click.echo(json.dumps(document, allow_nan=False))
    return 0


@click.command(name="report", short_help="one page of a run, to open, send and print")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o", "--output", help="file to write [RUN/report.html; of several runs report.html in this folder]"
)
@flags.use("baseline")
@click.option("--open", "shows", is_flag=True, help="open it in the browser")
@flags.use("problem_of_runs")
def report(runs: tuple[str, ...], output: str | None, baseline: str, shows: bool, problem: str) -> int:
    """Write one HTML page that needs no network: what the best mapping gains, and where, op by op.

    \b
    egrl report runs/bert-egrl-s0-1 --open
    egrl report runs/bert-egrl-s0-1 runs/bert-ea-s0-1 -o compared.html
    egrl report explored
    """
    from egrl.core import atomic
    from egrl.report.page import PAGE, page_of, page_of_exploration
    from egrl.runs.folder import EXPLORATION
    from egrl.runs.past_run import PastRun

    path = (Path(runs[0]) if len(runs) == 1 else Path()) / PAGE
    if output is not None:
        path = output_file(output, ".html")
    if len(runs) == 1 and (Path(runs[0]) / EXPLORATION).is_file():
        if baseline:
            raise InputError("--baseline: expected none, since an exploration has one baseline per chip")
        from egrl.figures.curves import read_exploration

        page = page_of_exploration(read_exploration(Path(runs[0])))
    else:
        page = page_of([PastRun.read(Path(run), problem).over(baseline) for run in runs])
    atomic.write_named(path, page)
    click.echo(str(path))
    if shows:
        click.launch(path.resolve().as_uri())
    return 0


@click.command(name="trace", short_help="a run's best mapping over time, for Perfetto")
@click.argument("run")
@click.option("-o", "--output", help="file to write [RUN/trace.json]")
@flags.use("problem_of_run")
def trace_command(run: str, output: str | None, problem: str) -> int:
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
def calibrate_command(
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
