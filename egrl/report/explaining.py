"""The model by which the page of a run on a board explains what the best mapping gains, and how well it predicts.

A board says how long mappings take, and not why. The page explains by a chip file that is fitted to what the run has
measured, if that is enough and the fit predicts mappings that it has not seen better than the chip file does;
else by the chip file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from egrl.calibrate import fit
from egrl.calibrate.fit import MIN_MAPPINGS, networks
from egrl.methods.twin.proposer import SOURCES
from egrl.runs.past_run import Evaluations, PastRun
from egrl.runs.text import confirmed
from hwsim.baseline import noise_free_cost, with_baseline
from hwsim.capabilities import HasParts, explainer
from hwsim.explanation import OpTimes
from hwsim.family import HasFamily
from hwsim.problem import Floats, Mapping16, Problem
from hwsim.sections import Table

TWIN = ("twin", *SOURCES)
"""Sources of mappings that a twin proposed."""
FOLDS, SEED = 4, 0
"""Folds and seed of the cross-validation."""
NAME = "fitted"
"""The name of the chip that is fitted for a page."""


@dataclass(frozen=True)
class Explaining:
    """What explains a run's best mapping.

    Attributes:
        problem: the run's problem, or the same on a fitted chip file.
        says: which model that is and how well it predicts, in sentences; "" if it gave the run's costs.
        name: of the model in a sentence; "" likewise.
        why: why it does not explain what the board measured, in words; "" if it does.
    """

    problem: Problem
    says: str
    name: str = ""
    why: str = ""

    @property
    def holds(self) -> bool:
        """Whether what the model says of other mappings is worth reading."""
        return not self.why


def explaining(run: PastRun, best: Mapping16) -> Explaining:
    """What explains one mapping [N, H] of a run. InputError where the folder is damaged."""
    problem = run.problem
    if not run.options.evaluator or run.summary["best"] is None:
        return Explaining(problem, "")
    measured = float(run.summary["best"]["speedup"])
    found = _fitted(run)
    if found is None:
        says = f"{by_the_file(problem, best, measured)} {NOT_MEASURED}"
        return Explaining(problem, says, BY_FILE, _unexplained(run, problem, best))
    fitted, error, before, count = found
    says = (
        f"These times are those of a chip file that was fitted to the {count} mappings that the board measured, not the"
        f" board's own. On mappings it was not fitted to it is off by {error:.1%}, the original chip file by"
        f" {before:.1%} (root mean square). For the best mapping it predicts {_speedup(fitted, best):.4f}x; the board"
        f" measured {measured:.4f}x."
    )
    return Explaining(fitted, says, BY_FIT, _unexplained(run, fitted, best))


BY_FILE, BY_FIT = "the chip file", "a chip file fitted to the run's measurements"


def _unexplained(run: PastRun, problem: Problem, best: Mapping16) -> str:
    """Why a model does not explain the confirmed gain of a run's best mapping; "" if it does, or it is another one."""
    if not np.array_equal(best, run.best_mapping()):
        return ""
    if not confirmed(run.summary):
        return "the gain is not confirmed"
    speedup = float(run.summary["best"]["speedup"])
    low, high = run.summary["evaluator"].get("speedup_interval") or (speedup, speedup)
    predicted = _speedup(problem, best)
    if low * (1 - EXACT) <= predicted <= high * (1 + EXACT):
        return ""
    return f"it says {predicted:.4f}x where {low:.4f}x to {high:.4f}x was measured"


EXACT = 1e-4
"""Share by which a model may miss a speedup that is known exactly. Assumption."""
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
    the logarithm), and the number of mappings; None if these are few, or the fit predicts no better.
    """
    problem = run.problem
    if not isinstance(problem, HasFamily) or not _is_enough(run.evaluations()):
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


def _is_enough(found: Evaluations) -> bool:
    """Whether enough was measured to fit a chip file."""
    ran = np.isfinite(found.cost) & (found.cost > 0)
    different = len(np.unique(found.mapping[ran].reshape(int(ran.sum()), -1), axis=0))
    return different >= MIN_MAPPINGS


def _described(problem: HasFamily, found: fit.Fit) -> Problem:
    return problem.described(fit.shared(found), found.posterior.effects, NAME)[0]


def _rms(error: Floats) -> float:
    return float(np.sqrt(np.mean(error**2)))


WORST = 10
"""Parts that are shown to people on a terminal."""


@dataclass(frozen=True)
class Profiled:
    """Seconds of the K parts that are known of one mapping, the worst predicted first.

    Attributes:
        names: of the parts.
        measured_s: float64 [K], the mean of the profiles of that mapping.
        modelled_s: float64 [K], by the chip file.
        bound_by: what sets the time of each by the chip file (`OpTime.bound_by`); "" if it does not say.
    """

    names: tuple[str, ...]
    measured_s: Floats
    modelled_s: Floats
    bound_by: tuple[str, ...]

    def by_bound(self) -> dict[str, tuple[int, float, float]]:
        """For each thing that bounds parts: how many, and seconds measured and modelled; most seconds first."""
        found: dict[str, tuple[int, float, float]] = {}
        for bound, measured_s, modelled_s in zip(
            self.bound_by, self.measured_s.tolist(), self.modelled_s.tolist(), strict=True
        ):
            count, measured, modelled = found.get(bound, (0, 0.0, 0.0))
            found[bound] = (count + 1, measured + measured_s, modelled + modelled_s)
        return dict(sorted(found.items(), key=lambda item: -item[1][1]))

    def document(self) -> list[dict[str, Any]]:
        """For --json, one object per part."""
        rows = zip(self.names, self.bound_by, self.measured_s.tolist(), self.modelled_s.tolist(), strict=True)
        return [
            {"part": name, "bound_by": bound, "measured_s": measured, "modelled_s": modelled}
            for name, bound, measured, modelled in rows
        ]


def profiled(run: PastRun, mapping: Mapping16) -> Profiled | None:
    """The profile of one mapping [N, H] of a run; None if no board has profiled it.

    InputError where the folder is damaged.
    """
    problem = run.problem
    if not run.options.evaluator or not isinstance(problem, HasParts):
        return None
    found = run.evaluations()
    same = (found.mapping == mapping).all(axis=(1, 2)) & np.isfinite(found.parts).any(axis=1)
    modelled = problem.evaluate(mapping[None], np.zeros(1, np.uint64)).parts
    if not same.any() or modelled is None or found.parts.shape[1] != len(problem.parts):
        return None
    parts = found.parts[same].astype(np.float64)
    count = np.isfinite(parts).sum(axis=0)
    known = np.flatnonzero(count)
    measured_s = np.nan_to_num(parts).sum(axis=0)[known] / count[known]
    modelled_s = modelled[0].astype(np.float64)[known]
    explain = explainer(problem, OpTimes)
    bounds = {} if explain is None else {op.name: op.bound_by for op in explain(mapping).ops}
    order = np.argsort(-np.abs(measured_s - modelled_s), kind="stable")
    names = [problem.parts.names[k] for k in known[order]]
    return Profiled(
        tuple(names), measured_s[order], modelled_s[order], tuple(bounds.get(name, "") for name in names)
    )


def lines(found: Profiled) -> list[str]:
    """For a terminal: the worst predicted parts, then all by what bounds them."""
    wide = max(8, *(len(name) for name in (*found.names[:WORST], *found.bound_by)))
    rows = [f"{'profile':{wide}}  {'board':>10}  {'chip file':>10}  ratio  bound by"]
    rows += [
        _line(row["part"], wide, row["measured_s"], row["modelled_s"]) + f"  {row['bound_by']}"
        for row in found.document()[:WORST]
    ]
    if len(found.names) > WORST:
        rows.append(f"{len(found.names) - WORST} more, all predicted better (--json has them)")
    rows.append("")
    for bound, (count, measured_s, modelled_s) in found.by_bound().items():
        if bound:
            rows.append(_line(bound, wide, measured_s, modelled_s) + f"  {count} ops")
    return [*rows, ""]


def _line(name: str, wide: int, measured_s: float, modelled_s: float) -> str:
    ratio = f"{measured_s / modelled_s:5.2f}" if modelled_s > 0 else "    -"
    return f"{name:{wide}}  {1e6 * measured_s:7.2f} us  {1e6 * modelled_s:7.2f} us  {ratio}"


def table(run: PastRun, mapping: Mapping16) -> list[Table]:
    """For a page; empty if no board has profiled the mapping."""
    found = profiled(run, mapping)
    if found is None:
        return []
    by_bound: Mapping[str, tuple[int, float, float]] = found.by_bound()
    shares = [
        f"{bound}: {measured_s / modelled_s:.2f} times the chip file's ({count} ops)"
        for bound, (count, measured_s, modelled_s) in by_bound.items()
        if bound and modelled_s > 0
    ]
    says = "Worst predicted first: by the difference in seconds." + (
        f" By what bounds an op in the chip file: {'; '.join(shares)}." if shares else ""
    )
    rows = [
        [
            row["part"],
            row["bound_by"],
            row["measured_s"],
            row["modelled_s"],
            row["measured_s"] - row["modelled_s"],
        ]
        for row in found.document()
    ]
    columns = [("op", ""), ("bound by", ""), ("board", "s"), ("chip file", "s"), ("difference", "s")]
    return [Table("The board's profile beside the chip file", says, columns, rows)]
