"""TAG's experiments: best plan against search time, for TAG, dynamic programming, UCT and random completions.

Source: TAG (de Mesmay et al., ICML 2009): the abstract's claims and section 3; the text at hand ends in section 4.1, so
that the paper's own figures and numbers are not compared.

Deviations (the report says them, too): the library is this package's own, `egrl_fft`, not Spiral's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from egrl.core import atomic
from egrl.core.interrupts import Interrupted
from egrl.reproduction import Call, Paper, Say, in_processes, open_folder, save_figure, write_report
from egrl_fft.paper.plan import GROWN, METHODS, STARTING_S, Plan
from egrl_fft.paper.report import report
from egrl_fft.paper.runs import Run, distinct, kept, race_to, search
from workloads.errors import InputError, RunFailure


def runs_of(plan: Plan) -> list[Run]:
    """Every search of a plan; seeds outermost, so that slow hours of a machine fall on all methods."""
    return [
        Run(
            size,
            label,
            METHODS[label][0],
            METHODS[label][1],
            seed,
            plan.seconds(size, label),
            plan.most(size, label),
            plan.first_pass_seconds,
        )
        for seed in range(plan.seeds)
        for size in plan.sizes
        for label in plan.methods
    ]


def seconds(plan: Plan, jobs: int) -> float:
    """About how long it takes at most."""
    total = sum(
        STARTING_S + (max(run.seconds, run.first_pass_seconds) if run.label == "dp" else run.seconds)
        for run in runs_of(plan)
    )
    return total / jobs + len(plan.sizes) * STARTING_S


def reproduce(plan: Plan, out: Path, jobs: int, say: Say, workers: int = 1) -> Path:
    """Run what is missing in `out`, draw the figures, and write report.md. Returns its path.

    `jobs` runs at once, with so many `workers` each.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    if workers > 1:
        raise InputError("--workers: expected 1: plans are timed one after the other, found more")
    open_folder(plan, out)
    for folder in (out / "runs", out / "races"):
        atomic.make_folder(folder)
    try:
        _search(plan, out, jobs, say)
        documents = {key: json.loads(run.path(out).read_text()) for key, run in by_key(plan).items()}
        results: dict[str, Any] = {"plan": asdict(plan), "at_once": jobs, "sizes": {}}
        for size in plan.sizes:
            results["sizes"][str(size)] = _size(plan, size, documents, out, say)
    except KeyboardInterrupt:
        raise Interrupted(out, None, again="the same command goes on") from None
    _draw(plan, documents, results, out / "figures")
    return write_report(results, out, report)


Key = tuple[int, str, int]
"""Size, label and seed of a run."""


def by_key(plan: Plan) -> dict[Key, Run]:
    """The searches of a plan by size, label and seed."""
    return {(run.size, run.label, run.seed): run for run in runs_of(plan)}


def _search(plan: Plan, out: Path, jobs: int, say: Say) -> None:
    missing = [run for run in runs_of(plan) if not run.path(out).is_file()]
    if not missing:
        return
    calls = [Call(run.path(out).stem, search, (run, str(run.path(out)), kept(out))) for run in missing]
    for done, (name, failure) in enumerate(in_processes(calls, jobs), 1):
        if failure is not None:
            raise RunFailure(f"{name}: {failure}")
        say(f"{len(runs_of(plan)) - len(missing) + done}/{len(runs_of(plan))} {name}")


def _size(
    plan: Plan, size: int, documents: Mapping[Key, Mapping[str, Any]], out: Path, say: Say
) -> dict[str, Any]:
    """What all runs of one size say, and the race of their plans."""
    from egrl_fft.default import default_plan
    from egrl_fft.grammar import count

    found = {label: [documents[size, label, seed] for seed in range(plan.seeds)] for label in plan.methods}
    texts = [text for runs in found.values() for run in runs for text in texts_of(run)]
    default = str(default_plan(size))
    path = out / "races" / f"dft-{size}.json"
    if not path.is_file():
        say(f"racing {len(distinct([*texts, default]))} plans of {size} points")
        call = Call(path.stem, race_to, (str(path), size, [*texts, default], plan.rounds, kept(out)))
        for name, failure in in_processes([call], 1):
            if failure is not None:
                raise RunFailure(f"racing {name}: {failure}")
    return {
        "plans": str(count(size)),
        "default": default,
        "race": json.loads(path.read_text()),
        "methods": {label: [_run(run) for run in runs] for label, runs in found.items()},
    }


def texts_of(document: Mapping[str, Any]) -> list[str]:
    """The plans of one run that race: those that were its best for a time, and the one that it named."""
    return [*(step[2] for step in document["steps"]), document["plan"]]


def _run(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the report needs of one run: which plans were the best so far, and when."""
    steps, first = document["steps"], document["first_pass"]
    return {
        "plan": document["plan"],
        "codelets": document["codelets"],
        "evaluations": len(document["cost"]),
        "seconds": document["seconds"][-1] if document["seconds"] else 0.0,
        "first_pass": first,
        "first_pass_seconds": document["seconds"][first - 1] if first else None,
        "exhausted": document["exhausted"],
        "failed": sum(cost is None for cost in document["cost"]),
        "steps": steps,
    }


def _draw(
    plan: Plan, documents: Mapping[Key, Mapping[str, Any]], results: Mapping[str, Any], figures: Path
) -> None:
    """Search time in seconds and evaluations; the subgraphs' growth; the tree of the best plan of each size."""
    from egrl_fft.paper.plan_tree import plan_figure
    from egrl_fft.paper.search_time import Growth, SearchCurve, growth_figure, search_figure

    for axis in ("seconds", "evaluations"):
        panels = {}
        for size in plan.sizes:
            panels[f"{size} points"] = [
                SearchCurve(
                    label,
                    [step[0 if axis == "seconds" else 1] for step in run["steps"]],
                    [median(results["sizes"][str(size)]["race"][step[2]]) * 1e6 for step in run["steps"]],
                    run[axis],
                )
                for label in plan.methods
                for run in results["sizes"][str(size)]["methods"][label]
                if run["steps"]
            ]
        name = "seconds of searching" if axis == "seconds" else "evaluations"
        save_figure(search_figure(panels, name), figures / f"search-{axis}.png")
    grown = [
        Growth(f"{label}, {size} points", documents[size, label, 0]["vertices"])
        for size in (*plan.sizes[:: max(1, len(plan.sizes) // GROWN)],)[:GROWN]
        for label in plan.methods
        if label in ("tag", "uct")
    ]
    if grown:
        save_figure(growth_figure(grown), figures / "growth.png")
    largest = results["sizes"][str(max(plan.sizes))]
    trees = {"default plan": largest["default"]}
    trees |= {label: fastest(largest, label) for label in plan.methods if fastest(largest, label)}
    save_figure(plan_figure(trees), figures / "plans.png")


def fastest(entry: Mapping[str, Any], label: str) -> str:
    """The plan of a method's runs that was fastest in the race; "" where none was found."""
    plans = [run["plan"] for run in entry["methods"][label] if run["plan"]]
    return min(plans, key=lambda plan: median(entry["race"][plan]), default="")


PAPER = Paper(lambda quick: Plan.quick() if quick else Plan(), seconds, reproduce)
"""What `egrl reproduce` finds."""
