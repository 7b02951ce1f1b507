"""What the report of `egrl reproduce tag` says beside results.json: the paper's statements with verdicts, and numbers
of tables. The sentences are in `report.md.j2`.

    python -m egrl_fft.paper.report plugins/fft/docs/results/data/tag.json.xz

prints the report of results that ship.

Source of the statements: TAG (de Mesmay et al., ICML 2009), abstract, sections 1 and 3.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from egrl.reproduction import interval_cell, render, shipped, verdict
from egrl_fft.paper.numbers import (
    ALLOWANCE,
    Results,
    SizeResults,
    against_dp,
    mean_speedup,
    medians_against_dp,
    over,
    quality,
    speedups,
)

AFTER = (30, 100, 300, 1000)
"""Numbers of evaluations at which methods are compared."""
MANY = 500
"""Measurements of dynamic programming from which on its search is called long."""
ORDER = 10.0
"""What "an order of magnitude" is held to mean."""
LIBRARIES = ("numpy", "scipy", "pyfftw")


def report(results: Results) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    sizes, methods = results["sizes"], results["plan"]["methods"]
    judged = [label for label in ("tag", "printed") if label in methods]
    rivals = [label for label in methods if label != "dp"]
    return render(
        Path(__file__).with_name("report.md.j2"),
        **results,
        AFTER=AFTER,
        ALLOWANCE=ALLOWANCE,
        infinity=float("inf"),
        seconds=sorted({seconds for _, seconds in results["plan"]["budgets"]}),
        rivals=rivals,
        judged=judged,
        claims={claim: [judge(results, label) for label in judged] for claim, judge in CLAIMS.items()},
        first_pass={
            size: next((hit for label in rivals if (hit := medians_against_dp(entry, label))), None)
            for size, entry in sizes.items()
        },
        failed=sum(
            run["failed"] for entry in sizes.values() for runs in entry["methods"].values() for run in runs
        ),
        libraries=[name for name in LIBRARIES if all(name in entry["race"] for entry in sizes.values())],
        fastest={size: _fastest(entry) for size, entry in sizes.items()},
        count=_count,
        codelets=_codelets,
        to_quality=medians_against_dp,
        quality=quality,
        speedups=speedups,
        against_dp=against_dp,
        mean_speedup=lambda label: mean_speedup(results, label),
        over=[
            (label, rival, interval)
            for label, rival in combinations(methods, 2)
            if (interval := over(results, label, rival)) is not None
        ],
        interval_cell=interval_cell,
        verdict=verdict,
    )


def _fastest(entry: SizeResults) -> Mapping[str, Any]:
    """The plan of a size that took the least time in the race, the method that found it, and the seconds of all."""
    by = {run["plan"]: label for label, runs in entry["methods"].items() for run in runs if run["plan"]}
    race = {name: median(samples) for name, samples in entry["race"].items()}
    best = min([*by, entry["default"]], key=lambda plan: race[plan])
    return {
        "race": race,
        "default_s": race[entry["default"]],
        "best_s": race[best],
        "by": by.get(best, "default"),
        "plan": best,
    }


def _codelets(entry: SizeResults) -> str:
    """How many codelets a run of TAG and of dynamic programming made, medians."""
    made = {label: [run["codelets"] for run in entry["methods"].get(label, [])] for label in ("tag", "dp")}
    return ", ".join(f"{label} {median(counts):.0f}" for label, counts in made.items() if counts)


def _count(digits: str) -> str:
    if len(digits) < 10:
        return f"{int(digits):,}"
    mantissa, exponent = f"{float(digits):.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _order_of_magnitude(results: Results, label: str) -> tuple[str, str]:
    found = {size: medians_against_dp(entry, label) for size, entry in results["sizes"].items()}
    many = {size: hit for size, hit in found.items() if hit and hit["measurements"] >= MANY}
    if not many:
        return f"no size at which DP needed {MANY} measurements and ended", "not tested"
    held = [size for size, hit in many.items() if hit["less"] >= ORDER]
    found_by = [f"{size}: {hit['less']:.1f}x less" for size, hit in many.items() if hit["less"]]
    missed = [size for size, hit in many.items() if not hit["less"]]
    if missed:
        found_by.append(f"not reached by the median run: {', '.join(missed)}")
    where = f"where DP needs {MANY} measurements or more: {'; '.join(found_by)}"
    return where, _verdict(len(held), len(many))


def _verdict(held: int, of: int) -> str:
    return "yes" if held == of else f"at {held} of {of} sizes" if held else "no"


def _dramatic(results: Results, label: str) -> tuple[str, str]:
    found = [hit for entry in results["sizes"].values() if (hit := medians_against_dp(entry, label))]
    if not found:
        return "dynamic programming never ended", "not tested"
    held = sum(hit["less"] > 1 for hit in found)
    return f"in less time at {held} of {len(found)} sizes (median run)", _verdict(held, len(found))


def _better(results: Results, label: str) -> tuple[str, str]:
    ratios = {size: against_dp(entry, label) for size, entry in results["sizes"].items()}
    found = {size: ratio for size, ratio in ratios.items() if ratio}
    if not found:
        return "no pair to compare", "not tested"
    better = [size for size, (_, low, _) in found.items() if low > 1]
    worse = [size for size, (_, _, high) in found.items() if high < 1]
    best = max(ratio[0] for ratio in found.values())
    where = f"by quartiles over rounds better at {len(better)}, worse at {len(worse)} of {len(found)} sizes"
    return f"{where}; at most {best - 1:+.1%}", "yes" if better else "no"


def _anytime(results: Results, label: str) -> tuple[str, str]:
    first: dict[str, list[int]] = {
        name: [
            run["steps"][0][1]
            for entry in results["sizes"].values()
            for run in entry["methods"].get(name, [])
            if run["steps"]
        ]
        for name in (label, "dp")
    }
    if not first[label] or not first["dp"]:
        return "a method found nothing", "not tested"
    dp = f"{min(first['dp'])} to {max(first['dp'])}"
    here = f"its first whole plan comes after {max(first[label])} evaluation, DP's after {dp}"
    if max(first[label]) == 1:
        return here, "by construction"  # each evaluation is of a whole plan
    return here, "yes" if max(first[label]) < min(first["dp"]) else "no"


CLAIMS = {
    "TAG finds as good a plan as dynamic programming in an order of magnitude less search time": _order_of_magnitude,
    "good plans are found much faster than by dynamic programming": _dramatic,
    "in some cases TAG's plan is better, by up to 10%": _better,
    "TAG is an anytime algorithm": _anytime,
}


if __name__ == "__main__":
    print(report(shipped(Path(sys.argv[1]))))
