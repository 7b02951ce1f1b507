"""A page of a run folder, or of several."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from egrl.core import atomic
from egrl.figures.repetitions import comparable, labels
from egrl.report import render
from egrl.report.changes import GAINED, gained, memory, nodes
from egrl.report.explaining import explaining, table
from egrl.report.searching import curves, is_short, searching, settings
from egrl.runs.past_run import MADE_OVER, PastRun
from egrl.runs.simplified import SHARES, Simplified, percent, quick, simplify
from egrl.runs.text import (
    NOT_CONFIRMED,
    SECONDS,
    about_of,
    advice,
    baseline_text,
    board_remarks,
    confirmed,
    cost_text,
    counted,
    distance,
    rule_text,
    short_baseline_text,
    unconfirmed_text,
    verdict,
)
from hwsim.capabilities import HasPlacement
from hwsim.nearest import unsuitable
from hwsim.problem import About, Mapping16, Problem
from hwsim.sections import Bars, Cell, HasSections, Line, Lines, MemoryMaps, Section, Table
from workloads.text import unit_for

PAGE = "report.html"
"""The page in a run folder."""
MOST_BYTES = 5_000_000
"""The largest size of a page."""
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
        found += fewest(problem, best) if explained.holds else []
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
    if best is None:
        return "nothing valid"
    return f"{best['speedup']:.4f}x" + ("" if confirmed(summary) else f" ({NOT_CONFIRMED})")


def sentence_of(summary: Mapping[str, Any]) -> str:
    """The result, its gap to the best possible, and the effort."""
    best = summary["best"]
    spent = f"{summary['evaluations']:,} evaluations, {summary.get('seconds', 0.0):,.0f} s"
    if best is None:
        return f"No valid mapping was found in {spent}."
    baseline = summary.get("baseline", {})
    interval = (summary.get("evaluator") or {}).get("speedup_interval")
    rules = rule_text(baseline)
    said = [
        f"the speedup is over {baseline_text(about_of(summary), '' if rules else baseline.get('rule', ''))}",
        "" if interval is None else f"its 95% interval is {interval[0]:.4f}x to {interval[1]:.4f}x",
        unconfirmed_text(summary),
        *board_remarks(summary),
        _costs(summary),
        distance(summary.get("gap")),
        *verdict(summary).splitlines(),
        rules,
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
    given = comparable(runs)
    speedups = [float((run.summary["best"] or {"speedup": 0.0})["speedup"]) for run in runs]
    best = max(range(len(runs)), key=speedups.__getitem__)
    names = [f"{label}, seed {run.seed}" for label, run in zip(labels(given), given, strict=True)]
    rows: list[list[Cell]] = []
    for run, name, speedup in zip(runs, names, speedups, strict=True):
        s = run.summary
        name += "" if confirmed(s) or s["best"] is None else f" ({NOT_CONFIRMED})"
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


TITLE = "Words"
MEANINGS = {
    "speedup": "the baseline's cost / the cost of the mapping: 1.05x takes 1 / 1.05 of the time",
    "bound": "no mapping costs less than this; it is proven, for the costs of the model",
    "best possible": "what the best of all mappings would cost; the bound is at most that",
    "evaluations": "mappings that were measured or modelled, each counted once",
    "mapping": "a choice for every decision: which memory a tensor lies in, which chip an op runs on",
    "op": "one operation of the network: a convolution, a matrix product, an addition",
    "weight": "the constants of an op, as trained",
    "activation": "what an op computes and others read",
    "dram": "the large, slow memory outside the chip",
    "llc": "last-level cache: a memory on the chip, shared by its engines",
    "sram": "the fastest memory, beside the engines; it is small",
    "mac": "the multiply array: the op's own computing takes longest",
    "dsp": "the vector engine: the op's own computing takes longest",
    "overhead": "starting the op takes longer than its work",
    "source": "the part of the method that proposed a mapping",
    "start": "the mapping that the search began with",
    "network": "among sources: proposed by a policy network of the population",
    "boltzmann": "proposed by a member of the population that is a table of preferences, not a network",
    "exact": "proposed by the solver of the chip's model",
    "nominal": "the solution of the chip's model, before anything was learned of the board",
    "sac": "proposed by SAC, the learner whose network follows a critic",
    "twin": "proposed by the learned model of the board",
    "profile model": "proposed by the learned model of the time of every op, or of loads or instructions",
    "fingerprint": "a digest of all that a cost depends on: equal fingerprints, comparable runs",
}
"""One sentence per word, in the order of a page."""


def glossary(about: About, sections: Sequence[Section], rule: str, given: bool) -> Table:
    """The words that the sections use, and what the baseline is.

    `rule` made the baseline; `given`: the user brought it.
    """
    said = {word for text in _texts(sections) for word in re.findall(r"[a-z]+", text.lower())}
    rows = [
        [word, meaning]
        for word, meaning in MEANINGS.items()
        if all(part in said or f"{part}s" in said for part in word.split())
    ]
    name = short_baseline_text(about)
    return Table(
        TITLE,
        "",
        [("word", ""), ("meaning", "")],
        [[name, f"the mapping to beat: {_baseline_words(about, rule, given)}"], *rows],
    )


def _baseline_words(about: About, rule: str, given: bool) -> str:
    if given:
        return f"{about.baseline_name}, which --baseline names"
    if about.stands_for:
        return (
            f"that of the built-in baseline heuristic '{rule}', which takes the place of {about.stands_for}; give the"
            " mapping that yours makes by --baseline FILE"
        )
    if about.baseline_name == "the compiler":
        return "what the chip's compiler would choose by its own rules"
    return f"{about.baseline_name}, which the problem brings with it"


def _texts(sections: Sequence[Section]) -> Iterator[str]:
    """Titles, sentences, names of columns, series and memories, and the words in tables."""
    for section in sections:
        yield f"{section.title} {section.says}"
        match section:
            case Table():
                yield from (name for name, _ in section.columns)
                yield from {cell for row in section.rows for cell in row if isinstance(cell, str)}
            case Bars():
                yield from (*section.names, *section.series)
            case Lines():
                yield from (section.y, *section.levels, *(line.label for line in section.lines))
            case MemoryMaps():
                yield from {each.memory for each in section.maps}


CHANGES = "Changes, best first"


def fewest(problem: Problem, best: Mapping16) -> list[Section]:
    """The gain against the number of changes, and those of `egrl simplify`; nothing if nothing is gained."""
    if unsuitable(problem) or problem.judge(best):
        return []
    found = simplify(problem, best, None, quick(problem))
    return [_curve(found), _changes(found)] if found.gains else []


def _curve(found: Simplified) -> Lines:
    front, over = found.front, short_baseline_text(found.problem.about)
    steps = sorted({front.fewest(share) for share in SHARES} - {0})
    said = "; ".join(
        f"{counted(int(front.changes[at]), 'change')}: {percent(float(front.kept[at]))} of the gain"
        for at in steps
    )
    speedup = (front.cost[0] / front.cost).tolist()
    line = Line("fewest changes found", front.changes.tolist(), speedup, True)
    best = front.cost[0] / front.goal[1]
    says = f"The best has {counted(front.goal[0], 'change')} of {over}'s mapping; fewer keep most of its gain. {said}."
    return Lines(
        "Gain against changes", says, "changes", f"speedup over {over}", [line], {"best": float(best)}
    )


def _changes(found: Simplified) -> Table:
    rows: list[list[Cell]] = []
    for number, step in enumerate(found.rows(), start=1):
        for k, change in enumerate(step["changes"]):
            shown = [change[key] for key in ("node", "head", "from", "to", "size_bytes")]
            rows.append([number, *shown, *((step["buys"], percent(step["kept"])) if not k else (None, None))])
    unit = "s" if found.problem.about.unit == SECONDS else ""
    columns = [
        ("step", ""), ("node", ""), ("what", ""), ("from", ""), ("to", ""), ("size", "B"), ("buys", unit),
        ("of the gain", ""),
    ]  # fmt: skip
    says = (
        f"{counted(len(rows), 'change')} keep {percent(float(found.front.kept[found.at]))} of the gain. The"
        " changes of one step belong together. A step needs the steps before it, and saves what is said on top of them."
        " `egrl simplify` searches longer, and writes the mapping."
    )
    return Table(CHANGES, says, columns, rows)


MOST_CURVES = 6
"""Values of a second parameter that have a curve of their own, evenly spread."""


def page_of_exploration(made: Mapping[str, Any]) -> str:
    """The HTML document of an explore.json."""
    names = ", ".join(each["workload"] for each in made["workloads"])
    sentences = [f"{text[:1].upper()}{text[1:]}." for each in made["workloads"] for text in each["words"]]
    several = len(made["workloads"]) > 1
    sections: list[Section] = []
    for each in made["workloads"]:
        title = f"{each['workload']}: " if several else ""
        sections += [_curves(made, each, title), _table(made, each, title)]
    varied = " and ".join(p["label"] for p in made["parameters"])
    about = f"{names} on {made['chip']}: what more {varied} would buy"
    return render.page(about, _headline(made), " ".join(dict.fromkeys(sentences)), sections)


def _headline(made: Mapping[str, Any]) -> str:
    """The costs at the two ends of the grid, of the first workload."""
    costs = [point["cost"] for point in made["workloads"][0]["points"] if point["cost"] is not None]
    ends = [cost_text(cost, made["unit"]) for cost in (*costs[:1], *costs[-1:])]
    return " to ".join(dict.fromkeys(ends)) or "nothing found"


def _name(parameter: Mapping[str, Any]) -> str:
    return f"{parameter['label']} ({parameter['unit']})" if parameter["unit"] else str(parameter["label"])


def _scaled(parameter: Mapping[str, Any], value: float) -> float:
    return float(f"{value / parameter['unit_size']:.6g}")


def _curves(made: Mapping[str, Any], each: Mapping[str, Any], title: str) -> Lines:
    """Found, bound and rule over one parameter; of two, the best found for some values of the second."""
    first, *second = made["parameters"]
    points = [point for point in each["points"] if point["cost"] is not None]
    unit = SECONDS if made["unit"] == SECONDS else ""

    def line(label: str, key: str, chosen: Sequence[Mapping[str, Any]]) -> Line:
        known = [point for point in chosen if point[key] is not None]
        return Line(label, [_scaled(first, p["values"][0]) for p in known], [float(p[key]) for p in known])

    if not second:
        lines = [line("best found", "cost", points), line("proven bound", "bound", points)]
        lines.append(line(each["rival"], "baseline", points))
        says = "No mapping costs less than the bound."
    else:
        (other,) = second
        values = other["values"]
        last = min(MOST_CURVES, len(values)) - 1
        spread = dict.fromkeys(values[round(k * (len(values) - 1) / max(last, 1))] for k in range(last + 1))
        lines = [
            line(
                f"{_scaled(other, v):.6g} {other['unit']}".rstrip(),
                "cost",
                [p for p in points if p["values"][1] == v],
            )
            for v in spread
        ]
        says = f"The best found; one curve per {other['label']}."
    return Lines(f"{title}Best found", says, _name(first), "cost", lines, {}, ("", unit))


def _table(made: Mapping[str, Any], each: Mapping[str, Any], title: str) -> Table:
    columns = [
        *((_name(p), "") for p in made["parameters"]), ("found", ""), ("bound", ""), ("gap in %", ""),
        (f"speedup over {each['rival']}", ""),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for point in each["points"]:
        values = [_scaled(p, v) for p, v in zip(made["parameters"], point["values"], strict=True)]
        gap = None if point["gap"] is None else round(100 * point["gap"], 4)
        # As texts, with as many digits as distinguish found from bound.
        costs = [None if point[k] is None else cost_text(point[k], made["unit"]) for k in ("cost", "bound")]
        rows.append([*values, *costs, gap, point["speedup"]])
    return Table(f"{title}All points", f"{len(rows)} chips.", columns, rows)


@dataclass(frozen=True, repr=False)
class Shown:
    """An HTML page that a notebook displays.

    Attributes:
        page: the whole document.
        what: what it shows, in one line.
    """

    page: str
    what: str

    def __repr__(self) -> str:
        return f"<{self.what}: displays itself in a notebook>"

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
        return render.in_frame(self.page)


def show(*runs: str | Path) -> Shown:
    """The page of a run folder, or the comparison of several, as `egrl report` writes it; a notebook displays it.

    Raises InputError where a folder is damaged, or they are not of one problem; ValueError where none is given.
    """
    if not runs:
        raise ValueError("runs: expected a run folder or several, received none")
    return Shown(page_of([PastRun.read(Path(run)) for run in runs]), ", ".join(map(str, runs)))


def show_mapping(problem: Problem, mapping: Mapping16) -> Shown:
    """What one mapping int16 [N, H] does otherwise than the baseline, and what that gains.

    Raises ValueError where shape or dtype is another.
    """
    space, about = problem.space, problem.about
    space.check(mapping[None], np.zeros(1, np.uint64))
    mapping = space.canonical(mapping)
    found: list[Section] = [*gained(problem, mapping)]
    if isinstance(problem, HasSections):
        found += problem.sections(mapping)
    found += [*memory(problem, mapping), nodes(problem, mapping)]
    changed = int((mapping != problem.baseline.mapping)[space.live].sum())
    what = f"{about.workload} on {about.chip}: a mapping beside {short_baseline_text(about)}"
    sentence = f"{changed:,} of {int(space.live.sum()):,} decisions differ from {short_baseline_text(about)}."
    return Shown(render.page(what, about.workload, sentence, found), what)
