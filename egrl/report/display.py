"""Pages and parts of them in notebooks: each in a frame of its own, so that styles and scripts stay apart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from egrl.report import render
from egrl.report.changes import gained, nodes
from egrl.report.memory import memory
from egrl.report.page import page_of
from egrl.runs.past_run import PastRun
from hwsim.problem import Mapping16, Problem
from hwsim.sections import HasSections, Section


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
    what = f"{about.workload} on {about.chip}: a mapping beside {about.baseline_name}"
    sentence = f"{changed:,} of {int(space.live.sum()):,} decisions differ from {about.baseline_name}."
    return Shown(render.page(what, about.workload, sentence, found), what)
