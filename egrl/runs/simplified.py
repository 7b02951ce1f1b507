"""Few changes of the baseline's mapping that keep most of what a faster mapping gains: search, document and text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from egrl.runs.text import (
    TABLE,
    about_of,
    baseline_text,
    cost_text,
    counted,
    short_baseline_text,
    table_of,
)
from hwsim.fewest import Front, evaluations, front
from hwsim.nearest import Step, best_first, unsuitable
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError

KEEP = 0.95
"""The share of the gain that is kept if few changes keep it; else those of the knee are chosen (`knee`)."""
QUICK = 10
"""A run, its page and `egrl simplify` take one in so many of the evaluations that a search may take."""
SHARES = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Shares of the gain that have a row in texts."""
MOST, TOGETHER = 20, 4
"""Steps that texts list, and changes that a line names."""
FEW, NEARLY, WORTH = 1 / 3, 0.99, 0.5
"""The knee is a mapping of at most the share FEW of the changes that keeps NEARLY the most that so many can, if it
keeps the share WORTH of the gain."""
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Simplified:
    """A front of mappings between the baseline and a faster one, of which one is chosen.

    Attributes:
        problem: whose model gave the costs.
        front: see `hwsim.fewest.Front`.
        keep: the share of the gain that was asked for; None: `knee` chooses.
    """

    problem: Problem
    front: Front
    keep: float | None = None

    @property
    def at(self) -> int:
        """The number of the chosen mapping in the front."""
        return knee(self.front) if self.keep is None else self.front.fewest(self.keep)

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


def knee(front: Front) -> int:
    """The number of a front's mapping that is worth a review: `KEEP` of the gain, or nearly all that a few keep."""
    of, at = front.goal[0], front.fewest(KEEP)
    if front.changes[at] <= of * FEW:
        return at
    most = float(front.kept[front.changes <= of * FEW].max())
    return front.fewest(NEARLY * most) if most >= WORTH else at


def quick(problem: Problem) -> int:
    """The evaluations of a search if nothing else is said: a second or so."""
    return max(evaluations(problem) // QUICK, 1)


def simplify(problem: Problem, mapping: Mapping16, keep: float | None, evals: int) -> Simplified:
    """The fewest changes that keep a share of the gain of a mapping int16 [N, H], by so many evaluations of the model.

    `keep` None: as many as the knee has.
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
    front, (of, _), at = found.front, found.front.goal, found.at
    if front.kept[at] < WORTH or front.changes[at] > of * FEW:
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
        f" the gain over {rule}: {_speedups(document)}",
        *_table(curve),
        *_reviewed(document["steps"]),
        "changes, best first, with the time that each saves and the share of the gain reached with it:",
    ]
    steps = document["steps"]
    for number, step in enumerate(steps[:MOST], start=1):
        buys = f"saves {cost_text(step['buys'], unit)}, {percent(step['kept'])}"
        lines += [f"  {number}. {_changes(step['changes'])}: {buys}"]
    if (more := len(steps) - MOST) > 0:
        lines.append(f"  … and {more} more (--json has all)")
    return "\n".join(lines)


def _speedups(document: Mapping[str, Any]) -> str:
    """The speedups of the chosen mapping and of the given one; of a board that they are a model's."""
    both = [f"{document[name]['speedup']:.4f}x" for name in ("chosen", "given")]
    model = document.get("model")
    return f"{both[0]} instead of {both[1]}" + (f", by {model}, {NOT_MEASURED}" if model else "")


def _reviewed(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The changes as a reviewer reads them, a line per part of the network, where that is shorter than the steps."""
    parts: dict[tuple[str, str, str, str], list[str]] = {}
    for row in (row for step in steps for row in step["changes"]):
        block, dot, _ = row["node"].rpartition(".")
        parts.setdefault((f"{block}{dot}", row["head"], row["from"], row["to"]), []).append(row["node"])
    if len(parts) * 2 > len(steps):
        return []
    lines = ["in short:"]
    for (block, head, before, after), nodes in list(parts.items())[:MOST]:
        what = (
            nodes[0]
            if len(nodes) == 1
            else f"{len(nodes)} of {block}*"
            if block
            else ", ".join(nodes[:TOGETHER])
        )
        more = f" and {len(nodes) - TOGETHER} more" if not block and len(nodes) > TOGETHER else ""
        lines.append(f"  {what}{more} {head}: {before} -> {after}")
    return [*lines, *([f"  … and {len(parts) - MOST} more lines"] if len(parts) > MOST else [])]


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
            lines.append(f"  {changes:>12}: {percent(step['kept']):>6} of the gain, {step['speedup']:.4f}x")
    return lines


def percent(share: float) -> str:
    """A share in percent with a digit, rounded down, so that all of the gain is 100% only where nothing is lost."""
    if share > 1.001:
        return "more than 100%"
    return f"{math.floor(share * 1e3 + 1e-6) / 10:g}%"
