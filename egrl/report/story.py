"""The first words of a page: one number, one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from egrl.runs.summary import OPTIMAL, percent_up
from egrl.runs.words import about_of, verdict


def headline(summary: Mapping[str, Any]) -> str:
    """The speedup, as one number; "nothing valid" where there is none."""
    best = summary["best"]
    return "nothing valid" if best is None else f"{best['speedup']:.4f}x"


def sentence(summary: Mapping[str, Any]) -> str:
    """What was reached, how far that is from the best possible, and what it took."""
    best, gap = summary["best"], summary.get("gap")
    spent = f"{summary['evaluations']:,} evaluations, {summary.get('seconds', 0.0):,.0f} s"
    if best is None:
        return f"No valid mapping was found in {spent}."
    parts = [f"{best['speedup']:.4f}x {about_of(summary).rival}"]
    interval = (summary.get("evaluator") or {}).get("speedup_interval")
    if interval is not None:
        parts.append(f"95% interval {interval[0]:.4f}x to {interval[1]:.4f}x")
    if gap is not None:
        sure = abs(gap) <= OPTIMAL
        parts.append(
            "proven to be the best possible" if sure else f"at most {percent_up(gap)} above the best possible"
        )
    advice = verdict(summary)
    return ", ".join([*parts, spent]) + "." + (f" {advice[0].upper()}{advice[1:]}." if advice else "")


def title(summary: Mapping[str, Any]) -> str:
    """What was searched, where and how."""
    return f"{summary['workload']} on {summary['chip']}, {summary['method']}, seed {summary.get('seed', 0)}"
