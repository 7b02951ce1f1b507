"""Going on from a transferred policy: how many evaluations it saves against a search from scratch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from egrl import api
from egrl.core import typed_tables
from egrl.runs import folder as run_folder
from egrl.runs.past_run import course_of
from egrl.runs.policies import SavedPolicies
from egrl.runs.resume import KINDS
from hwsim.problem import Problem

NEAR = 0.99
"""The share of the best from scratch that counts as near."""


def compare(
    source: SavedPolicies,
    workload: str,
    problem: Problem,
    evals: int,
    seed: int,
    workers: int,
    folder: Path,
    quiet: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Search a workload twice, from the deployed policy and from scratch, and count evaluations.

    Args:
        source: whose deployed policy, method and settings are used.
        workload: name or file of `problem`.
        problem: what is searched; its name, fingerprint, `seed` and the policy's generation name the folders.
        evals, seed, workers: of both searches.
        folder: gets a folder for each search, which goes on where it is.
        quiet: no progress.
        say: called with the name of each search that begins.

    Returns the numbers of `row`.
    """
    stem = f"{problem.about.workload}-{problem.fingerprint()[:8]}-s{seed}"
    scratch, tuned = folder / f"{stem}-scratch", folder / f"{stem}-from-generation-{source.chosen}"
    for what, path, init in (
        ("from the policy", tuned, str(source.deployed.path)),
        ("from scratch", scratch, ""),
    ):
        say(f"{problem.about.workload}, {what}")
        _search(source, workload, evals, seed, workers, init, path, quiet)
    return {"workload": problem.about.workload, "seed": seed, **row(tuned, scratch, evals)}


def row(finetuned: Path, scratch: Path, evals: int) -> dict[str, Any]:
    """What the first `evals` evaluations of two run folders say.

    `scratch` and `finetuned` are the best speedups; `scratch_evaluations` those that scratch needed for its best,
    `finetuned_evaluations` those that fine-tuning needed to be as good, null where it was not; `saved` is their
    difference. `near` has the same three for `NEAR` of scratch's best.
    """
    curves = {path: [point for point in _curve(path) if point[0] <= evals] for path in (finetuned, scratch)}
    goal = curves[scratch][-1][1]

    def needed(share: float) -> dict[str, int | None]:
        reached = [
            next((e for e, best in curves[path] if best >= share * goal), None)
            for path in (scratch, finetuned)
        ]
        before, after = reached
        saved = None if before is None or after is None else before - after
        return {"scratch_evaluations": before, "finetuned_evaluations": after, "saved": saved}

    return {
        "evaluations": curves[scratch][-1][0],
        "scratch": goal,
        "finetuned": curves[finetuned][-1][1],
        **needed(1.0),
        "near": needed(NEAR),
    }


def _search(
    source: SavedPolicies,
    workload: str,
    evals: int,
    seed: int,
    workers: int,
    init: str,
    path: Path,
    quiet: bool,
) -> None:
    """Search as far as it is missing: what a folder has beyond `evals` is left alone."""
    if (path / run_folder.METRICS).is_file() and _curve(path)[-1][0] >= evals:
        return
    if (path / run_folder.CONFIG).is_file():
        named = {"problem": source.problem, "method": source.method}
        again: dict[str, Any] = {
            name: named[name] for name, kind in KINDS.items() if kind.refers(named[name])
        }
        api.search(
            resume=path, evals=evals, workers=workers, quiet=quiet, settings=source.code_settings(), **again
        )
        return
    tables = {"problem": source.settings, "method": source.method_settings}
    settings = [f"{key}={json.dumps(value)}" for key, value in typed_tables.dotted_keys(tables).items()]
    api.search(
        workload,
        out=path,
        settings=settings,
        quiet=quiet,
        problem=source.problem,
        chip=source.chip,
        method=source.method,
        init=init,
        evals=evals,
        seed=seed,
        workers=workers,
        start="cold",
    )


def _curve(path: Path) -> list[tuple[int, float]]:
    """(evaluations, best speedup so far) a generation."""
    course = course_of(path, {})
    return list(zip(course.evaluations.tolist(), course.best.tolist(), strict=True))
