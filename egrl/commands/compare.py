"""egrl compare: several methods on several workloads, a run folder each, and a table of what they reached."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwsim.problem import HasBestKnown, HasModel, Problem
from workloads.errors import InputError

if TYPE_CHECKING:
    from egrl.comparison_runs import Subject


@click.command(name="compare", short_help="compare methods: a table and curves over seeds")
@click.option("--workload", "workloads", required=True, metavar="W[,W2…]", help="workloads or workload files")
@click.option("--methods", required=True, metavar="A,B,…", help="methods of `egrl list methods`")
@click.option("--seeds", type=click.IntRange(1), default=5, help="runs of each method: seeds 0, 1, … [5]")
@click.option("--evals", type=int, default=4000, help="evaluations of each run [4000]")
@click.option("--problem", default="nnpi", help="what a mapping costs; see `egrl list problems` [nnpi]")
@click.option("--start", default=None, help="begin with: cold, compiler, exact, or a mapping FILE [compiler]")
@click.option("--chip", default="", help="a chip of `egrl list chips`, or a chip file (.toml)")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="problem.KEY=VALUE, or NAME.KEY=VALUE for the method called NAME",
)
@click.option("--preset", default="", metavar="paper", help="the paper's values")
@click.option("--out", required=True, help="folder of all runs and of the comparison; goes on where it is")
@click.option("--workers", type=click.IntRange(1), default=1, help="runs at once, a process each [1]")
@click.option("--json", "as_json", is_flag=True, help="print comparison.json instead of the table")
def command(
    workloads: str,
    methods: str,
    seeds: int,
    out: str,
    workers: int,
    as_json: bool,
    **options: Any,
) -> int:
    """Run every method on every workload with the same seeds, start and budget, and compare what they reach.

    egrl compare --workload resnet50 --methods egrl,annealing,random --seeds 5 --evals 4000 --out comparison
    """
    from egrl import atomic, comparison
    from egrl.comparison_runs import plan, run_all
    from egrl.types import RunFailure

    folder = Path(out)
    subjects = plan(_names(workloads, "--workload"), _names(methods, "--methods"), seeds, folder, options)
    jobs = [job for subject in subjects for job in subject.jobs]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out}: expected a folder that can be written: {error.strerror}") from error
    failures, interrupted = run_all(
        [job for job in jobs if job.argv], workers, lambda line: click.echo(line, err=True)
    )
    if interrupted:
        click.echo("egrl: interrupted; the same command goes on", err=True)
        return 130
    document = {
        "kind": "comparison",
        "version": 1,
        "methods": _names(methods, "--methods"),
        "seeds": seeds,
        "evaluations": options["evals"],
        "start": subjects[0].start,
        "workloads": [report(subject, folder, failures) for subject in subjects],
    }
    text = comparison.markdown(document)
    atomic.write(folder / "comparison.json", json.dumps(document, indent=1) + "\n")
    atomic.write(folder / "comparison.md", text)
    click.echo(json.dumps(document) if as_json else text, nl=as_json)
    if failures:
        raise RunFailure(f"{len(failures)} of {len(jobs)} runs failed; the same command tries them again")
    return 0


def _names(text: str, flag: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise InputError(f"{flag}: expected different names with commas between, found {text!r}")
    return names


def report(subject: Subject, folder: Path, failures: Mapping[Path, str]) -> dict[str, Any]:
    """A workload's part of comparison.json; its curves are written to curves-<workload>.png."""
    from analysis import style
    from analysis.curves import learning_curves
    from egrl import atomic, comparison
    from egrl.figures.curves import read_curve
    from egrl.summary import read_summary

    ended = [job.path for job in subject.jobs if job.path not in failures]
    summaries = [read_summary(path) for path in ended]
    curves = [read_curve(path, summary) for path, summary in zip(ended, summaries, strict=True)]
    runs = [
        comparison.run_of(summary, None if curve.deployable is None else curve.deployable.tolist())
        for summary, curve in zip(summaries, curves, strict=True)
    ]
    problem = subject.problem
    title = f"{problem.workload} on {problem.chip}"
    bound = max((s["bound"] for s in summaries if s["bound"] is not None), default=None)
    best_known = comparison.best_known_cost(runs, shipped_cost(problem))
    if curves:
        path = folder / f"curves-{subject.name}.png"
        try:
            fastest = None if bound is None else problem.baseline.cost / bound
            style.save(learning_curves(curves, title, fastest), path)
        except OSError as error:
            raise atomic.disk_failure(path, error) from error
    table = comparison.rows(runs, subject.methods, best_known, bound)
    return {
        "workload": problem.workload,
        "problem": problem.name,
        "chip": problem.chip,
        "unit": problem.unit,
        "fingerprint": problem.fingerprint(),
        "baseline": problem.baseline.cost,
        "best_known": best_known,
        "bound": bound,
        "reference": comparison.reference_of(subject.methods),
        "rows": [dataclasses.asdict(row) for row in table],
        "runs": [dataclasses.asdict(run) for run in runs],
        "failed": [failures[job.path] for job in subject.jobs if job.path in failures],
    }


def shipped_cost(problem: Problem) -> float | None:
    """The cost of the best mapping that ships for the problem; None where there is none."""
    if not isinstance(problem, HasBestKnown) or not isinstance(problem, HasModel):
        return None
    mapping, _ = problem.best_known()
    return None if mapping is None else problem.model_cost(mapping)
