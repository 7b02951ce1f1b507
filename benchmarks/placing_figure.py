"""Share of the headroom against evaluations, for searches that are told totals and for mappings at once.

    python -m benchmarks.placing_figure SEARCHES.jsonl AT-ONCE.json -o FILE.png

SEARCHES is what `benchmarks.placing` wrote, AT-ONCE what `benchmarks.placing_network table -o` did. A share is the sum
of what networks gain, as logarithms, over the sum of what a long annealing gains on them; its band is the middle 95 %
of 2,000 draws of families with replacement.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.placing import means
from benchmarks.placing_pairs import family_of

ARMS = {
    "egrl": "egrl",
    "pg": "pg: its learner alone",
    "no-networks": "egrl without networks",
    "annealing": "annealing",
    "cma-scores": "CMA-ES on scores",
    "greedy": "egrl without a placer",
}
AT_ONCE = {
    "network": ("o", "one mapping"),
    "all": ("*", "best of 40 by the model"),
    "compiler": ("s", "best of 12 rules by the model"),
}
BANDS = ("egrl", "annealing", "greedy")
"""Arms whose bands are drawn: more would hide one another."""
DRAWS, SHOWN = 2000, 400
MARKS = (5, 25, 50, 100, 200, 400)


class Share(NamedTuple):
    """A share of the headroom, and the ends of its band."""

    mean: float
    low: float
    high: float


def share(gain: Mapping[str, float], reach: Mapping[str, float]) -> Share:
    """Of networks' gains, as logarithms, where `reach` can be gained."""
    names = sorted(set(gain) & set(reach))
    families = sorted({family_of(name) for name in names})
    sums = np.array(
        [
            [sum(of[name] for name in names if family_of(name) == family) for of in (gain, reach)]
            for family in families
        ]
    )
    drawn = sums[np.random.default_rng(0).integers(len(families), size=(DRAWS, len(families)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    total = sums.sum(axis=0)
    return Share(float(total[0] / total[1]), float(low), float(high))


def curves(
    lines: list[dict[str, Any]], reach: Mapping[str, float]
) -> dict[str, tuple[list[int], list[Share]]]:
    """Arm -> marks, and the shares at them."""
    found = {}
    for arm in ARMS:
        at = [mark for mark in MARKS if mark <= SHOWN and len(means(lines, arm, mark)) == len(reach)]
        if at:
            found[arm] = at, [share(means(lines, arm, mark), reach) for mark in at]
    return found


def draw(lines: list[dict[str, Any]], rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The figure. `rows` are networks with their speedups at once and that of the annealing."""
    reach = {row["name"]: float(np.log(row["annealing"])) for row in rows}
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes: Axes = figure.subplots()
    for number, (arm, (at, shares)) in enumerate(curves(lines, reach).items()):
        colour = f"C{number}"
        axes.plot(at, [each.mean for each in shares], color=colour, label=ARMS[arm], lw=1.8)
        if arm in BANDS:
            low, high = zip(*((each.low, each.high) for each in shares), strict=True)
            axes.fill_between(at, low, high, color=colour, alpha=0.12, lw=0)
    for number, (key, (marker, label)) in enumerate(AT_ONCE.items()):
        found = share({row["name"]: float(np.log(row[key])) for row in rows}, reach)
        x = 1.0 * 1.18**number
        axes.errorbar(
            [x],
            [found.mean],
            [[found.mean - found.low], [found.high - found.mean]],
            fmt=marker,
            ms=9,
            color="0.25",
            mfc="white",
            capsize=2,
            label=f"at once: {label}",
        )
    axes.set_xscale("log")
    axes.set_xticks([1, 5, 25, 50, 100, 200, 400], ["1", "5", "25", "50", "100", "200", "400"])
    axes.minorticks_off()
    axes.set(xlabel="evaluations (one total each)", ylabel="share of the headroom", ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7.5, ncols=2, loc="lower right")
    return figure


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("searches", type=Path)
    parser.add_argument("at_once", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    lines = [json.loads(line) for line in given.searches.read_text().splitlines()]
    draw(lines, json.loads(given.at_once.read_text())).savefig(given.output, dpi=130)


if __name__ == "__main__":
    main()
