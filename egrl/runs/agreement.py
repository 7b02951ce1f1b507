"""Whether the numbers of a summary are those of the run: each follows from others, and from the run's own files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egrl.runs import chunks
from egrl.runs.folder import MAPPINGS
from workloads.errors import InputError

SAME = 1e-6
"""How much two costs of one mapping, or two texts of one number, may differ by rounding, relative."""


def check_agreement(run: Path, where: str, summary: Mapping[str, Any]) -> None:
    """InputError naming the first number that another one of the summary, or the evaluation that it names, contradicts.

    What was measured again at the end is held to the summary alone. A folder may lack its evaluations.
    """
    best, bound = summary["best"], summary["bound"]
    if best is None:
        return
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
    if (
        bound is not None
        and summary["gap"] is not None
        and not _same(bound * (1 + summary["gap"]), best["cost"])
    ):
        raise InputError(
            f"{where}: gap: expected best.cost / bound - 1, {best['cost'] / bound - 1:.10g}, found"
            f" {summary['gap']:.10g}"
        )


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME)
