"""A page of a run folder, or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from egrl.core import atomic
from egrl.figures.repetitions import check_comparable, labels, to_plot
from egrl.report import render
from egrl.report.changes import GAINED, gained, nodes
from egrl.report.explaining import explaining
from egrl.report.fewest import fewest
from egrl.report.glossary import glossary
from egrl.report.memory import memory
from egrl.report.profiled import table
from egrl.report.searching import curves, is_short, searching, settings
from egrl.runs.past_run import MADE_OVER, PastRun
from egrl.runs.text import SECONDS, about_of, advice, baseline_text, cost_text
from egrl.runs.verdict import distance, rule_text, verdict
from hwsim.capabilities import HasPlacement
from hwsim.sections import Bars, Cell, HasSections, Section, Table
from workloads.text import unit_for

PAGE = "report.html"
"""The page in a run folder."""
MOST_BYTES = 5_000_000
"""Of a page."""
SAME_MODEL = "By the same model."
"""The note of all sections but the first that explain a cost which a board measured."""


def page_of(runs: Sequence[PastRun]) -> str:
    """The HTML document. InputError where a folder is damaged, or the runs are not of one problem."""
    if len(runs) == 1:
        (run,) = runs
        first = sentence_of(run.summary)
        return render.page(title_of(run.summary), headline_of(run.summary), first, sections(run))
    best, sentence, comparison = compared(runs)
    about = best.summary
    title = f"{about['workload']} on {about['chip']}: {len(runs)} runs"
    return render.page(title, headline_of(about), sentence, [*comparison, *sections(best)])


def leave_page(run: PastRun) -> Path:
    """Write the page of a run into its folder. Returns the path.

    InputError if the folder is damaged; RunFailure if the disk refuses.
    """
    path = run.path / PAGE
    atomic.write_named(path, page_of([run]))
    return path


def sections(run: PastRun) -> list[Section]:
    """All that is shown of one run: what changed, memory, ops, the search, what it was made with."""
    found: list[Section] = []
    if run.summary["best"] is not None:
        best = run.best_mapping()
        explained = explaining(run, best)
        problem = explained.problem
        found += _with_model(gained(problem, best), explained.says)
        found += fewest(problem, best)
        if isinstance(problem, HasSections):
            found += problem.sections(best)
        found += table(run, best)
        if not isinstance(problem, HasSections):
            found += memory(problem, best)
        if problem.about.alike and not isinstance(problem, HasPlacement):  # else choices are rules or moves
            found.append(nodes(problem, best))
    found += [*searching(run), *settings(run)]
    rule = str(run.summary["baseline"].get("rule", ""))
    given = bool(run.options.baseline) or MADE_OVER in run.summary
    return [*found, glossary(about_of(run.summary), found, rule, given)]


def _with_model(changes: Sequence[Section], says: str) -> list[Section]:
    """Sections that explain, of which the first says by which model; nothing if that gave the costs."""
    found, said = list[Section](), says
    for section in changes:
        if said and (isinstance(section, Bars) or section.title == GAINED):
            section, said = replace(section, says=f"{said} {section.says}"), SAME_MODEL
        found.append(section)
    return found


def headline_of(summary: Mapping[str, Any]) -> str:
    """The speedup, as one number; "nothing valid" where there is none."""
    best = summary["best"]
    return "nothing valid" if best is None else f"{best['speedup']:.4f}x"


def sentence_of(summary: Mapping[str, Any]) -> str:
    """The result, its gap to the best possible, and the effort."""
    best = summary["best"]
    spent = f"{summary['evaluations']:,} evaluations, {summary.get('seconds', 0.0):,.0f} s"
    if best is None:
        return f"No valid mapping was found in {spent}."
    baseline = summary.get("baseline", {})
    interval = (summary.get("evaluator") or {}).get("speedup_interval")
    said = [
        f"the speedup is over {baseline_text(about_of(summary), baseline.get('rule', ''))}",
        "" if interval is None else f"its 95% interval is {interval[0]:.4f}x to {interval[1]:.4f}x",
        _costs(summary),
        distance(summary.get("gap")),
        verdict(summary),
        rule_text(baseline),
        about_of(summary).uncounted,
        advice(summary),
        f"the search took {spent}",
    ]
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in said if text)


def _costs(summary: Mapping[str, Any]) -> str:
    """What the best and the baseline cost, what measured it, and the least possible cost; "" where that is not kept."""
    best, baseline, bound = summary["best"], summary.get("baseline", {}), summary.get("bound")
    if "cost" not in best or "cost" not in baseline:
        return ""
    unit, about = best.get("unit", "s"), about_of(summary)
    by = "measured" if about.measured or summary.get("evaluator") else "estimated by a model, not measured"
    least = "" if bound is None else f"; no mapping costs less than {_cost(bound, unit)}"
    costs = f"{_cost(best['cost'], unit)} instead of {_cost(baseline['cost'], unit)}"
    return f"the best mapping costs {costs}, {by}{least}"


def _cost(cost: float, unit: str) -> str:
    """With six digits, seconds in the unit that reads best."""
    if unit != SECONDS:
        return cost_text(cost, unit)
    size, name = unit_for(cost, unit)
    return f"{cost / size:,.6g} {name}"


def title_of(summary: Mapping[str, Any]) -> str:
    """Workload, chip and method of the search."""
    return f"{summary['workload']} on {summary['chip']}, {summary['method']}, seed {summary.get('seed', 0)}"


def compared(runs: Sequence[PastRun]) -> tuple[PastRun, str, list[Section]]:
    """The fastest run, a sentence of all, and their table and curves. InputError where they are not of one problem."""
    given = [to_plot(run) for run in runs]
    check_comparable(given)
    speedups = [float((run.summary["best"] or {"speedup": 0.0})["speedup"]) for run in runs]
    best = max(range(len(runs)), key=speedups.__getitem__)
    names = [f"{label}, seed {run.seed}" for label, run in zip(labels(given), given, strict=True)]
    rows: list[list[Cell]] = []
    for run, name, speedup in zip(runs, names, speedups, strict=True):
        s = run.summary
        found = s["best"] or {"cost": None, "source": None}
        gap = s.get("gap")
        rows.append(
            [
                name,
                round(speedup, 6),
                found["cost"],
                None if gap is None else round(100 * gap, 3),
                s["evaluations"],
                round(float(s.get("seconds", 0.0)), 1),
                found["source"],
                run.path.name,
            ]
        )
    unit = (runs[best].summary["best"] or {}).get("unit", "s")
    columns = [
        ("run", ""), ("speedup", ""), ("best", unit if unit == "s" else ""), ("within % of the best possible", ""),
        ("evaluations", ""), ("time of the search, s", ""), ("found by", ""), ("folder", ""),
    ]  # fmt: skip
    summary = runs[best].summary
    baseline_name = baseline_text(about_of(summary), summary["baseline"].get("rule", ""))
    sentence = (
        f"The fastest of {len(runs)} runs, {names[best]}, has {headline_of(summary)} {baseline_name}; the slowest"
        f" has {min(speedups):.4f}x. What follows the comparison is the fastest."
    )
    table = Table("The runs", "", columns, rows)
    if all(is_short(run) for run in runs):
        return runs[best], sentence, [table]
    both = replace(curves(list(runs), names), title="The searches")
    return runs[best], sentence, [table, both]
