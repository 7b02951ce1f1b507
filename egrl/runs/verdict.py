"""The verdict of a run in words: the most that can be gained, how much of it is found, and what takes the time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from egrl.runs.text import about_of, better, compared, ratio_text, short_baseline_text
from hwsim.capabilities import explainer
from hwsim.explanation import CAUSES, OpTimes
from hwsim.problem import Mapping16, Problem

OPTIMAL = 2e-9
"""A gap up to this is what proofs give away for rounding (1e-9): the mapping is proven to be the best possible."""
LITTLE = 0.01
"""Where less than this can be gained, that is said of placement itself."""
MOST_NAMED, LEAST_NAMED = 3, 0.05
"""How many causes are named at most, and the share of the time that each takes at least."""


def best_rule(problem: Problem) -> dict[str, Any] | None:
    """The cheapest of the rules that the baseline was taken from: its name, its cost, and how many there are.

    None if the baseline is no rule of egrl's that stands in for something else.
    """
    rules = problem.baseline.rules
    if rules is None or not problem.about.stands_for:
        return None
    costs = rules()
    name = min(costs, key=costs.__getitem__)
    return {"name": name, "cost": costs[name], "of": len(costs)}


def baseline_table(problem: Problem, cost: float | None = None, measured: bool = False) -> dict[str, Any]:
    """What documents say of a problem's baseline: cost, rule and, unless costs are `measured`, the best of the rules.

    `cost` is what the baseline took in a run; None: what the problem says.
    """
    rules = None if measured or problem.about.measured else best_rule(problem)
    return {
        "cost": problem.baseline.cost if cost is None else cost,
        "rule": problem.baseline.name,
        **({} if rules is None else {"best_rule": rules}),
    }


def rule_text(baseline: Mapping[str, Any]) -> str:
    """The speedup of the best rule over the baseline's rule, in words; "" if it is not known."""
    best = baseline.get("best_rule")
    if best is None:
        return ""
    if best["cost"] >= baseline["cost"]:
        return f"none of the {best['of']} built-in heuristics is {better('s')} here"
    over = compared(baseline["cost"] / best["cost"], "the baseline")
    return f"best of the {best['of']} built-in heuristics here: {best['name']}, {over}"


def shares_of(problem: Problem, mapping: Mapping16) -> dict[str, float] | None:
    """The share of the modelled time of one mapping [N, H] that each cause takes, the largest first.

    None if the problem explains no times.
    """
    explain = explainer(problem, OpTimes)
    if explain is None:
        return None
    found = explain(mapping)
    parts = sorted(found.seconds_bound_by.items(), key=lambda part: (-part[1], part[0]))
    return {name: seconds / found.latency_s for name, seconds in parts}


def verdict(document: Mapping[str, Any]) -> str:
    """The verdict of a summary; "" if nothing ran, a board measured, or there is neither a proof nor a doubt.

    `document` has `best` (speedup and, if known, `bound_by`), `baseline` (cost), `bound`, `gap` and a problem's words.
    """
    if document["best"] is None or document.get("evaluator"):
        return ""
    return "; ".join(part for part in (_gain(document), _doubt(document)) if part)


def _gain(document: Mapping[str, Any]) -> str:
    """What can be gained at most, what of it is found, and what takes the time; "" where nothing is proved."""
    best, bound, gap = document["best"], document.get("bound"), document.get("gap")
    if bound is None or gap is None:
        return ""
    about = about_of(document)
    baseline_name = short_baseline_text(about)
    most, found = document["baseline"]["cost"] / bound - 1.0, best["speedup"] - 1.0
    if abs(gap) <= OPTIMAL and found <= 0:
        return f"proven limit: no mapping is {better(best.get('unit', 's'))} than {baseline_name}{_of_the_time(best)}"
    if most <= 0:
        return ""
    limit = f"proven limit {ratio_text(1.0 + most, up=True)}"
    if abs(gap) <= OPTIMAL:
        return f"{limit}, which the best mapping reaches{_of_the_time(best)}"
    part = "nothing" if found <= 0 else _down(found)
    if most < LITTLE:
        what = "placement" if about.place == "memory" else "another mapping"
        limit = f"{limit}: {what} can gain at most {percent_up(most)} over {baseline_name} here"
    else:
        limit = f"{limit}: at most {percent_up(most)} can be gained over {baseline_name}"
    return f"{limit}; found: {part}{_of_the_time(best)}"


def _doubt(document: Mapping[str, Any]) -> str:
    """That a fitted model is off by more than what it says is gained, or can be; "" where it is not."""
    error, bound = about_of(document).model_error, document.get("bound")
    found = document["best"]["speedup"] - 1.0
    if bound is not None and 0 < document["baseline"]["cost"] / bound - 1.0 < error:
        than = "can be gained"
    elif 0 < found < error:
        than = "is gained"
    else:
        return ""
    return (
        f"but the fitted chip file is off by {error:.2%} on mappings it was not fitted to, more than {than}"
    )


def _of_the_time(best: Mapping[str, Any]) -> str:
    """What takes the time of the best, at the end of a sentence; "" if that is not known."""
    shares = best.get("bound_by") or {}
    named = [(CAUSES.get(name, name), share) for name, share in shares.items() if share >= LEAST_NAMED]
    if not named:
        return ""
    return f"; where the time goes: {', '.join(f'{share:.0%} {name}' for name, share in named[:MOST_NAMED])}"


def distance(gap: float | None) -> str:
    """The gap to the best possible, in words; "" if it is unknown."""
    if gap is None:
        return ""
    if abs(gap) <= OPTIMAL:
        return "proven to be the best possible"
    return f"within {percent_up(gap)} of the best possible"


def percent_up(share: float) -> str:
    """A share as percent, rounded up to two digits, so that "within" holds."""
    return f"{math.ceil(share * 1e4 - 1e-9) / 1e2:.2f}%"


def _down(share: float) -> str:
    """A share as percent, rounded down, so that it is not above one that is rounded up."""
    return f"{math.floor(share * 1e4 + 1e-9) / 1e2:.2f}%"
