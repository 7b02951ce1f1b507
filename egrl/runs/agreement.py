"""Whether the numbers of a summary are those of the run: each follows from others, and from the run's own files."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egrl.measure.records import FILE
from egrl.runs import checkpoint, chunks
from egrl.runs.folder import CHECKPOINT, MAPPINGS, METRICS
from workloads.errors import InputError
from workloads.files import read_bytes, read_text

SAME = 1e-6
"""How much two costs of one mapping, or two texts of one number, may differ by rounding, relative."""


def check_agreement(run: Path, where: str, summary: Mapping[str, Any]) -> None:
    """InputError naming the first number that another one of the summary, or another file of its run, contradicts.

    What was measured again at the end is held to the summary alone. A folder may lack evaluations and checkpoints.
    """
    if "evaluator" in summary and not (run / FILE).is_file():
        raise InputError(f"{where}: evaluator: expected {FILE} beside it, found none")
    _check_counted(run, where, summary)
    if summary["best"] is not None:
        _check_best(run, where, summary)
    for gap, bound, formula in (
        ("gap", "bound", "best.cost / bound - 1"),
        ("reward_gap", "reward_bound", "reward_bound - best.reward"),
    ):
        _check_gap(where, summary, gap, bound, formula)


def _check_counted(run: Path, where: str, summary: Mapping[str, Any]) -> None:
    """InputError where the last checkpoint says something else of the run or of its files than is there."""
    counted = checkpoint.counted(run / CHECKPOINT)
    if not counted:
        return
    for name in ("method", "seed", "start", "generation_evals"):
        expected = counted["settings"].get(f"run.{name}")
        if expected is not None and summary.get(name, expected) != expected:
            raise InputError(
                f"{where}: {name}: expected that of the last checkpoint, {expected!r}, found {summary[name]!r}"
            )
    if summary["evaluations"] > counted["evaluations"]:
        raise InputError(
            f"{where}: evaluations: expected the {counted['evaluations']} of the last checkpoint at most, found"
            f" {summary['evaluations']}"
        )
    files = {METRICS: counted["metrics_sha256"]}
    files |= {f"{MAPPINGS}/{name}": digest for name, digest in counted["chunks"].items()}
    for name, digest in files.items():
        if (run / name).is_file():
            content = read_bytes(run / name, "a file of a run")
            begun = content[: counted["metrics_bytes"]] if name == METRICS else content
            if hashlib.sha256(begun).hexdigest() != digest:
                raise InputError(
                    f"{run / name}: expected what the last checkpoint counts, found another or a damaged file"
                )


def _check_best(run: Path, where: str, summary: Mapping[str, Any]) -> None:
    """InputError where the evaluation that is the best has other numbers, or a speedup does not follow from costs."""
    best = summary["best"]
    measured = "evaluator" in summary or summary.get("about", {}).get("measured", False)
    found = chunks.scalars(run / MAPPINGS, best.get("evaluation", -1))
    recorded = {name: best[name] for name in ("cost", "speedup", "reward")}
    is_recorded = found is not None and all(_same(found[name], recorded[name]) for name in recorded)
    if found is not None and not (measured or is_recorded):
        name = next(name for name in recorded if not _same(found[name], recorded[name]))
        raise InputError(
            f"{where}: best.{name}: expected that of evaluation {best['evaluation']} in {MAPPINGS}/,"
            f" {found[name]:.10g}, found {best[name]:.10g}"
        )
    over = summary["baseline"]["cost"] / best["cost"] if best["cost"] else math.nan
    if not (_same(over, best["speedup"]) or (measured and is_recorded)):
        raise InputError(
            f"{where}: best.speedup: expected baseline.cost / best.cost, {over:.10g}, found {best['speedup']:.10g}"
        )
    found_then = _speedup(run / METRICS, summary["evaluations"])
    if not measured and math.isfinite(found_then) and not _same(found_then, best["speedup"]):
        raise InputError(
            f"{run / METRICS}: best_speedup: expected that of {Path(where).name} after"
            f" {summary['evaluations']} evaluations, {best['speedup']:.10g}, found {found_then:.10g}"
        )


def _speedup(metrics: Path, evaluations: int) -> float:
    """The best in the row after so many evaluations, which a generation that was cut off has, too.

    NaN where none can be read: who needs the file says so.
    """
    with contextlib.suppress(InputError, csv.Error, ValueError, KeyError, TypeError):
        for row in csv.DictReader(read_text(metrics, "the metrics of a run").splitlines()):
            if int(row["evaluations"]) == evaluations:
                return float(row["best_speedup"])
    return math.nan


def _check_gap(where: str, summary: Mapping[str, Any], gap: str, bound: str, formula: str) -> None:
    """InputError where a gap does not follow from its bound and the best, or that is beyond the bound."""
    found, limit, best = summary.get(gap), summary.get(bound), summary["best"]
    expected = None
    if limit is not None and best is not None:
        expected = best["cost"] / limit - 1 if gap == "gap" else limit - best["reward"]
    if (found is None) != (expected is None):
        raise InputError(f"{where}: {gap}: expected {formula}, {expected}, found {found}")
    if found is None or expected is None:
        return
    least = 1.0 if gap == "gap" else abs(float(limit or 0))
    if abs(found - expected) > SAME * (least + abs(expected)):
        raise InputError(f"{where}: {gap}: expected {formula}, {expected:.10g}, found {found:.10g}")
    if expected < -SAME * least:
        raise InputError(f"{where}: {bound}: expected one that the best does not pass, found {limit:.10g}")


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME)
