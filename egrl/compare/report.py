"""A comparison as a whole: its runs, what they reached, and the files that say so."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egrl.core.failure import RunFailure
from hwsim.capabilities import HasBestKnown, HasModel
from hwsim.problem import Problem
from workloads.errors import InputError

if TYPE_CHECKING:
    from egrl.compare.runs import Subject

DOCUMENT, TEXT = "comparison.json", "comparison.md"


def compare(
    workloads: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    folder: Path,
    options: Mapping[str, Any],
    at_once: int,
    say: Callable[[str], None],
) -> dict[str, Any] | None:
    """Run what is missing, and write comparison.json, comparison.md and the curves into the folder.

    Args:
        workloads, methods: of the runs; each with seeds 0 .. `seeds` - 1.
        folder: of all runs; what is finished there is not run again.
        options: problem, evals or seconds, chip, start ("" or None: the preset's), settings, preset; see
            `egrl compare`. Also `threads` and `workers` of each run [1], and `init`, a policy
            file that each begins with [""].
        at_once: runs at once.
        say: called with a line per run that ended.

    Returns comparison.json, in which failed runs stand by their messages (`check`); None where the user stopped it.
    Raises InputError where an option is wrong or the folder holds runs of another configuration.
    """
    from egrl.compare import statistics as comparison
    from egrl.compare.runs import budget_of, plan, run_all
    from egrl.core import atomic

    subjects = plan(workloads, methods, seeds, folder, options)
    jobs = [job for subject in subjects for job in subject.jobs]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out {folder}: expected a folder that can be written: {error.strerror}"
        ) from error
    failures, interrupted = run_all([job for job in jobs if job.argv], at_once, say)
    if interrupted:
        return None
    budget = budget_of(options)
    document = {
        "kind": "comparison",
        "version": 1,
        "methods": list(methods),
        "seeds": seeds,
        "evaluations": None if "seconds" in budget else options["evals"],
        "seconds": budget.get("seconds"),
        "start": subjects[0].start,
        "workloads": [report(subject, folder, failures) for subject in subjects],
    }
    atomic.write(folder / DOCUMENT, json.dumps(document, indent=1) + "\n")
    atomic.write(folder / TEXT, comparison.markdown(document))
    return document


def check(document: Mapping[str, Any]) -> None:
    """RunFailure where runs of a comparison failed."""
    failed = sum(len(entry["failed"]) for entry in document["workloads"])
    if failed:
        total = document["seeds"] * len(document["methods"]) * len(document["workloads"])
        raise RunFailure(f"{failed} of {total} runs failed; the same command tries them again")


def report(subject: Subject, folder: Path, failures: Mapping[Path, str]) -> dict[str, Any]:
    """A workload's part of comparison.json; its curves are written to curves-<workload>.png."""
    from analysis import style
    from analysis.curves import learning_curves
    from egrl.compare import statistics as comparison
    from egrl.core import atomic
    from egrl.figures.curves import read_curve
    from egrl.methods import find_method
    from egrl.runs import text
    from egrl.runs.summary import read_summary

    ended = [job.path for job in subject.jobs if job.path not in failures]
    summaries = [read_summary(path) for path in ended]
    curves = [read_curve(path, summary) for path, summary in zip(ended, summaries, strict=True)]
    runs = [
        comparison.run_of(summary, None if curve.deployable is None else curve.deployable.tolist())
        for summary, curve in zip(summaries, curves, strict=True)
    ]
    problem = subject.problem
    title = f"{problem.about.workload} on {problem.about.chip}"
    bound = max((s["bound"] for s in summaries if s["bound"] is not None), default=None)
    best_known = comparison.best_known_cost(runs, shipped_cost(problem))
    if curves:
        path = folder / f"curves-{subject.name}.png"
        try:
            fastest = None if bound is None else problem.baseline.cost / bound
            style.save(
                learning_curves(curves, title, fastest, problem.about.baseline_name, problem.about.evaluated),
                path,
            )
        except OSError as error:
            raise atomic.disk_failure(path, error) from error
    groups = {method: find_method(method).group for method in subject.methods}
    table = comparison.rows(runs, subject.methods, best_known, bound, groups)
    return {
        "workload": problem.about.workload,
        "problem": problem.about.name,
        "chip": problem.about.chip,
        "unit": problem.about.unit,
        text.TABLE: text.table_of(problem.about),
        "fingerprint": problem.fingerprint(),
        "baseline": problem.baseline.cost,
        "rule": problem.baseline.name,
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
