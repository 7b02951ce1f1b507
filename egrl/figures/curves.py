"""Figures along evaluations and trainings: what was found so far, and what policies are worth on other workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.curves import Curve, bands, learning_curves
from egrl.figures.repetitions import (
    Drawing,
    PlottedRun,
    common_start,
    comparable,
    distinct,
    labels,
)
from egrl.runs.config import RunOptions
from egrl.runs.past_run import PastRun, course_of
from egrl.runs.text import about_of, drawn_baseline_text, start_word
from egrl.transfer import zero_shot as transfer
from workloads.errors import InputError

if TYPE_CHECKING:
    from analysis.transfer import Transfer


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Learning curves of run folders: one curve per run, a band for repetitions.

    Speedup over the compiler of the best mapping so far, against evaluations. Runs that differ only in seed and
    budget are one curve, their mean, in a band; thin lines are the deployable policies', the dashed line is the
    bound.

    Numbers: `bound` (no higher speedup is possible), and a curve for each label with `mean`, `deviation` (of the
    sample) and `deployable` (the policy's) by `evaluations`.

    InputError where the runs cannot stand in one figure.
    """
    kept, remarks = distinct(comparable(runs))
    curves = [read_curve(run.path, run.summary, label) for run, label in zip(kept, labels(kept), strict=True)]
    remarks += cut(curves, [run.path for run in kept])
    remarks += unconfirmed(curves, kept)
    start = common_start(kept)
    title = f"{kept[0].summary['workload']} on {kept[0].summary['chip']}"
    bound = min((run.bound for run in kept if run.bound is not None), default=None)
    try:
        named = title + (f", {start} start" if start else "")
        about = about_of(kept[0].summary)
        figure = learning_curves(curves, named, bound, drawn_baseline_text(about), about.evaluated)
        numbers = {"bound": bound, "curves": bands(curves)}
    except ValueError as error:
        raise InputError(f"plot: {error}") from error
    return Drawing(figure, numbers, remarks)


def cut(curves: Sequence[Curve], paths: Sequence[Path]) -> list[str]:
    """A line about each run that goes on beyond what all its repetitions have, which is as far as a band goes."""
    found = []
    for curve, path in zip(curves, paths, strict=True):
        end = min(int(other.evaluations[-1]) for other in curves if other.label == curve.label)
        if curve.evaluations[-1] > end:
            found.append(
                f"{path} has {curve.evaluations[-1]} evaluations; shown are the {end} that all runs of"
                f" {curve.label!r} have"
            )
    return found


def unconfirmed(curves: Sequence[Curve], runs: Sequence[PlottedRun]) -> list[str]:
    """A line about each run on a noisy board whose best was not measured again as it went."""
    return [
        f"{run.path}: the best single measurement, which noise flatters: nothing was measured again"
        for curve, run in zip(curves, runs, strict=True)
        if curve.low is None and (run.summary.get("evaluator") or {}).get("noise")
    ]


def read_curve(run: Path, summary: Mapping[str, Any], label: str | None = None) -> Curve:
    """The learning curve in metrics.csv: of a run on a noisy board, what holds of the best, with its interval.

    Its label is by default the method and the start. InputError where the file is missing or damaged.
    """
    if label is None:
        label = f"{summary['method']}, {start_word(about_of(summary).baseline_name, summary['start'])} start"
    course = course_of(run, summary)
    if course.confirmed is None:
        return Curve(label, course.evaluations, course.best, course.policy)
    value, low, high = course.confirmed.T
    # The policy's best is as it was measured: beside what holds, its luck would look like merit.
    return Curve(label, course.evaluations, value, None, low, high)


ANY_BASELINE = "the baseline"


@dataclass(frozen=True)
class Transferred:
    """A folder, its transfer.json, and the problem that its policies are for."""

    path: Path
    document: dict[str, Any]
    problem: str = RunOptions.problem


def read(path: Path, problem: str = "") -> Transferred:
    """A folder whose policies were placed; the user may have named their `problem`, too.

    InputError where nothing was transferred from that folder yet.
    """
    document = transfer.read(path)
    if document is None:
        raise InputError(
            f"{path}: expected {transfer.DOCUMENT}, found none; `egrl transfer {path} --workload W,…` makes it"
        )
    source = transfer.read_policies(path, problem)
    if document["generations"] != [step.generation for step in source.steps]:
        raise InputError(
            f"{path / transfer.DOCUMENT}: out of date: the folder has other policies by now; `egrl transfer {path}"
            " --workload W,…` makes it anew"
        )
    return Transferred(path, {**document, "chosen": source.chosen}, source.problem)


def baseline_name_of(given: Sequence[Transferred]) -> str:
    """The name of the baseline of the speedups; "the baseline" if there are several."""
    names = {target.get("rival") for each in given for target in each.document["targets"]}
    return str(names.pop() or ANY_BASELINE) if len(names) == 1 else ANY_BASELINE


def arrays(given: Sequence[Transferred]) -> list[Transfer]:
    """Each folder's document as arrays. InputError where one target is not the same problem in all."""
    from analysis.transfer import Transfer

    marks: dict[str, tuple[str, Path]] = {}
    for each in given:
        for target in each.document["targets"]:
            mark, path = marks.setdefault(target["workload"], (target["fingerprint"], each.path))
            if mark != target["fingerprint"]:
                raise InputError(
                    f"plot: {target['workload']}: expected one problem, found another chip, workload or settings in"
                    f" {path} and {each.path}"
                )
    labels = [each.document["policies"] for each in given]
    named = [
        f"{label} ({each.path.name})" if labels.count(label) > 1 else label
        for label, each in zip(labels, given, strict=True)
    ]
    return [
        Transfer(
            name,
            tuple(each.document["trained_on"]),
            np.array(each.document["evaluations"], dtype=np.int64),
            tuple(target["workload"] for target in each.document["targets"]),
            np.array([target["speedup"] for target in each.document["targets"]], dtype=np.float64),
            each.document["generations"].index(each.document["chosen"]),
        )
        for name, each in zip(named, given, strict=True)
    ]


def held_out(found: Sequence[Transfer]) -> tuple[str, ...]:
    """The targets that all trainings were placed on and none was trained on. InputError where there are none."""
    trained = {name for each in found for name in each.trained_on}
    common = [name for name in found[0].targets if all(name in each.targets for each in found)]
    names = tuple(name for name in common if name not in trained)
    if not names:
        raise InputError(
            "plot: expected a workload that all policies were placed on and none was trained on, found none among"
            f" {', '.join(dict.fromkeys(name for each in found for name in each.targets))}"
        )
    return names


def draw_transfer(runs: Sequence[Transferred]) -> Drawing:
    """policies along training, on workloads without training (EGRL, Figure 4).

    A panel for each folder that `egrl transfer` was given, one line per target, the compiler at 1. Thick is what the
    policies were trained on; the dotted line is the deployed policy. Lines that fall to the right are overfitting; one
    that leaves the frame below belongs to a mapping that did not run.

    InputError where their targets are not the same problems.
    """
    from analysis.transfer import transfer_curves

    found = arrays(runs)
    title = "Zero-shot transfer: policies placed on workloads without training"
    return Drawing(transfer_curves(found, title, baseline_name_of(runs)), {"transfers": found})


def draw_zeroshot(runs: Sequence[Transferred]) -> Drawing:
    """The deployed policies of several trainings on workloads that none of them was trained on.

    The deployed policy of each folder, a row each, the best above: one marker per target, and a black bar for the
    geometric mean. Only targets count that all folders were placed on and no folder was trained on.

    InputError where nothing is held out from all.
    """
    from analysis.transfer import means, zero_shot

    found = arrays(runs)
    names = held_out(found)
    trained = {name for each in found for name in each.trained_on}
    left_out = [name for name in found[0].targets if name in trained]
    rows = [
        {
            "policies": each.policies,
            "speedup": [each.speedup[each.targets.index(name), each.deployed] for name in names],
            "mean": means(each, names)[each.deployed],
        }
        for each in found
    ]
    return Drawing(
        zero_shot(
            found, names, f"Deployed policies on {len(names)} held-out workloads", baseline_name_of(runs)
        ),
        {"targets": list(names), "rows": rows},
        [f"{', '.join(left_out)}: left out, a policy was trained there"] if left_out else [],
    )
