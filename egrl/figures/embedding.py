"""Mappings of runs in two dimensions: as fast as the compiler's, the best, and the compiler's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.embedding import (
    BEST,
    COMPETITIVE,
    FEWEST,
    MOST,
    WITHIN,
    Groups,
    choose,
    embed,
    embedding_figure,
    hamming,
    measure,
)
from egrl.figures.repetitions import Drawing, check_alike, together
from egrl.runs.past_run import Evaluations, PastRun
from workloads.errors import InputError


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Mappings of runs in two dimensions: as fast as the compiler's, the best, and the compiler's own.

    InputError where the runs are not of one problem, one has no valid mapping, or all together have too few.
    """
    kept, remarks = together(runs)
    problem = kept[0].problem
    check_alike("umap", problem)
    live = problem.space.live
    past = [_valid(run) for run in kept]
    searched = [(found.mapping[:, live], found.speedup) for found in past]
    compiler = problem.baseline.mapping[live]
    groups = choose(searched, compiler)
    best = groups.best
    pairs = list(zip(groups.run.tolist(), groups.index.tolist(), strict=True))
    speedup = np.array([past[run].speedup[index] for run, index in pairs])
    _check(kept, past, groups)
    distance = hamming(np.stack([*(searched[run][0][index] for run, index in pairs), compiler]))
    distances = measure(distance, best, groups.run)
    points = embed(distance)
    baseline_name = problem.about.baseline_name
    title = f"{problem.about.workload} on {problem.about.chip}: mappings as fast as {baseline_name}'s, and the best"
    short = [run.path.name for run in kept]
    names = short if len(set(short)) == len(short) else [str(run.path) for run in kept]
    figure = embedding_figure(points, best, groups.run, names, distances, title, baseline_name)
    numbers = {
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "runs": [str(run.path) for run in kept],
        "competitive_within": WITHIN,
        "most": MOST,
        "live_decisions": int(live.sum()),
        "distances": distances,
        "group": [BEST if member else COMPETITIVE for member in best.tolist()],
        "run": groups.run,
        "evaluation": [int(past[run].ticket[index]) for run, index in pairs],
        "speedup": speedup,
        "embedding": points[:-1],
        "compiler": points[-1],
    }
    return Drawing(figure, numbers, [*remarks, *_remarks(kept, past, speedup[best])])


def _valid(run: PastRun) -> Evaluations:
    """The evaluations of the run. InputError if none is valid."""
    if run.summary.get("best") is None:
        raise InputError(f"{run.path}: expected a run with a valid mapping, found none yet")
    found = run.evaluations()
    if not (found.speedup > 0).any():
        raise InputError(
            f"{run.path / 'mappings'}: expected evaluations of valid mappings, found none of {len(found.ticket)}"
        )
    return found


def _check(runs: Sequence[PastRun], past: Sequence[Evaluations], groups: Groups) -> None:
    """InputError where there are too few mappings, saying how many there are and how many are needed."""
    where = ", ".join(str(run.path) for run in runs)
    best, competitive = int(groups.best.sum()), int((~groups.best).sum())
    if competitive < 2:
        fastest = max(float(found.speedup.max()) for found in past)
        raise InputError(
            f"{where}: expected at least 2 distinct mappings of a speedup from {1 - WITHIN:g} to {1 + WITHIN:g} besides"
            f" the best and the compiler's own, found {competitive} (the fastest has {fastest:.4f})"
        )
    if best < 2 or best + competitive + 1 < FEWEST:
        raise InputError(
            f"{where}: expected at least {FEWEST - 1} distinct mappings, 2 of them of the best tenth, found"
            f" {best + competitive} and {best}; a longer run has more"
        )


def _remarks(runs: Sequence[PastRun], past: Sequence[Evaluations], best: NDArray[np.float64]) -> list[str]:
    found = [
        f"{run.path} starts from {run.start}, not cold as in the paper: its mappings were near to that"
        " start from the beginning"
        for run in runs
        if run.summary["start"] != "cold"
    ]
    if best.min() <= 1 + WITHIN:
        found.append(
            f"{int((best <= 1 + WITHIN).sum())} of the {len(best)} best mappings are at most {1 + WITHIN:g}x as fast as"
            " the compiler's: the two groups hardly differ in speed"
        )
    for run, kept in zip(runs, past, strict=True):
        if kept.ticket[0] > 0:
            found.append(f"{run.path} keeps no mappings of its first {kept.ticket[0]} evaluations")
    return found
