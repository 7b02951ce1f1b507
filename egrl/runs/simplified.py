"""Few changes of the baseline's mapping that keep most of what a faster mapping gains: search, document and text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from egrl.runs.text import (
    TABLE,
    about_of,
    baseline_text,
    cost_text,
    counted,
    ratio_text,
    short_baseline_text,
    table_of,
)
from hwsim.fewest import Front, front
from hwsim.nearest import Step, best_first, unsuitable
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError

KEEP = 0.95
"""The share of the gain that is kept if nothing else is said."""
SHARES = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Shares of the gain that have a row in texts."""
MOST, TOGETHER = 20, 4
"""Steps that texts list, and changes that a line names."""
FEW, NEARLY, WORTH = 1 / 3, 0.99, 0.5
"""A hint names a mapping of at most the share FEW of the changes that keeps NEARLY the most so many can, if it keeps
the share WORTH of the gain."""


@dataclass(frozen=True)
class Simplified:
    """A front of mappings between the baseline and a faster one, of which one is chosen.

    Attributes:
        problem: whose model gave the costs.
        front: see `hwsim.fewest.Front`.
        keep: the share of the gain that was asked for.
    """

    problem: Problem
    front: Front
    keep: float

    @property
    def at(self) -> int:
        """The number of the chosen mapping in the front: the first that keeps the share."""
        return self.front.fewest(self.keep)

    @property
    def mapping(self) -> Mapping16:
        """int16 [N, H], the chosen one."""
        return self.front.mapping[self.at]

    @property
    def gains(self) -> bool:
        """True if a change gains anything."""
        return len(self.front) > 1

    @cached_property
    def steps(self) -> list[Step]:
        """The changes of the chosen mapping in steps, best first; each with those before it makes a valid mapping."""
        return best_first(self.problem, self.mapping)

    def document(self) -> dict[str, Any]:
        """For --json: the front, and the steps to the chosen mapping."""
        about, front, at = self.problem.about, self.front, self.at
        base = float(front.cost[0])
        curve = [
            {"changes": int(changes), "cost": float(cost), "speedup": base / float(cost), "kept": float(kept)}
            for changes, cost, kept in zip(front.changes, front.cost, front.kept, strict=True)
        ]
        return {
            "kind": "simplification",
            "version": 1,
            **about.names,
            "unit": about.unit,
            TABLE: table_of(about),
            "baseline": {"cost": base, "rule": self.problem.baseline.name},
            "given": {"changes": front.goal[0], "cost": front.goal[1], "speedup": base / front.goal[1]},
            "keep": self.keep,
            "curve": curve,
            "chosen": curve[at],
            "steps": self.rows(),
            "evaluations": front.evals,
        }

    def rows(self) -> list[dict[str, Any]]:
        """For --json: each step."""
        space, before, after = self.problem.space, self.problem.baseline.mapping, self.mapping
        base = last = float(self.front.cost[0])
        found = []
        for step in self.steps:
            changes = [
                {
                    "node": space.nodes[node],
                    "head": space.heads[head],
                    "from": space.labels[head][before[node, head]],
                    "to": space.labels[head][after[node, head]],
                    "size_bytes": int(space.size_bytes[node, head]),
                }
                for node, head in step.changes.tolist()
            ]
            kept = (base - step.cost) / (base - self.front.goal[1])
            found.append({"changes": changes, "cost": step.cost, "buys": last - step.cost, "kept": kept})
            last = step.cost
        return found


def simplify(problem: Problem, mapping: Mapping16, keep: float, evals: int) -> Simplified:
    """The fewest changes that keep a share of the gain of a mapping int16 [N, H], by so many evaluations of the model.

    InputError if changes of the problem's mappings cannot be undone, or the mapping does not run as it stands.
    """
    if why := unsuitable(problem):
        raise InputError(
            f"simplify: expected a problem whose changes can be undone, found {problem.about.name}: {why}"
        )
    if broken := problem.judge(mapping):
        raise InputError(f"simplify: expected a mapping that is valid, found {broken[0]}")
    return Simplified(problem, front(problem, mapping, evals), keep)


def hint(found: Simplified, run: str) -> str:
    """The line at the end of a run: how few changes bring how much of the gain; "" if that is nothing new."""
    front, (of, _) = found.front, found.front.goal
    at = found.at
    if front.changes[at] > of * FEW:
        most = front.kept[front.changes <= of * FEW].max()
        at = front.fewest(NEARLY * most) if most > 0 else 0
    if front.kept[at] < WORTH:
        return ""
    few, share = int(front.changes[at]), percent(float(front.kept[at]))
    verb = "brings" if few == 1 else "bring"
    return f"next: egrl simplify {run} lists the {few} of {counted(of, 'change')} that {verb} {share} of the gain"


def text_of(document: Mapping[str, Any]) -> str:
    """The answer for people: what is kept, the curve, and the changes, best first."""
    about, unit = about_of(document), document["unit"]
    curve, chosen, given = document["curve"], document["chosen"], document["given"]
    rule = baseline_text(about, document["baseline"]["rule"])
    what = f"{about.workload} on {about.chip}"
    if len(curve) < 2:
        return f"{what}: the mapping is no faster than {rule}: keep {short_baseline_text(about)}'s mapping"
    lines = [
        f"{what}: {chosen['changes']} of the {counted(given['changes'], 'change')} keep {percent(chosen['kept'])} of"
        f" the gain over {rule}: {ratio_text(chosen['speedup'])} instead of {ratio_text(given['speedup'])}",
        *_table(curve),
        "changes, best first, with the time that each saves and the share of the gain reached with it:",
    ]
    steps = document["steps"]
    for number, step in enumerate(steps[:MOST], start=1):
        buys = f"saves {cost_text(step['buys'], unit)}, {percent(step['kept'])}"
        lines += [f"  {number}. {_changes(step['changes'])}: {buys}"]
    if (more := len(steps) - MOST) > 0:
        lines.append(f"  … and {more} more (--json has all)")
    return "\n".join(lines)


def _changes(rows: list[dict[str, Any]]) -> str:
    """Changes that are made together, the first few in words."""
    said = [f"{row['node']} {row['head']} {row['from']} -> {row['to']}" for row in rows[:TOGETHER]]
    more = [f"{len(rows) - TOGETHER} more"] if len(rows) > TOGETHER else []
    return ", ".join([*said, *more])


def _table(curve: list[dict[str, Any]]) -> list[str]:
    """A line for each of `SHARES` that needs more changes than the one before."""
    lines, last = list[str](), 0
    for share in SHARES:
        step = next((step for step in curve if step["kept"] >= share - 1e-9), curve[-1])
        if step["changes"] > last:
            last = step["changes"]
            changes = counted(step["changes"], "change")
            lines.append(
                f"  {changes:>12}: {percent(step['kept']):>6} of the gain, {ratio_text(step['speedup'])}"
            )
    return lines


def percent(share: float) -> str:
    """A share in percent with a digit, rounded down, so that all of the gain is 100% only where nothing is lost."""
    if share > 1.001:
        return "more than 100%"
    return f"{math.floor(share * 1e3 + 1e-6) / 10:g}%"
