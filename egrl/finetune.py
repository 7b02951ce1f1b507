"""Going on from a transferred policy: how many evaluations it saves against a search from scratch."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egrl import api, run_folder
from egrl.saved_policies import SavedPolicies
from workloads.errors import InputError
from workloads.files import read_text


def compare(
    source: SavedPolicies, workload: str, name: str, evals: int, seed: int, folder: Path, quiet: bool
) -> dict[str, Any]:
    """Search a workload twice, from the deployed policy and from scratch, and count evaluations.

    Args:
        source: whose deployed policy, method and settings are used.
        workload: name or file; `name` is what its folders are called.
        evals, seed: of both searches.
        folder: gets `NAME-finetuned` and `NAME-scratch`, which go on where they are.
        quiet: no progress.

    Returns the numbers of `row`.
    """
    kinds = {"finetuned": str(source.deployed.path), "scratch": ""}
    found = {
        kind: _search(source, workload, evals, seed, init, folder / f"{name}-{kind}", quiet)
        for kind, init in kinds.items()
    }
    return {"workload": name, **row(found["finetuned"], found["scratch"])}


def row(finetuned: Path, scratch: Path) -> dict[str, Any]:
    """What two run folders say.

    `scratch` and `finetuned` are the best speedups; `scratch_evaluations` those that scratch needed for its best,
    `finetuned_evaluations` those that fine-tuning needed to be as good, null where it never was;
    `saved` is their difference.
    """
    curves = {path: _curve(path) for path in (finetuned, scratch)}
    goal = curves[scratch][-1][1]
    needed = {path: next((e for e, best in curves[path] if best >= goal), None) for path in curves}
    before, after = needed[scratch], needed[finetuned]
    return {
        "evaluations": curves[scratch][-1][0],
        "scratch": goal,
        "finetuned": curves[finetuned][-1][1],
        "scratch_evaluations": before,
        "finetuned_evaluations": after,
        "saved": None if before is None or after is None else before - after,
    }


def _search(
    source: SavedPolicies, workload: str, evals: int, seed: int, init: str, path: Path, quiet: bool
) -> Path:
    if (path / run_folder.CONFIG).is_file():
        api.search(resume=path, evals=evals, quiet=quiet)
        return path
    settings = [*_settings("problem", source.settings), *_settings("method", source.method_settings)]
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
        start="cold",
    )
    return path


def _settings(table: str, values: Mapping[str, Any]) -> list[str]:
    """Nested settings as `--set` takes them."""
    found = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += _settings(f"{table}.{key}", value)
        else:
            found.append(f"{table}.{key}={json.dumps(value)}")
    return found


def _curve(path: Path) -> list[tuple[int, float]]:
    """(evaluations, best speedup so far) a generation."""
    where = path / run_folder.METRICS
    try:
        rows = list(csv.DictReader(read_text(where, "the metrics of a run").splitlines()))
        return [(int(row["evaluations"]), float(row["best_speedup"])) for row in rows]
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{where}: damaged metrics: {error}") from error
