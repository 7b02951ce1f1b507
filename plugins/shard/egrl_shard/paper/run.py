"""The sharding contest again: every instance of a folder in the contest's seconds, by several methods and seeds.

Source: the contest on intra-operator parallelism, ASPLOS / EuroSys 2025: its scores, its time limits.

Deviations (the report says them, too): two threads of this machine stand for the contest's eight cores. Seconds are of
searching; reading the file and building the problem come before, as they had ten seconds of their own in the contest.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from egrl.core import atomic
from egrl.core.interrupts import Interrupted
from egrl.methods import find_method
from egrl.reproduction import Call, Paper, Say, in_processes, open_folder, write_report
from egrl_shard.paper import numbers
from egrl_shard.paper.plan import EXACT, STARTING_S, Plan
from egrl_shard.paper.report import report
from workloads.errors import RunFailure


@dataclass(frozen=True)
class Run:
    """A search and its folder."""

    instance: str
    method: str
    seed: int
    seconds: float
    path: str

    @property
    def finished(self) -> bool:
        """Whether it has run to its end."""
        file = Path(self.path) / "summary.json"
        return file.is_file() and json.loads(file.read_text())["complete"] is True


def search(run: Run) -> None:
    """Make a run anew, or go on with what is there of it. Called in a process of its own."""
    from egrl import api
    from egrl.runs.folder import CONFIG

    if (Path(run.path) / CONFIG).is_file():
        api.search(resume=run.path)
        return
    # Of the solver, each of whose few evaluations is something new, each is a row of metrics.
    # The bound is then known, and nothing is proved again for the summary; others have none.
    exact = run.method == EXACT
    api.search(
        run.instance,
        problem="shard",
        method=run.method,
        seed=run.seed,
        seconds=run.seconds,
        generation_evals=1 if exact else None,
        bound_seconds=1.0 if exact else 0.0,
        out=run.path,
    )


def seconds(plan: Plan, jobs: int) -> float:
    """About how long it takes at most."""
    runs = sum(plan.seeds_of(method) for method in plan.methods)
    return sum(runs * (plan.seconds(name) + STARTING_S) for name in plan.files()) / jobs


def reproduce(plan: Plan, out: Path, jobs: int, say: Say, workers: int = 1) -> Path:
    """Run what is missing in `out`, draw the figure, and write report.md. Returns its path.

    `jobs` runs at once; `workers` changes nothing, since nothing but the solver takes long.

    Raises:
        InputError: the folders hold something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    open_folder(plan, out)
    atomic.make_folder(out / "runs")
    results: dict[str, Any] = {"plan": asdict(plan), "at_once": jobs, "instances": {}}
    try:
        for name, file in plan.files().items():
            say(f"reading {name}")
            instance = numbers.read(file)
            served = {method: find_method(method).serves(instance.problem) for method in plan.methods}
            runs = [
                Run(
                    str(file),
                    method,
                    seed,
                    plan.seconds(name),
                    str(out / "runs" / name / f"{method}-s{seed}"),
                )
                for method in plan.methods
                if served[method] is None
                for seed in range(plan.seeds_of(method))
            ]
            _search(name, runs, jobs, say)
            results["instances"][name] = numbers.instance(plan, name, instance, served, out)
    except KeyboardInterrupt:
        raise Interrupted(out, None, again="the same command goes on") from None
    numbers.draw(plan, results, out)
    return write_report(results, out, report)


def _search(instance: str, runs: list[Run], jobs: int, say: Say) -> None:
    missing = [run for run in runs if not run.finished]
    calls = [Call(Path(run.path).name, search, (run,)) for run in missing]
    for done, (name, failure) in enumerate(in_processes(calls, jobs), 1):
        if failure is not None:
            raise RunFailure(f"{name}: {failure}")
        say(f"{instance}: {len(runs) - len(missing) + done}/{len(runs)} {name}")


PAPER = Paper(lambda quick: Plan.quick() if quick else Plan(), seconds, reproduce)
"""What `egrl reproduce` finds."""
