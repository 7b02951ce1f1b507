"""All that a calibration says: the description fitted, what was learned, what was not, and how well it predicts."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from egrl.calibrate import fit
from egrl.calibrate.fit import Network
from egrl.figures.repetitions import Drawing, plain
from hwsim.capabilities import HasParts
from hwsim.chip_file import with_prediction
from hwsim.family import Estimate, Family, Parameter
from hwsim.problem import Floats
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
        "constants": [_row(p, constants[p.name]) for p in by_file.stack.parameters if p.name in constants],
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
    """Of each effect whether it is there, whether it was before, and the odds for that."""
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


NAMED = 12
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
    return f"{row['name']:<32}{before:>12.4g}{before * row['factor']:>12.4g}   {interval}"


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
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    found = f"{', '.join(names[:NAMED])}{more}" if names else "no constant"
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
