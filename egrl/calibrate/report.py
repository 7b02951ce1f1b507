"""A calibration as lines of text, and a drawing of predicted against measured costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egrl.calibrate.calibration import Calibration
from egrl.calibrate.measured import Network
from egrl.figures.drawing import Drawing, plain

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
    lines += ["", *_beyond(report["beyond"]), *_not_learned(report), "", *_errors(report)]
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


def _not_learned(report: Mapping[str, Any]) -> list[str]:
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
