"""TAG's experiments: best plan against search time, for TAG, dynamic programming, UCT and random completions.

Source: TAG (de Mesmay et al., ICML 2009): the abstract's claims and section 3; the text at hand ends in section 4.1, so
that the paper's own figures and numbers are not compared.

Deviations (the report says them, too): the library is this package's own, `hwsim/fft`, not Spiral's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from egrl import atomic
from egrl.reproduce.folder import remember, save_figure
from egrl.reproduce.tag_runs import Run, distinct, race, search
from egrl.stopping import Interrupted
from egrl.types import RunFailure

Say = Callable[[str], None]
STARTING_S = 5.0
"""Seconds of a run that are not its search."""

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "tag": ("tag", {}),
    "dp": ("greedy-dp", {"parallel": 1}),
    "uct": ("uct", {}),
    "random": ("random", {"draw": "derivation"}),
}
"""Label -> method and its settings."""


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        sizes: of the DFTs.
        methods: labels of METHODS.
        seconds: of searching, a run, the compiling of codelets included.
        first_pass_seconds: what dynamic programming may take until its first pass ends.
        evaluations: a run's most.
        seeds: of each run.
        rounds: of the race at the end, in which every plan that was a run's best for a time is timed, in turn.
    """

    sizes: tuple[int, ...] = field(default=(*(1 << k for k in range(4, 21)), 360, 1000, 1155, 5040, 10007))
    methods: tuple[str, ...] = tuple(METHODS)
    seconds: float = 120.0
    first_pass_seconds: float = 1200.0
    evaluations: int = 5000
    seeds: int = 5
    rounds: int = 25

    @staticmethod
    def quick() -> Plan:
        """Three sizes, briefly: it shows that and how it works, not what it reaches."""
        return replace(Plan(), sizes=(64, 256, 1000), seconds=5.0, first_pass_seconds=30.0, seeds=2, rounds=9)

    @staticmethod
    def middling() -> Plan:
        """What is kept in docs/results/tag.md."""

        return replace(Plan(), sizes=(256, 1024, 4096), seconds=25.0, first_pass_seconds=120.0, seeds=3)


def runs_of(plan: Plan) -> list[Run]:
    """Every search of a plan; seeds outermost, so that slow hours of a machine fall on all methods."""
    return [
        Run(
            size,
            label,
            METHODS[label][0],
            METHODS[label][1],
            seed,
            plan.seconds,
            plan.evaluations,
            plan.first_pass_seconds,
        )
        for size in plan.sizes
        for seed in range(plan.seeds)
        for label in plan.methods
    ]


def seconds(plan: Plan, workers: int) -> float:
    """About how long it takes at most."""
    total = sum(
        STARTING_S + (max(run.seconds, run.first_pass_seconds) if run.label == "dp" else run.seconds)
        for run in runs_of(plan)
    )
    return total / workers + len(plan.sizes) * STARTING_S


def reproduce(plan: Plan, out: Path, workers: int, say: Say) -> Path:
    """Run what is missing in `out`, draw the figures, and write report.md. Returns its path.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    for folder in (out / "figures", out / "runs", out / "races"):
        atomic.make_folder(folder)
    remember(plan, out)
    try:
        _search(plan, out, workers, say)
        documents = {key: json.loads(run.path(out).read_text()) for key, run in by_key(plan).items()}
        results: dict[str, Any] = {"plan": asdict(plan), "at_once": workers, "sizes": {}}
        for size in plan.sizes:
            results["sizes"][str(size)] = _size(plan, size, documents, out, say)
    except KeyboardInterrupt:
        raise Interrupted(out, None, again="the same command goes on") from None
    _draw(plan, documents, results, out / "figures")
    atomic.write(out / "results.json", json.dumps(results, indent=1) + "\n")
    from egrl.reproduce.tag_report import report

    path = out / "report.md"
    atomic.write(path, report(results))
    return path


Key = tuple[int, str, int]
"""Size, label and seed of a run."""


def by_key(plan: Plan) -> dict[Key, Run]:
    """The searches of a plan by size, label and seed."""
    return {(run.size, run.label, run.seed): run for run in runs_of(plan)}


def _search(plan: Plan, out: Path, workers: int, say: Say) -> None:
    missing = [run for run in runs_of(plan) if not run.path(out).is_file()]
    if not missing:
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), max_tasks_per_child=1) as pool:
        waiting = {pool.submit(search, run, str(run.path(out))): run for run in missing}
        try:
            for done, future in enumerate(as_completed(waiting), 1):
                run = waiting[future]
                try:
                    future.result()
                except (OSError, RuntimeError) as error:
                    raise RunFailure(f"{run.path(out).stem}: {error}") from error
                say(f"{done}/{len(missing)} {run.path(out).stem}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _size(
    plan: Plan, size: int, documents: Mapping[Key, Mapping[str, Any]], out: Path, say: Say
) -> dict[str, Any]:
    """What all runs of one size say, and the race of their plans."""
    from hwsim.fft.default import default_plan
    from hwsim.fft.grammar import count

    found = {label: [documents[size, label, seed] for seed in range(plan.seeds)] for label in plan.methods}
    texts = [step[2] for runs in found.values() for run in runs for step in run["steps"]]
    default = str(default_plan(size))
    path = out / "races" / f"dft-{size}.json"
    if not path.is_file():
        say(f"racing {len(distinct([*texts, default]))} plans of {size} points")
        atomic.write(path, json.dumps(race(size, distinct([*texts, default]), plan.rounds)) + "\n")
    return {
        "plans": str(count(size)),
        "default": default,
        "race": json.loads(path.read_text()),
        "methods": {label: [_run(run) for run in runs] for label, runs in found.items()},
    }


def _run(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the report needs of one run: which plans were the best so far, and when."""
    steps, first = document["steps"], document["first_pass"]
    return {
        "plan": steps[-1][2] if steps else "",
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
    from analysis.plan_tree import plan_figure
    from analysis.search_time import Growth, SearchCurve, growth_figure, search_figure

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
        for size in plan.sizes
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
