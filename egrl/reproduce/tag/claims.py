"""The paper's statements about TAG, and whether what was measured here bears them out.

Source of the statements: TAG (de Mesmay et al., ICML 2009), abstract, sections 1 and 3.
"""

from __future__ import annotations

from egrl.reproduce.tag.numbers import Results, against_dp, medians_against_dp

MANY = 500
"""Measurements of dynamic programming from which on its search is called long."""
ORDER = 10.0
"""What "an order of magnitude" is held to mean."""


def claims(results: Results) -> str:
    """A table: statement, what was found, whether it holds, for TAG as it is here and as it is printed."""
    labels = [label for label in ("tag", "printed") if label in results["plan"]["methods"]]
    lines = [
        "## What holds and what does not",
        "",
        "| published | " + " | ".join(f"`{label}` here | holds" for label in labels) + " |",
        "|---" * (1 + 2 * len(labels)) + "|",
    ]
    for told, judged in CLAIMS.items():
        found = [judged(results, label) for label in labels]
        lines.append(f"| {told} | " + " | ".join(f"{detail} | {verdict}" for detail, verdict in found) + " |")
    return "\n".join(lines)


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
    where = f"surely better at {len(better)}, surely worse at {len(worse)} of {len(found)} sizes"
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
    return here, "yes" if max(first[label]) < min(first["dp"]) else "no"


CLAIMS = {
    "TAG finds as good a plan as dynamic programming in an order of magnitude less search time": _order_of_magnitude,
    "good plans are found much faster than by dynamic programming": _dramatic,
    "in some cases TAG's plan is better, by up to 10%": _better,
    "TAG is an anytime algorithm": _anytime,
}
