"""How the search went: curves, who found what, predictions against measurements, and what it was made with."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping

import numpy as np

from egrl.core import typed_tables
from egrl.core.version import versions
from egrl.report.predictions import predictions
from egrl.runs.past import Evaluations, PastRun, course_of
from egrl.runs.words import about_of
from hwsim.sections import Cell, Line, Lines, Section, Table


def searching(run: PastRun) -> list[Section]:
    """The curve, the sources, and what was predicted of what was measured. InputError where a file is damaged."""
    found: list[Section] = [curves([run])]
    evaluations = run.evaluations()
    return [*found, _sources(evaluations), *predictions(run, evaluations)]


def curves(runs: list[PastRun], labels: list[str] | None = None) -> Lines:
    """Best speedup against evaluations, with the bound; where the best was measured again, that, with its interval."""
    lines: list[Line] = []
    levels: dict[str, float] = {}
    for number, run in enumerate(runs):
        course = course_of(run.path, run.summary)
        evaluations, best = course.evaluations.tolist(), course.best.tolist()
        label = labels[number] if labels else "best"
        if course.confirmed is not None:
            value, low, high = course.confirmed.T.tolist()
            lines.append(Line(f"{label}, measured afresh", evaluations, value, False, low, high))
            label = f"{label}, as measured"
        lines.append(Line(label, evaluations, best))
        if course.policy is not None and course.confirmed is None and len(runs) == 1:
            lines.append(Line("the policy alone", evaluations, course.policy.tolist()))
        lines += [] if course.confirmed is not None else _named(run, label, evaluations[-1], best[-1])
        bound = run.summary.get("bound")
        if bound is not None:
            most = run.summary["baseline"]["cost"] / bound
            levels["bound"] = min(most, levels.get("bound", most))
    rival = about_of(runs[0].summary).rival
    levels[rival] = 1.0
    says = (
        "The best speedup so far. No mapping can be above the bound."
        if "bound" in levels
        else "The best so far."
    )
    if any(line.low and not line.dots for line in lines):
        says += " The best of many noisy measurements is lucky, too; what was measured afresh holds (95% intervals)."
    return Lines("The search", says, "evaluations", f"speedup over {rival}", lines, levels)


def _named(run: PastRun, label: str, evaluations: int, best: float) -> list[Line]:
    """What the best was found to be when it was measured again at the end, where it was."""
    interval = (run.summary.get("evaluator") or {}).get("speedup_interval")
    named = (run.summary["best"] or {}).get("speedup", best)
    if interval is None and named == best:
        return []
    low, high = ([], []) if interval is None else ([interval[0]], [interval[1]])
    return [Line(f"{label}, measured again", [evaluations], [named], True, low, high)]


def _sources(found: Evaluations) -> Table:
    best, records = 0.0, np.zeros(len(found.ticket), np.bool_)
    for row, speedup in enumerate(found.speedup.tolist()):
        records[row] = speedup > best
        best = max(best, speedup)
    rows: list[list[Cell]] = []
    for source in sorted(set(found.source.tolist())):
        mine = found.source == source
        ran = int((mine & (found.speedup > 0)).sum())
        last = np.flatnonzero(mine & records)
        rows.append(
            [
                source,
                int(mine.sum()),
                ran,
                round(float(found.speedup[mine].max()), 6),
                len(last),
                int(found.ticket[last[-1]]) if len(last) else None,
            ]
        )
    rows.sort(key=lambda row: -float(row[3] or 0))
    columns = [
        ("source", ""), ("evaluations", ""), ("valid", ""), ("best speedup", ""), ("new bests", ""),
        ("last new best at evaluation", ""),
    ]  # fmt: skip
    kept = (
        f" Of the first {found.ticket[0]:,} evaluations nothing is kept."
        if len(found.ticket) and found.ticket[0]
        else ""
    )
    return Table(
        "Who found what", f"Each part of the method, and what its proposals were worth.{kept}", columns, rows
    )


def _named_versions(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items()) or "unknown"


def settings(run: PastRun) -> list[Section]:
    """The command that repeats the run, its inputs' fingerprint, and every setting."""
    command = ["egrl", "run", "--config", str(run.path / "config.toml")]
    if run.options.evaluator:
        command += ["--evaluator", run.options.evaluator]
    about: list[list[Cell]] = [
        ["the same again", shlex.join(command)],
        ["run folder", str(run.path)],
        ["seed", str(run.options.seed)],
        ["fingerprint of problem, chip and workload", str(run.summary["fingerprint"])],
        ["the run was made by", _named_versions(run.summary.get("versions") or {})],
        ["this page was made by", _named_versions(versions())],
    ]  # fmt: skip
    values = typed_tables.dotted_keys({"run": dataclasses.asdict(run.options), **run.settings})
    rows: list[list[Cell]] = [
        [key, "none" if value in (None, "") else str(value)] for key, value in values.items()
    ]
    return [
        Table("How it was made", "What repeats this run.", [("what", ""), ("value", "")], about),
        Table("Settings", "All of config.toml.", [("setting", ""), ("value", "")], rows),
    ]
