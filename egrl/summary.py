"""summary.json: what a run reached, against its baseline and bound."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from egrl.archive import Archive
from egrl.config import Budget, RunConfig
from egrl.loop import SearchState
from hwsim.problem import Problem

KIND = "summary"
VERSION = 1


def is_complete(state: SearchState, budget: Budget) -> bool:
    """Whether the run did all it was asked to (a budget in seconds is complete once it has stopped by itself)."""
    return state.finished or (budget.generations is not None and state.generation >= budget.generations)


def summarise(
    config: RunConfig, problem: Problem, state: SearchState, archive: Archive, complete: bool
) -> dict[str, Any]:
    """The summary of a run on one problem. `gap` is best cost / bound - 1; null where either is unknown."""
    champion = state.champions[0]
    best: Mapping[str, Any] | None = None
    if champion is not None:
        best = {
            "reward": champion.reward,
            "speedup": champion.speedup,
            "cost": champion.cost,
            "unit": problem.unit,
            "valid": not problem.judge(champion.mapping),
            "source": champion.source,
            "evaluation": champion.ticket,
        }
    begun = time.monotonic()
    bound = problem.bound(config.run.bound_seconds) if config.run.bound_seconds > 0 else None
    bound_seconds = time.monotonic() - begun
    kept = min(len(archive), archive.window)
    return {
        "kind": KIND,
        "version": VERSION,
        "schema": VERSION,
        "problem": problem.name,
        "workload": problem.workload,
        "chip": problem.chip,
        "method": config.run.method,
        "start": config.run.start,
        "seed": config.run.seed,
        "generations": state.generation,
        "evaluations": len(archive),
        "seconds": round(state.seconds, 3),
        "complete": complete,
        "best": best,
        "baseline": {"cost": problem.baseline.cost, "rule": problem.baseline.name},
        "bound": None if bound is None else bound.cost,
        "bound_seconds": round(bound_seconds, 3),
        "gap": None if bound is None or champion is None else champion.cost / bound.cost - 1.0,
        "mappings": {"kept": kept, "dropped": len(archive) - kept},
        "fingerprint": problem.fingerprint(),
    }


def sentence(summary: Mapping[str, Any], folder: str) -> str:
    """The summary for people."""
    best, baseline = summary["best"], summary["baseline"]
    head = f"{summary['workload']} on {summary['chip']}, {summary['method']}: "
    count = f"{summary['generations']} generations, {summary['evaluations']} evaluations, {summary['seconds']:.0f} s"
    if best is None:
        return f"{head}no valid mapping found in {count}\nrun folder: {folder}"
    gap = "" if summary["gap"] is None else f", at most {summary['gap']:.2%} above the best possible"
    return (
        f"{head}{best['speedup']:.4f}x the compiler ({best['cost'] * 1e6:.1f} us against"
        f" {baseline['cost'] * 1e6:.1f} us), found by {best['source']}{gap}\n{count}\nrun folder: {folder}"
    )
