"""The summary of an exploration: its table, and the gain from more of each parameter, in numbers and words.

A gain is a speedup less 1, as everywhere. Two neighbouring points a and b with costs of the best mappings found, F, and
proven bounds, L: the best possible costs lie in [L, F], so what the step gains, cost(a) / cost(b) - 1, lies between
L(a) / F(b) - 1 and F(a) / L(b) - 1. These limits are proved; F(a) / F(b) - 1 is what was found. Multipliers of a
relaxation are not used: they are exact for the relaxation alone, while differences say something of the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from egrl.exploration.grid import Grid, Parameter
from egrl.exploration.run import Explored
from egrl.figures.repetitions import plain
from egrl.runs.text import OPTIMAL, baseline_text, cost_text, short_baseline_text
from hwsim.problem import Problem
from workloads.text import UNKNOWN, csv_table, optional, size_text, table

LITTLE = 0.01
"""A remaining gain up to the end of a range counts as little below this share."""
WIDE = 0.02
"""A gap above this is wide: texts say what narrows it."""
SHARE = 1.1
"""For parameters that are not in bytes, the worth of a tenth more is reported."""


def document(found: Sequence[Explored], seed: int, time_limit_s: float) -> dict[str, Any]:
    """explore.json."""
    about, grid = found[0].problem.about, found[0].grid
    parameters = [
        {
            "path": p.path,
            "label": p.label,
            "unit": p.unit[1],
            "unit_size": p.unit[0],
            "values": p.values,
            "own": p.own,
        }
        for p in grid.parameters
    ]
    return plain(
        {
            "kind": "exploration",
            "version": 2,
            "problem": about.name,
            "chip": about.chip,
            "unit": about.unit,
            "seed": seed,
            "seconds_per_point": time_limit_s,
            "parameters": parameters,
            "workloads": [_workload(each) for each in found],
        }
    )


def _workload(explored: Explored) -> dict[str, Any]:
    problem, grid = explored.problem, explored.grid
    points = [
        {
            "values": grid.values(k),
            "cost": point.cost,
            "bound": point.bound,
            "gap": point.cost / point.bound - 1 if point.bound > 0 else math.nan,
            "baseline": point.baseline,
            "speedup": point.baseline / point.cost,
            "proof": point.proof,
            "complete": point.complete,
            "failure": point.failure,
        }
        for k, point in enumerate(explored.points)
    ]
    steps = [step for k in range(len(grid.parameters)) for step in steps_of(explored, k)]
    return {
        "workload": problem.about.workload,
        "baseline": problem.baseline.name,
        "rival": short_baseline_text(problem.about),
        "points": points,
        "steps": steps,
        "words": [*words(explored), *_stand_in(problem)],
    }


def _stand_in(problem: Problem) -> list[str]:
    """The baseline, if it is a rule that stands in for something else."""
    named = baseline_text(problem.about, problem.baseline.name)
    return [f"the baseline is {named}"] if problem.about.stands_for else []


def line_of(grid: Grid, axis: int) -> list[int]:
    """The points along one parameter, the other at the value nearest to the chip's own."""
    at = [parameter.nearest for parameter in grid.parameters]
    found = [k for k in range(len(grid)) if all(i == axis or n == at[i] for i, n in enumerate(grid.index(k)))]
    return sorted(found, key=lambda k: grid.index(k)[axis])


def steps_of(explored: Explored, axis: int) -> list[dict[str, Any]]:
    """What each step along a parameter gains, the other parameter at the value nearest to the chip's own."""
    line, parameter = line_of(explored.grid, axis), explored.grid.parameters[axis]
    values = [explored.grid.values(k)[axis] for k in line]
    found = []
    for (k, a), (j, b) in zip(
        zip(line, values, strict=True), zip(line[1:], values[1:], strict=True), strict=False
    ):
        if explored.points[k].mapping is None or explored.points[j].mapping is None:
            continue
        gain, least, most = gains(explored, k, j)
        amount, name = per(parameter, a)
        share = amount / (b - a if parameter.path.endswith("_bytes") else math.log(b / a))
        found.append(
            {
                "parameter": parameter.path,
                "from": a,
                "to": b,
                "gain": gain,
                "proven_least": least,
                "proven_most": most,
                "per": name,
                "gain_per": (1 + gain) ** share - 1,
                "interpolated": not math.isclose(share, 1),
            }
        )
    return found


def gains(explored: Explored, before: int, after: int) -> tuple[float, float, float]:
    """What moving from one point to another gains: found, and its proven limits (infinite above without a bound)."""
    a, b = explored.points[before], explored.points[after]
    most = a.cost / b.bound - 1 if b.bound > 0 else math.inf
    return a.cost / b.cost - 1, a.bound / b.cost - 1, most


def per(parameter: Parameter, value: float) -> tuple[float, str]:
    """The amount for which a worth is reported, and its name.

    For bytes: the largest power of two that is at most a quarter of the value. Else: the logarithm of a tenth more.
    """
    if not parameter.path.endswith("_bytes"):
        return math.log(SHARE), "10 %"
    size = 2 ** max(0, math.floor(math.log2(value / 4)))
    return size, size_text(size).removeprefix("1 ")


def words(explored: Explored) -> list[str]:
    """Sentences about each parameter (the whole range, the next step from the chip's value, where little is left),
    about both together, and about wide gaps."""
    found = [sentence for k in range(len(explored.grid.parameters)) for sentence in _words_of(explored, k)]
    return [*found, *_together(explored), *_wide(explored)]


def _words_of(explored: Explored, axis: int) -> list[str]:
    parameter = explored.grid.parameters[axis]
    line = [k for k in line_of(explored.grid, axis) if explored.points[k].mapping is not None]
    if len(line) < 2:
        return []
    first, last = line[0], line[-1]
    values = {k: explored.grid.values(k)[axis] for k in line}
    unit = explored.problem.about.unit
    costs = " to ".join(cost_text(explored.points[k].cost, unit) for k in (first, last))
    others = [p for k, p in enumerate(explored.grid.parameters) if k != axis]
    held = "".join(f"at {p.label} {_beside_own(p, p.values[p.nearest])}: " for p in others)
    what = "".join(f"at {p.label} {p.text(p.values[p.nearest])}: " for p in others) + parameter.label
    ends = f"{parameter.text(values[first])} to {parameter.text(values[last])}"
    own = f"chip as it is: {parameter.text(parameter.own)}"
    found = [
        f"{held}{parameter.label}, {ends} ({own}): {costs}, {_worth(*gains(explored, first, last))}",
    ]
    steps = steps_of(explored, axis)
    begin = min(parameter.own, max((step["from"] for step in steps), default=parameter.own))
    following = next((step for step in steps if step["to"] > begin), None)
    if following is not None:
        low, high = (parameter.text(following[end]) for end in ("from", "to"))
        step_text = (
            f"{low} to {high} {_worth(*(following[k] for k in ('gain', 'proven_least', 'proven_most')))}"
        )
        rate = f"the next {following['per']} after {low} gains about {share_text(following['gain_per'])}"
        found.append(f"{what}: {f'{rate}, interpolated: ' if following['interpolated'] else ''}{step_text}")
    for at_most, k in enumerate(line[:-1], 1):
        end = min(explored.points[j].bound for j in line[at_most:])
        left = max(explored.points[k].cost / end - 1, 0) if end > 0 else math.inf
        if left <= LITTLE:
            found.append(
                f"{what}: from {parameter.text(values[k])} on, more gains at most {share_text(left)}"
                f" (proven at the points up to {parameter.text(values[last])})"
            )
            break
    return found


def _beside_own(parameter: Parameter, value: float) -> str:
    """A value, and beside it the chip's own where that is another one."""
    text, own = parameter.text(value), parameter.text(parameter.own)
    return text if text == own else f"{text}, the nearest to the chip's {own}"


def _together(explored: Explored) -> list[str]:
    """What two parameters gain together from their lowest to their highest values, beside what each gains alone."""
    grid = explored.grid
    if len(grid.shape) < 2 or min(grid.shape) < 2:
        return []
    low, high = 0, len(grid) - 1
    corners = (low, high - grid.shape[1] + 1, grid.shape[1] - 1, high)
    if any(explored.points[k].mapping is None for k in corners):
        return []
    both, first, second = (gains(explored, low, k)[0] for k in (high, *corners[1:3]))
    apart = (1 + first) * (1 + second) - 1
    return [
        f"both, lowest to highest: gains {share_text(both)} together; each alone, the other at its lowest,"
        f" {share_text(first)} and {share_text(second)}; independent of each other they would gain {share_text(apart)}"
    ]


def _wide(explored: Explored) -> list[str]:
    """What narrows the widest gap, where it is wide."""
    ratios = [p.cost / p.bound if p.bound > 0 else math.inf for p in explored.points]
    known = [k for k, point in enumerate(explored.points) if point.mapping is not None]
    widest = max(known, key=ratios.__getitem__)
    point, ratio = explored.points[widest], ratios[widest]
    if ratio <= 1 + WIDE:
        return []
    gap = f"up to {share_text(ratio - 1)}" if math.isfinite(ratio) else "unknown"
    where = f"the gap is {gap} ({explored.grid.text(widest)})"
    if not point.complete:
        return [f"{where}: the time limit ended that solve; a higher --seconds-per-point narrows it"]
    return [
        f"{where}: that solve ended by itself, so more --seconds-per-point changes nothing; `egrl run --method exact`"
        " on that chip may narrow it"
    ]


def _worth(gain: float, least: float, most: float) -> str:
    proved = (
        f"{share_text(least)} to {share_text(most)}"
        if math.isfinite(most)
        else f"at least {share_text(least)}"
    )
    return f"gains {share_text(gain)} (proven: {proved})"


def share_text(share: float) -> str:
    """A share in percent, "0.00%" and not "-0.00%"."""
    return f"{round(share, 4) + 0.0:.2%}"


def csv_text(made: Mapping[str, Any]) -> str:
    """explore.csv: a row per workload and point."""
    paths = [parameter["path"] for parameter in made["parameters"]]
    columns = ("cost", "bound", "gap", "baseline", "speedup", "complete")
    rows = [
        {
            "workload": each["workload"],
            **dict(zip(paths, point["values"], strict=True)),
            **{name: point[name] for name in columns},
        }
        for each in made["workloads"]
        for point in each["points"]
    ]
    return csv_table(["workload", *paths, *columns], rows)


def text_of(made: Mapping[str, Any], most_rows: int) -> str:
    """The exploration for people: a table per workload of at most so many rows, and the sentences."""
    lines: list[str] = []
    for each in made["workloads"]:
        lines += [f"{each['workload']} on {made['chip']}", ""]
        rows = [_row(made, point) for point in each["points"]]
        baseline_name = each["rival"].removeprefix("the ")
        head = [
            *(p["label"] for p in made["parameters"]),
            "found",
            "bound",
            "gap",
            f"over the {baseline_name}",
        ]
        lines += table(head, rows[:most_rows], left=0)
        if len(rows) > most_rows:
            lines.append(f"… {len(rows) - most_rows} more points in explore.csv")
        lines += ["", *(f"- {sentence}" for sentence in each["words"])]
        cut = sum(not point["complete"] for point in each["points"])
        if cut:
            lines.append(
                f"- the time limit ended {cut} of {len(rows)} solves (--seconds-per-point): not repeatable"
            )
        for point in each["points"]:
            if point["failure"]:
                lines.append(f"- no chip at {', '.join(_values(made, point))}: {point['failure']}")
        lines.append("")
    return "\n".join(lines).rstrip()


def _values(made: Mapping[str, Any], point: Mapping[str, Any]) -> list[str]:
    return [
        f"{value / p['unit_size']:.6g} {p['unit']}".rstrip()
        for p, value in zip(made["parameters"], point["values"], strict=True)
    ]


def _row(made: Mapping[str, Any], point: Mapping[str, Any]) -> list[str]:
    values = _values(made, point)
    if list(point["values"]) == [p["own"] for p in made["parameters"]]:
        values[-1] += " (chip as it is)"
    if point["cost"] is None:
        return [*values, *4 * (UNKNOWN,)]
    costs = [cost_text(point[name], made["unit"]) for name in ("cost", "bound")]
    gap = point["gap"]
    proved = "optimal" if gap is not None and gap <= OPTIMAL else optional(gap, ".2%")
    return [*values, *costs, proved, f"{point['speedup']:.4f}x"]
