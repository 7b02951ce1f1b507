"""How the search went: curves, who found what, predictions against measurements, and what it was made with."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping

import numpy as np

from egrl.core import typed_tables
from egrl.core.archive import START
from egrl.methods.twin.data import gather
from egrl.methods.twin.inference import Beliefs, fit
from egrl.report.explaining import TWIN
from egrl.runs.past_run import Evaluations, PastRun, course_of
from egrl.runs.summary import members_text, versions
from egrl.runs.text import about_of, counted, short_baseline_text
from hwsim.capabilities import HasModel
from hwsim.family import Family, HasFamily
from hwsim.problem import Floats, Mapping16
from hwsim.sections import Cell, Line, Lines, Section, Table


def searching(run: PastRun) -> list[Section]:
    """The curve, the sources, and what was predicted of what was measured. InputError where a file is damaged.

    A search of fewer than `LEAST_ROWS` generations has no curve, but a sentence.
    """
    short, evaluations = is_short(run), run.evaluations()
    found: list[Section] = [] if short else [curves([run])]
    sources = _sources(evaluations)
    if members := members_text(run.summary):
        said = "; ".join(members.splitlines())
        sources = dataclasses.replace(sources, says=f"{sources.says} {said[0].upper()}{said[1:]}.")
    if short:
        sources = dataclasses.replace(sources, says=f"{_short(run)} {sources.says}")
    who = [] if short else proposers(evaluations)
    return [*found, sources, *who, *predictions(run, evaluations)]


LEAST_ROWS = 3
"""Generations that a curve has at least."""


def is_short(run: PastRun) -> bool:
    """True if the search has too few generations for a curve. InputError where its metrics are damaged."""
    return len(course_of(run.path, run.summary).evaluations) < LEAST_ROWS


def _short(run: PastRun) -> str:
    """A sentence about a search that has no curve."""
    summary, best = run.summary, run.summary["best"]
    spent = f"{counted(summary['evaluations'], 'evaluation')} in {summary.get('seconds', 0.0):.1f} s"
    if best is None:
        return f"{summary['method']} made {spent}, and none was valid."
    at = best.get("evaluation")
    found = f"; the best, by {best['source']}, was evaluation {at}" if at is not None else ""
    return f"{summary['method']} made {spent}{found}."


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
            lines.append(Line(f"{label}, measured again", evaluations, value, False, low, high))
            label = f"{label}, as measured"
        lines.append(Line(label, evaluations, best))
        if course.policy is not None and course.confirmed is None and len(runs) == 1:
            lines.append(Line("the policy alone", evaluations, course.policy.tolist()))
        lines += [] if course.confirmed is not None else _named(run, label, evaluations[-1], best[-1])
        bound = run.summary.get("bound")
        if bound is not None:
            most = run.summary["baseline"]["cost"] / bound
            levels["bound"] = min(most, levels.get("bound", most))
    baseline_name = short_baseline_text(about_of(runs[0].summary))
    levels[baseline_name] = 1.0
    says = (
        "The best speedup so far. No mapping can be above the bound."
        if "bound" in levels
        else "The best so far."
    )
    if any(line.low and not line.dots for line in lines):
        says += " The best of many noisy measurements is partly luck; what was measured again is reliable"
        says += " (95% intervals)."
    return Lines("The search", says, "evaluations", f"speedup over {baseline_name}", lines, levels)


def _named(run: PastRun, label: str, evaluations: int, best: float) -> list[Line]:
    """A line for the best as it was measured again at the end, if it was."""
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


PARTS = 40
"""Into how many equal parts a search is divided to show who proposed."""


def proposers(found: Evaluations) -> list[Section]:
    """Who proposed over the search, and who held the best; nothing of a method that is one thing."""
    sources = sorted(set(found.source.tolist()) - {START})
    if len(sources) < 2:
        return []
    parts = [part for part in np.array_split(np.arange(len(found.ticket)), PARTS) if len(part)]
    ends = [int(found.ticket[part[-1]]) + 1 for part in parts]
    shares, best = [], []
    for source in sources:
        mine = found.source == source
        shares.append(Line(source, ends, [float(mine[part].mean()) for part in parts]))
        so_far = np.maximum.accumulate(np.where(mine, found.speedup, 0.0))
        first = int(np.argmax(so_far > 0))
        own = [
            (end, float(so_far[part[-1]])) for end, part in zip(ends, parts, strict=True) if part[-1] >= first
        ]
        best.append(Line(source, [end for end, _ in own], [value for _, value in own]))
    return [
        Lines(
            "Who proposed",
            "Shares of the evaluations.",
            "evaluations",
            "share of the evaluations",
            shares,
            {},
        ),
        Lines(
            "Who held the best",
            "The best speedup that each part has found so far; the highest line holds the best.",
            "evaluations",
            "speedup",
            best,
            {},
        ),
    ]


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
    if said := about_of(run.summary).uncounted:
        about.append(["guessed or not counted", said])
    values = typed_tables.dotted_keys({"run": dataclasses.asdict(run.options), **run.settings})
    rows: list[list[Cell]] = [
        [key, "none" if value in (None, "") else str(value)] for key, value in values.items()
    ]
    return [
        Table("How it was made", "How to repeat this run.", [("what", ""), ("value", "")], about),
        Table("Settings", "All of config.toml.", [("setting", ""), ("value", "")], rows),
    ]


PREDICTED = 300
"""Measured mappings that are predicted again, evenly over the run."""
FIRST = 20
"""Measurements that a twin has seen at least; it is fitted anew whenever they have doubled …"""
MOST = 200
"""… to no more than so many."""


def predictions(run: PastRun, found: Evaluations) -> list[Lines]:
    """The points of a run on a board or with a twin; nothing where there is neither. InputError of a damaged folder."""
    seen = found.mapping.reshape(len(found.mapping), int(np.prod(found.mapping.shape[1:])))
    first = np.zeros(len(seen), np.bool_)
    first[np.unique(seen, axis=0, return_index=True)[1]] = True
    rows = np.flatnonzero(first & np.isfinite(found.cost) & (found.cost > 0) & (found.speedup > 0))
    mapping, cost = found.mapping[rows], found.cost[rows]
    some = np.unique(np.linspace(0, max(len(rows) - 1, 0), min(PREDICTED, len(rows))).astype(np.int64))
    lines, said = [], []
    if np.isin(found.source, TWIN).any() and len(rows) > FIRST and isinstance(run.problem, HasFamily):
        later = some[some >= FIRST]
        line = Line(
            "the twin",
            _foreseen(run.problem.family, mapping, cost)[later].tolist(),
            cost[later].tolist(),
            True,
        )
        lines.append(line)
        said.append(
            f"the twin, which predicts each from those measured before it, is off by {_error(line)} in the median"
        )
    if run.options.evaluator and isinstance(run.problem, HasModel):
        model = run.problem
        values = [model.model_cost(mapping[row]) for row in some.tolist()]
        lines.append(Line("the chip file", values, cost[some].tolist(), True))
        said.append(f"the chip file is off by {_error(lines[-1])} in the median")
    if not lines:
        return []
    values = [value for line in lines for value in (*line.x, *line.y)]
    ends = [min(values, default=0.0), max(values, default=1.0)]
    says = f"{len(some)} measured mappings; {'; '.join(said)}."
    axes, equal = ("predicted", "the board"), Line("equal", ends, ends)
    return [Lines("Predicted against measured", says, *axes, [*lines, equal], {}, ("s", "s"))]


def _error(line: Line) -> str:
    return f"{np.median(np.abs(np.array(line.x) / np.array(line.y) - 1)) if line.y else 0.0:.1%}"


def _foreseen(family: Family, mapping: Mapping16, cost: Floats) -> Floats:
    """Float64 [M]: costs of mappings [M, N, H], each by a twin of none but earlier ones; NaN of the first."""
    found, beliefs, seen = np.full(len(cost), np.nan), Beliefs((family.nominal,)), FIRST
    while seen < len(cost):
        end = min(2 * seen, len(cost))
        for posterior in fit(family, gather(family, mapping[:seen], cost[:seen], MOST), beliefs):
            if posterior is not None:
                found[seen:end] = np.exp(posterior.predict(mapping[seen:end])[0])
        seen = end
    return found
