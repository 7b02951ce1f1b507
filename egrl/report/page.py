"""A page of a run folder, or of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egrl.report import render, story
from egrl.report.changes import GAINED, gained, nodes
from egrl.report.glossary import glossary
from egrl.report.memory import memory
from egrl.report.searching import searching, settings
from egrl.report.several import compared
from egrl.runs.past import PastRun
from egrl.runs.words import about_of
from hwsim.capabilities import HasPlacement
from hwsim.sections import Bars, HasSections, Section

MOST_BYTES = 5_000_000
"""Of a page."""
MODELLED = "A board measured this run; these seconds are the chip file's model, not the board's."
"""What is said where a problem explains a cost that it did not give."""


def page_of(runs: Sequence[PastRun]) -> str:
    """The HTML document. InputError where a folder is damaged, or the runs are not of one problem."""
    if len(runs) == 1:
        (run,) = runs
        first = story.sentence(run.summary)
        return render.page(story.title(run.summary), story.headline(run.summary), first, sections(run))
    best, sentence, comparison = compared(runs)
    about = best.summary
    title = f"{about['workload']} on {about['chip']}: {len(runs)} runs"
    return render.page(title, story.headline(about), sentence, [*comparison, *sections(best)])


def sections(run: PastRun) -> list[Section]:
    """All that is shown of one run: what changed, memory, ops, the search, what it was made with."""
    found: list[Section] = []
    if run.summary["best"] is not None:
        problem, best = run.problem, run.best_mapping()
        changes = gained(problem, best)
        if run.options.evaluator:
            changes = [
                replace(s, says=f"{MODELLED} {s.says}") if isinstance(s, Bars) or s.title == GAINED else s
                for s in changes
            ]
        found += changes
        if isinstance(problem, HasSections):
            found += problem.sections(best)
        found += memory(problem, best)
        if problem.about.alike and not isinstance(problem, HasPlacement):  # else choices are rules or moves
            found.append(nodes(problem, best))
    found += [*searching(run), *settings(run)]
    return [*found, glossary(about_of(run.summary), found)]
