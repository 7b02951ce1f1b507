"""The model by which the page of a run on a board explains what the best mapping gains, and how well it predicts.

A board says how long mappings take, and not why. The page explains by a chip file that is fitted to what the run has
measured, if the run learned from it and the fit predicts mappings that it has not seen better than the chip file does;
else by the chip file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from egrl.calibrate import fit
from egrl.calibrate.measured import MIN_MAPPINGS, networks
from egrl.methods.twin.proposer import SOURCES
from egrl.runs.past_run import Evaluations, PastRun
from hwsim.baseline import noise_free_cost, with_baseline
from hwsim.family import HasFamily
from hwsim.problem import Floats, Mapping16, Problem

TWIN = ("twin", *SOURCES)
"""Sources of mappings that a twin proposed."""
FOLDS, SEED = 4, 0
"""Of the cross-validation."""
NAME = "fitted"
"""Of the chip that is fitted for a page."""


@dataclass(frozen=True)
class Explaining:
    """What explains a run's best mapping.

    Attributes:
        problem: the run's problem, or the same on a fitted chip file.
        says: which model that is and how well it predicts, in sentences; "" if it gave the run's costs.
    """

    problem: Problem
    says: str


def explaining(run: PastRun, best: Mapping16) -> Explaining:
    """What explains one mapping [N, H] of a run. InputError where the folder is damaged."""
    problem = run.problem
    if not run.options.evaluator or run.summary["best"] is None:
        return Explaining(problem, "")
    measured = float(run.summary["best"]["speedup"])
    found = _fitted(run)
    if found is None:
        return Explaining(problem, f"{by_the_file(problem, best, measured)} {NOT_MEASURED}")
    fitted, error, before, count = found
    says = (
        f"These times are those of a chip file that was fitted to the {count} mappings that the board measured, not the"
        f" board's own. On mappings it was not fitted to it is off by {error:.1%}, the original chip file by"
        f" {before:.1%} (root mean square). For the best mapping it predicts {_speedup(fitted, best):.4f}x; the board"
        f" measured {measured:.4f}x."
    )
    return Explaining(fitted, says)


NOT_MEASURED = "These times are the chip file's, not the board's."


def by_the_file(problem: Problem, best: Mapping16, measured: float) -> str:
    """How far the chip file's speedup of one mapping [N, H] is from the one that a board measured, as a sentence."""
    predicted = _speedup(problem, best)
    off = abs(predicted / measured - 1.0) if measured > 0 else float("nan")
    return (
        f"A board measured {measured:.4f}x; by the chip file it is {predicted:.4f}x, so the file misses the measured"
        f" speedup by {off:.1%}."
    )


def _speedup(problem: Problem, best: Mapping16) -> float:
    """By the problem's model, over its baseline."""
    return noise_free_cost(problem, problem.baseline.mapping) / noise_free_cost(problem, best)


def _fitted(run: PastRun) -> tuple[Problem, float, float, int] | None:
    """The problem on a chip file fitted to a run, its held-out error, that of the file as it was (root mean squares of
    the logarithm), and the number of mappings; None if the run has no twin, or the fit predicts no better.
    """
    problem = run.problem
    if not isinstance(problem, HasFamily) or not _learned(run.evaluations()):
        return None
    measured = networks([run])
    by_file = fit.fit_of(measured, fit.describable(measured))
    (network,) = measured
    log_cost = np.log(network.cost)
    held_out = fit.held_out(measured, FOLDS, SEED, by_file, by_file)["fitted"]
    error, before = (_rms(each - log_cost) for each in (held_out, fit.nominal(measured)))
    if error >= before:
        return None
    described = _described(problem, by_file)
    own = with_baseline(described, problem.baseline.mapping, problem.about.baseline_name, str(run.path))
    return own, error, before, len(log_cost)


def _learned(found: Evaluations) -> bool:
    """Whether a twin proposed mappings, and enough was measured to fit a chip file."""
    ran = np.isfinite(found.cost) & (found.cost > 0)
    different = len(np.unique(found.mapping[ran].reshape(int(ran.sum()), -1), axis=0))
    return bool(np.isin(found.source, TWIN).any()) and different >= MIN_MAPPINGS


def _described(problem: HasFamily, found: fit.Fit) -> Problem:
    return problem.described(fit.shared(found), found.posterior.effects, NAME)[0]


def _rms(error: Floats) -> float:
    return float(np.sqrt(np.mean(error**2)))
