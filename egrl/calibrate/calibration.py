"""All that a calibration says: the description fitted, what was learned, what was not, and how well it predicts.

Which mappings to measure next, so that all others are predicted best (an experimental design), and their measuring.

Greedy: each time the candidate whose measurement lowers the posterior variance most, summed over all candidates and
networks. Measurements do not matter for that as long as the family is nearly linear, so that a design is made at once.

Source: integrated variance as in Cohn (Neural Networks 9, 1996), of the posterior that the family has with its
discrepancy (`egrl.methods.twin.inference`).

Deviation: the effects that are on are taken for granted.

What is measured is kept in RUN/calibration/ as a run's evaluations are in RUN/mappings/, so that every later
calibration has it; and in measurements.jsonl there, so that a mapping is paid for once.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from egrl.calibrate import fit
from egrl.calibrate.fit import MEASURED_FOR_IT, Network
from egrl.core.archive import Archive, proposals
from egrl.figures.repetitions import Drawing, plain
from egrl.measure.config import EvaluatorConfig
from egrl.measure.evaluator import board_executor
from egrl.runs import chunks
from egrl.runs.folder import RunFolder
from egrl.runs.past_run import PastRun
from hwsim.capabilities import HasParts
from hwsim.chip_file import with_prediction
from hwsim.family import Estimate, Family, Parameter
from hwsim.mappings import repair
from hwsim.problem import Evaluation, Floats, Mapping16, Problem
from workloads.text import csv_cell

KIND, VERSION = "calibration", 1
MOST_LOG = 50.0
"""Larger log odds are reported as this."""


@dataclass(frozen=True)
class Calibration:
    """What came of it.

    Attributes:
        text: the fitted description.
        single: as CSV: a factor for what belongs to one node, or to nodes that are equal.
        document: all else, as JSON can hold it.
        measured: float64 [M], log costs, network by network.
        predicted: float64 [M] each, by the description as it was (`nominal`), and, held out, by the description
            fitted (`fitted`) and by all that was learned (`posterior`); the last two only where there are folds.
    """

    text: str
    single: str
    document: dict[str, Any]
    measured: Floats
    predicted: dict[str, Floats]


def calibrate(networks: Sequence[Network], name: str, folds: int, seed: int) -> Calibration:
    """Fit the description of the board of some networks.

    Args:
        networks: what was measured, see `egrl.calibrate.fit`.
        name: of the board in the description.
        folds: of the cross-validation; 0: none.
        seed: of the folds.

    Raises:
        InputError: the name is none for a board.
    """
    sayable = fit.describable(networks)
    fit.check_name(networks, name)
    by_all = fit.fit_of(networks, None)
    within = by_all.posterior.effects <= frozenset(sayable)
    by_file = by_all if within else fit.fit_of(networks, sayable)
    measured = np.log(np.concatenate([network.cost for network in networks]))
    predicted = {"nominal": fit.nominal(networks)}
    families, text = fit.described(networks, by_file, name)
    if folds:
        predicted |= fit.held_out(networks, folds, seed, by_file, by_all)
        text = with_prediction(text, _rms(predicted["fitted"] - measured))
    constants = fit.shared(by_file)
    effects, share = fit.beyond(by_all, sayable)
    document = {
        "kind": KIND,
        "version": VERSION,
        "networks": [{"workload": network.name, "measurements": len(network.cost)} for network in networks],
        "constants": [
            {**_row(p, constants[p.name]), "new": p.effect not in ("", *by_file.stack.nominal)}
            for p in by_file.stack.parameters
            if p.name in constants
        ],
        "effects": _effects(by_all, sayable),
        "beyond": {
            "effects": sorted(effects),
            "share_of_cost": share,
            "terms": [
                _row(p, estimate)
                for p, estimate in zip(by_all.stack.parameters, by_all.estimates(), strict=True)
                if p.effect in effects
            ],
        },
        "not_learned": _not_learned(by_file),
        "own_not_learned": _own_not_learned(by_file),
        "unexplained": math.hypot(by_all.posterior.scales.noise, by_all.posterior.scales.discrepancy),
        "folds": folds,
        "rms_log_error": {
            **{key: _rms(values - measured) for key, values in predicted.items()},
            "fitted_seen": _rms(fit.simulated(families, networks) - measured),
        },
        "kinds": _kinds(networks, families),
    }
    return Calibration(text, _single(networks, by_file), document, measured, predicted)


def _kinds(networks: Sequence[Network], families: Sequence[Family]) -> list[dict[str, Any]]:
    """How well the time of each kind of op is predicted, the kind that takes longest first; empty without profiles."""
    found: dict[str, list[Floats]] = {}
    for network, fitted in zip(networks, families, strict=True):
        problem = network.problem
        if network.parts is None or not isinstance(problem, HasParts) or not problem.parts.kinds:
            continue
        rows = np.flatnonzero(np.isfinite(network.parts).any(axis=1))
        models = [
            each.part_times(fit.itself(each), network.mapping[rows]) for each in (network.family, fitted)
        ]
        if None in models:
            continue
        times = np.stack([network.parts[rows], *(model.seconds for model in models if model is not None)])
        known = np.isfinite(times[0]) & (times > 0).all(axis=0)
        kind = np.broadcast_to(np.array(problem.parts.kinds), known.shape)
        for name in dict.fromkeys(problem.parts.kinds):
            found.setdefault(name, []).append(times[:, known & (kind == name)])
    joined = {name: np.concatenate(times, axis=1) for name, times in found.items()}
    total = sum(float(times[0].sum()) for times in joined.values())
    kinds: list[dict[str, Any]] = [
        {
            "kind": name,
            "share_of_time": float(times[0].sum()) / total,
            "nominal": _rms(np.log(times[1] / times[0])),
            "fitted": _rms(np.log(times[2] / times[0])),
        }
        for name, times in joined.items()
        if times.shape[1]
    ]
    return sorted(kinds, key=lambda row: -row["share_of_time"])


def _rms(error: Floats) -> float:
    return float(np.sqrt(np.mean(error**2)))


def _row(parameter: Parameter, estimate: Estimate) -> dict[str, Any]:
    before = None if math.isnan(parameter.nominal) else parameter.nominal
    return {
        "name": parameter.name,
        "unit": parameter.unit,
        "before": before,
        "factor": estimate.factor,
        "interval": [estimate.low, estimate.high],
    }


def _effects(found: fit.Fit, sayable: Sequence[str]) -> list[dict[str, Any]]:
    """For each effect: whether it is there, whether it was before, and the odds for that."""
    return [
        {
            "name": effect,
            "on": effect in found.posterior.effects,
            "before": effect in found.stack.nominal if effect in sayable else None,
            "log_odds": float(np.clip(odds, -MOST_LOG, MOST_LOG)),
        }
        for effect, odds in found.odds().items()
    ]


def _not_learned(found: fit.Fit) -> list[str]:
    """Parameters of the board about which the measurements say next to nothing."""
    return [
        p.name
        for p, share in zip(found.stack.parameters, found.learned(), strict=True)
        if p.shared and share > fit.LEARNED and p.effect in ("", *found.posterior.effects)
    ]


def _own_not_learned(found: fit.Fit) -> dict[str, int]:
    """How many parameters of single nodes there are, and of how many the measurements say next to nothing."""
    own = np.array([not p.shared for p in found.stack.parameters])
    return {"of": int(own.sum()), "count": int((own & (found.learned() > fit.LEARNED)).sum())}


def _single(networks: Sequence[Network], found: fit.Fit) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["workload", "parameter", "factor", "low", "high", "spread_left"])
    for p, number, estimate, left in zip(
        found.stack.parameters, found.stack.network.tolist(), found.estimates(), found.learned(), strict=True
    ):
        if number >= 0:
            figures = (estimate.factor, estimate.low, estimate.high, left)
            rows.writerow(
                [csv_cell(networks[number].name), csv_cell(p.name), *(f"{figure:.4g}" for figure in figures)]
            )
    return out.getvalue()


MAX_NAMED = 12
"""Most names of parameters that were not learned."""

FAR_OFF = 0.5
"""Error of a kind of op, after the fit, from which on that is said. Assumption."""


def text_of(report: Mapping[str, Any]) -> str:
    """A calibration's document as lines."""
    networks = ", ".join(f"{each['workload']} {each['measurements']}" for each in report["networks"])
    lines = [
        f"measured mappings: {networks}; noise and what no constant explains: {report['unexplained']:.2%}",
        "",
    ]
    lines += [f"{'constant':<32}{'before':>12}{'fitted':>12}   90 % interval"]
    lines += [_constant(row) for row in report["constants"]]
    lines += ["", f"{'effect':<14}{'before':<8}{'found':<8}odds"]
    lines += [_effect(row) for row in report["effects"]]
    lines += ["", *_beyond(report["beyond"]), *_not_learned_note(report), "", *_errors(report)]
    return "\n".join(lines)


def _constant(row: Mapping[str, Any]) -> str:
    before, (low, high) = row["before"], row["interval"]
    unit = f" {row['unit']}" if row["unit"] else ""
    interval = f"{before * low:.4g} to {before * high:.4g}{unit}"
    was = "-" if row.get("new") else f"{before:.4g}"
    return f"{row['name']:<32}{was:>12}{before * row['factor']:>12.4g}   {interval}"


def _effect(row: Mapping[str, Any]) -> str:
    before = {True: "on", False: "off", None: "-"}[row["before"]]
    odds = abs(row["log_odds"])
    shown = f"{math.exp(odds):.3g} : 1" if odds < math.log(1e4) else "over 10000 : 1"
    sure = "" if (row["log_odds"] > 0) == row["on"] else " against"
    return f"{row['name']:<14}{before:<8}{'on' if row['on'] else 'off':<8}{shown}{sure}"


def _beyond(beyond: Mapping[str, Any]) -> list[str]:
    if not beyond["effects"]:
        return ["the chip file has all that was found, except factors of single ops"]
    lines = [
        f"found, but a chip file cannot express it: {', '.join(beyond['effects'])},"
        f" {beyond['share_of_cost']:.1%} of the cost on average"
    ]
    return lines + [f"  {_constant(row)}" for row in beyond["terms"]]


def _not_learned_note(report: Mapping[str, Any]) -> list[str]:
    names, own = report["not_learned"], report["own_not_learned"]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    found = f"{', '.join(names[:MAX_NAMED])}{more}" if names else "no constant"
    return [
        "not learned from these measurements (more than 80 % of the first uncertainty is left):",
        f"  {found}; {own['count']} of {own['of']} factors of single ops, tensors and shapes",
    ]


def _errors(report: Mapping[str, Any]) -> list[str]:
    error = report["rms_log_error"]
    lines = [
        "error of predictions (root mean square of the logarithm):",
        f"  {'the chip file before':<52}{error['nominal']:.2%}",
        f"  {'the fitted file, on the mappings it was fitted to':<52}{error['fitted_seen']:.2%}",
    ]
    if report["folds"]:
        lines += [
            f"  {'the fitted file, on other mappings':<52}{error['fitted']:.2%}",
            f"  {'with the factors of single ops, on other mappings':<52}{error['posterior']:.2%}",
        ]
    if report["kinds"]:
        lines += ["", f"{'profiles, error by kind of op':<32}{'of the time':>12}{'before':>12}{'fitted':>12}"]
        lines += [
            f"  {row['kind']:<30}{row['share_of_time']:>12.1%}{row['nominal']:>12.2%}{row['fitted']:>12.2%}"
            for row in report["kinds"]
        ]
    off = [f"{row['kind']} by {row['fitted']:.0%}" for row in report["kinds"] if row["fitted"] > FAR_OFF]
    if off:
        lines.append(
            f"still off by more than {FAR_OFF:.0%}: {', '.join(off)}: the model lacks an effect that decides these"
            " ops on the board; do not rely on placements that depend on them"
        )
    if is_worse(report):
        lines.append("the fitted file predicts worse than the original: keep the original")
    return lines


def is_worse(report: Mapping[str, Any]) -> bool:
    """Whether the fitted file predicts worse than the one before."""
    error = report["rms_log_error"]
    return bool(error["fitted" if report["folds"] else "fitted_seen"] > error["nominal"])


def drawing(networks: Sequence[Network], found: Calibration) -> Drawing:
    """A panel for the description as it was, and one each for the fitted one and all that was learned, held out."""
    from analysis.calibration import Predicted, calibration_figure

    titles = {
        "nominal": "the chip file before",
        "fitted": "the fitted file, held out",
        "posterior": "all that was learned, held out",
    }
    panels = [
        Predicted(titles[name], np.exp(found.measured), np.exp(log_cost))
        for name, log_cost in found.predicted.items()
    ]
    names = [network.name for network in networks]
    sizes = [len(network.cost) for network in networks]
    network = np.repeat(np.arange(len(networks)), sizes)
    numbers = {"networks": names, "network": network, "panels": panels}
    return Drawing(calibration_figure(panels, network, names), plain(numbers))


CANDIDATES = 400
"""Candidates for all networks together."""
CHANGED = (0.02, 0.1, 0.5)
"""Shares of the decisions that are drawn anew, in turn."""
BEST_MAPPINGS = 5
"""Measured mappings, beside the rules, that candidates are changes of."""


def choose(networks: Sequence[Network], count: int, seed: int) -> list[Mapping16]:
    """New mappings int16 [K, N, H] of each network, `count` of them in all, fewer where there are no more."""
    rng = np.random.default_rng([seed, 1])
    each = -(-CANDIDATES // len(networks))
    drawn = [candidates(network, each, rng) for network in networks]
    found = fit.fit_of(networks, None)
    rows = found.stack.rows(drawn)
    chosen = np.sort(greedy(found.posterior.joint(rows), found.posterior.scales.noise, count))
    ends = np.cumsum([len(part) for part in drawn])
    parts = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    first = [0, *ends[:-1].tolist()]
    return [part[at - begin] for part, at, begin in zip(drawn, parts, first, strict=True)]


def greedy(covariance: Floats, noise: float, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions of `count` of B candidates with a joint covariance float64 [B, B], in the order of choosing."""
    left, chosen = covariance.copy(), np.zeros(len(covariance), np.bool_)
    order = []
    for _ in range(min(count, len(left))):
        variance = np.diag(left) + noise**2
        gain = np.where(chosen, -np.inf, np.square(left).sum(axis=0) / variance)
        at = int(np.argmax(gain))
        chosen[at] = True
        order.append(at)
        left -= np.outer(left[:, at], left[:, at]) / variance[at]
    return np.array(order, np.int64)


def candidates(network: Network, count: int, rng: np.random.Generator) -> Mapping16:
    """Different mappings int16 [K, N, H] that were not measured: the rules, and changes of them and of the best."""
    problem, space = network.problem, network.problem.space
    rules = list(problem.baseline.rules().values()) or [problem.baseline.mapping]
    best = network.mapping[np.argsort(network.cost, kind="stable")[:BEST_MAPPINGS]]
    bases = np.concatenate([np.stack(rules), best])
    changed = []
    for number in range(count):
        base = bases[number % len(bases)]
        drawn = rng.integers(0, np.maximum(space.num_choices, 1)).astype(np.int16)
        anew = space.live & (rng.random(base.shape) < CHANGED[number // len(bases) % len(CHANGED)])
        changed.append(np.where(anew, drawn, base))
    rows = np.concatenate([np.stack(rules), _valid(problem, np.stack(changed), rng)])
    measured = {row.tobytes() for row in network.mapping}
    new = {row.tobytes(): row for row in rows if row.tobytes() not in measured}
    return np.stack(list(new.values())) if new else rows[:0]


def _valid(problem: Problem, mapping: Mapping16, rng: np.random.Generator) -> Mapping16:
    """What runs of mappings [B, N, H], where something does."""
    keys = rng.integers(2**63, size=len(mapping)).astype(np.uint64)
    found = problem.evaluate(repair(problem, mapping, keys), keys)
    return found.repaired[np.isfinite(found.cost)]


WAIT_S = 0.2


def measure(run: PastRun, mapping: Mapping16, evaluator: str, workers: int) -> None:
    """Measure mappings int16 [K, N, H] once each with a command, on so many boards, and keep them.

    InputError where the command is none or the run is going on; RunFailure where the board cannot measure.
    """
    problem, archive = run.problem, Archive([run.problem])
    config = replace(EvaluatorConfig(), repeats=1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(RunFolder.reopen(run.path)))
        boards = stack.enter_context(
            contextlib.closing(board_executor(problem, evaluator, workers, config, None))
        )
        boards.remedy = "give the evaluator of the run, or a run of this board"
        boards.attach(run.path)
        boards.measure_baseline()
        asked = proposals(mapping, MEASURED_FOR_IT).numbered(0)
        boards.submit(asked, np.zeros(len(mapping), np.uint64))
        done: dict[int, Evaluation] = {}
        while len(done) < len(mapping):
            for part, evaluation in boards.ready(WAIT_S):
                done |= {
                    ticket: evaluation.rows(slice(row, row + 1))
                    for row, ticket in enumerate(part.tickets.tolist())
                }
        first = sum(chunk.end - chunk.first for chunk in chunks.listing(run.path / MEASURED_FOR_IT))
        archive.skip(first)
        found = Evaluation.concatenate([done[ticket] for ticket in range(len(mapping))])
        archive.append(proposals(mapping, MEASURED_FOR_IT).numbered(first), found)
        chunks.write(run.path / MEASURED_FOR_IT, archive, first)


def measure_some(
    runs: Sequence[PastRun],
    networks: Sequence[Network],
    count: int,
    evaluator: str,
    workers: int,
    seed: int,
) -> None:
    """Measure the `count` mappings of some networks that say most, and keep them with the first run of each."""
    for network, mapping in zip(networks, choose(networks, count, seed), strict=True):
        if len(mapping):
            first = next(run for run in runs if run.problem.fingerprint() == network.problem.fingerprint())
            measure(first, mapping, evaluator, workers)
