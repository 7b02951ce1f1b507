"""The fewest changes that keep most of the gain, as sections of a page."""

from __future__ import annotations

from egrl.runs.simplified import KEEP, SHARES, Simplified, percent, simplify
from egrl.runs.text import SECONDS, counted
from hwsim.fewest import evaluations
from hwsim.nearest import unsuitable
from hwsim.problem import Mapping16, Problem
from hwsim.sections import Cell, Line, Lines, Section, Table

EVALS = 8
"""Of the evaluations of `egrl simplify` one in so many: about a second."""
CHANGES = "Changes, best first"


def fewest(problem: Problem, best: Mapping16) -> list[Section]:
    """The gain against the number of changes, and those that keep `KEEP` of it; nothing if nothing is gained."""
    if unsuitable(problem) or problem.judge(best):
        return []
    found = simplify(problem, best, KEEP, max(evaluations(problem) // EVALS, 1))
    return [_curve(found), _changes(found)] if found.gains else []


def _curve(found: Simplified) -> Lines:
    front, over = found.front, found.problem.about.baseline_name
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
