"""The first words of a page: one number, one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from egrl.runs.summary import distance
from egrl.runs.units import SECONDS, cost_text
from egrl.runs.words import about_of, verdict
from workloads.text import unit_for


def headline(summary: Mapping[str, Any]) -> str:
    """The speedup, as one number; "nothing valid" where there is none."""
    best = summary["best"]
    return "nothing valid" if best is None else f"{best['speedup']:.4f}x"


def sentence(summary: Mapping[str, Any]) -> str:
    """What was reached, how far that is from the best possible, and what it took."""
    best = summary["best"]
    spent = f"{summary['evaluations']:,} evaluations, {summary.get('seconds', 0.0):,.0f} s"
    if best is None:
        return f"No valid mapping was found in {spent}."
    parts = [f"{best['speedup']:.4f}x {about_of(summary).rival}"]
    interval = (summary.get("evaluator") or {}).get("speedup_interval")
    if interval is not None:
        parts.append(f"95% interval {interval[0]:.4f}x to {interval[1]:.4f}x")
    advice = verdict(summary)
    said = [
        ", ".join(parts) + distance(summary.get("gap")) + f", {spent}",
        _costs(summary),
        advice[:1].upper() + advice[1:],
    ]
    return " ".join(f"{text}." for text in said if text)


def _costs(summary: Mapping[str, Any]) -> str:
    """What the best and the rival cost, who says so, and what nothing costs less than; "" where that is not kept."""
    best, baseline, bound = summary["best"], summary.get("baseline", {}), summary.get("bound")
    if "cost" not in best or "cost" not in baseline:
        return ""
    unit, about = best.get("unit", "s"), about_of(summary)
    by = "measured" if about.measured or summary.get("evaluator") else "estimated by a model, not measured"
    least = "" if bound is None else f"; no mapping costs less than {_cost(bound, unit)}"
    costs = f"{_cost(best['cost'], unit)} instead of {_cost(baseline['cost'], unit)}"
    return f"It costs {costs}, {by}{least}"


def _cost(cost: float, unit: str) -> str:
    """With six digits, seconds in the unit that reads best."""
    if unit != SECONDS:
        return cost_text(cost, unit)
    size, name = unit_for(cost, unit)
    return f"{cost / size:,.6g} {name}"


def title(summary: Mapping[str, Any]) -> str:
    """What was searched, where and how."""
    return f"{summary['workload']} on {summary['chip']}, {summary['method']}, seed {summary.get('seed', 0)}"
