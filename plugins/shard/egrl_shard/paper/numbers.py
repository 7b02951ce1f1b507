"""What the runs of `egrl reproduce shard` say, as numbers and a figure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from egrl.core import mapping_file
from egrl.reproduction import save_figure
from egrl.runs.past_run import PastRun
from egrl.runs.summary import read_summary
from egrl_shard.judge import exact_cost
from egrl_shard.load import load_sharding
from egrl_shard.paper.plan import EXACT, Plan
from egrl_shard.paper.published import RESULTS
from egrl_shard.problem import Shard


@dataclass(frozen=True)
class Instance:
    """An instance, and the seconds that reading it took, the problem's tables and baseline included."""

    problem: Shard
    seconds: float


def read(file: Path) -> Instance:
    """The instance in a file. InputError as of `load_sharding`."""
    begun = time.perf_counter()
    problem = Shard(load_sharding(str(file)))
    return Instance(problem, time.perf_counter() - begun)


def instance(
    plan: Plan, name: str, given: Instance, served: Mapping[str, str | None], out: Path
) -> dict[str, Any]:
    """What all methods reached on an instance, beside what is published of it."""
    problem = given.problem
    sharding = problem.sharding
    return {
        "nodes": len(sharding),
        "edges": len(sharding.edge_nodes),
        "strategies": len(sharding.cost),
        "seconds": plan.seconds(name),
        "reading_seconds": given.seconds,
        "baseline": {"cost": problem.baseline.cost, "valid": not problem.judge(problem.baseline.mapping)},
        "published": asdict(RESULTS[name]) if name in RESULTS else None,
        "methods": {
            method: {
                "refused": served[method],
                "runs": [
                    _reached(problem, folder_of(out, name, method, seed))
                    for seed in range(plan.seeds_of(method))
                    if served[method] is None
                ],
            }
            for method in plan.methods
        },
    }


def folder_of(out: Path, name: str, method: str, seed: int) -> Path:
    """Where a run is."""
    return out / "runs" / name / f"{method}-s{seed}"


def _reached(problem: Shard, folder: Path) -> dict[str, Any]:
    """Of one run: the judge's cost of its best mapping (None where that is not valid), and what was proved.

    The judge is asked again here, so that a number of the report is never the kernels' alone.
    """
    summary = read_summary(folder)
    cost, best = None, summary["best"]
    if best is not None:
        mapping = mapping_file.read(str(folder / "best_mapping.json"), problem)
        if not problem.judge(mapping):
            cost = exact_cost(problem.sharding, mapping[:, 0].tolist())
    seconds, costs, bounds = _history(folder, problem.baseline.cost, summary["method"])
    return {
        "cost": cost,
        "bound": summary["bound"],
        "evaluations": summary["evaluations"],
        "seconds": summary["seconds"],
        "history": {"seconds": seconds, "cost": costs, "bound": bounds},
    }


def _history(
    folder: Path, baseline: float, method: str
) -> tuple[list[float], list[float | None], list[float | None]]:
    """Seconds, the best cost at each and the bound, at the rows of metrics at which one of them changed."""
    run = PastRun.read(folder)
    seconds, speedup = run.metrics("seconds", "best_speedup")
    cost = np.divide(baseline, speedup, out=np.full(len(speedup), np.nan), where=speedup > 0)
    bound = run.metrics("model_bound")[0] if method == EXACT else np.full(len(cost), np.nan)
    kept = list[tuple[float, float | None, float | None]]()
    for row in range(len(seconds)):
        now = (_number(cost[row]), _number(bound[row]))
        if not kept or now != kept[-1][1:] or row == len(seconds) - 1:
            kept.append((float(seconds[row]), *now))
    return [k[0] for k in kept], [k[1] for k in kept], [k[2] for k in kept]


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def draw(plan: Plan, results: Mapping[str, Any], out: Path) -> None:
    """Cost and bound over time, one panel per instance."""
    from egrl_shard.paper.progress import Panel, Progress, progress_figure

    panels = []
    for name, entry in results["instances"].items():
        curves = [
            Progress(
                method,
                np.array(run["history"]["seconds"]),
                np.array(run["history"]["cost"], np.float64),
                np.array(run["history"]["bound"], np.float64),
            )
            for method, found in entry["methods"].items()
            for run in found["runs"]
        ]
        published = entry["published"]
        levels = {} if published is None else {"best of the teams": float(published["best"])}
        panels.append(Panel(f"{name} ({entry['nodes']:,} nodes)", curves, levels))
    save_figure(progress_figure(panels), out / "figures" / "progress.png")
