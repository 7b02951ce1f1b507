"""Words for the baseline, the start, the costs and the counts of a run.

The names come from the table that a run keeps of its problem (`About`), so no problem needs to be built for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from egrl.core.method import Composition
from hwsim.capabilities import HasModel, explainer
from hwsim.explanation import OpTimes, cause_text
from hwsim.problem import About, Mapping16, Problem

SECONDS = "s"
TABLE = "about"
"""Key of a problem's words in summary.json and comparison.json."""
KEYS = {"baseline_name": "rival"}
"""Keys of that table that are called otherwise than the field of `About`."""


def table_of(about: About) -> dict[str, Any]:
    """The words as a table, without names and unit, which documents have as keys of their own, and what is no word."""
    words = asdict(about).items()
    return {KEYS.get(k, k): v for k, v in words if k not in ("name", "workload", "chip", "unit", "compiled")}


def about_of(document: Mapping[str, Any]) -> About:
    """The words in a summary, or in a workload's part of comparison.json; the default of a word that it lacks."""
    found = About(document["problem"], document["workload"], document["chip"])
    kept = document.get(TABLE)
    given = kept if isinstance(kept, Mapping) else {}
    words: dict[str, Any] = {
        field.name: given.get(KEYS.get(field.name, field.name)) for field in fields(About)
    }
    fitting = {name: word for name, word in words.items() if type(word) is type(getattr(found, name))}
    return replace(found, **fitting)


def baseline_text(about: About, rule: str = "") -> str:
    """The baseline in a headline; a built-in heuristic with its name, unless another line has it."""
    named = f" ({rule})" if rule else ""
    return f"the built-in baseline heuristic{named}" if about.stands_for else about.baseline_name


def short_baseline_text(about: About) -> str:
    """The baseline after a headline has named it."""
    return "the baseline" if about.stands_for else about.baseline_name


def drawn_baseline_text(about: About) -> str:
    """The baseline in figures, whose room is small."""
    return "the baseline heuristic" if about.stands_for else about.baseline_name


def ratio_text(speedup: float) -> str:
    """A speedup: "1.08x"; near 1 with four digits, "1.0099x"."""
    return f"{speedup:.{4 if abs(speedup - 1.0) < 0.02 else 2}f}x"


def compared(speedup: float, baseline: str, unit: str = SECONDS) -> str:
    """A speedup over a baseline in a sentence: "1.08x faster than the compiler", or "as fast as …", or "… slower …"."""
    fast, faster, slower = (
        ("fast", "faster", "slower") if unit == SECONDS else ("cheap", "cheaper", "more expensive")
    )
    if f"{speedup:.4f}" == "1.0000":
        return f"as {fast} as {baseline}"
    if 0 < speedup < 1:
        return f"{ratio_text(1.0 / speedup)} {slower} than {baseline}"
    return f"{ratio_text(speedup)} {faster} than {baseline}"


FINDERS = {
    "network": "found by a network",
    "boltzmann": "found by a chromosome",
    "sac": "found by SAC",
    "profile_model": "found by the profile model",
    "twin": "found by the twin",
    "start": "the start mapping itself",
}
"""What texts say of the source of a mapping; of others, that they found it."""
UNTAUGHT = {
    "network": "a network of the first generation",
    "boltzmann": "a chromosome of the first generation",
    "sac": "the network that SAC begins with",
    "profile_model": "a heuristic, a shipped ranking or a random draw",
}
"""What they say where it was proposed before any result was known."""


KINDS = {
    "boltzmann": "Boltzmann chromosomes",
    "sac": "SAC",
    "graph_unet": "Graph U-Nets",
    "linear": "linear rules",
}
"""What texts call the kinds of members; others by their names, networks with "networks"."""


def opening_lines(composition: Composition, measured: bool) -> list[str]:
    """Who searches, and what of the settings cannot act here; nothing of a method that is one thing.

    `measured`: a board measures, which may give the times of ops or not.
    """
    names = [
        KINDS.get(kind, f"{kind} networks" if source == "network" else f"the {kind.replace('_', ' ')}")
        for source, kind in composition.kinds.items()
    ]
    if measured and "profile_model" in composition.kinds:
        names[names.index("the profile model")] += " (if the board says how long each op took)"
    opening = [f"searching: {', '.join(names)}"] if len(names) > 1 else []
    return opening + ([composition.idle] if composition.idle else [])


def found_by(best: Mapping[str, Any]) -> str:
    """Who found the best mapping, and whether anything was learned before."""
    source = best["source"]
    if best.get("untaught") and source in UNTAUGHT:
        return f"found by {UNTAUGHT[source]}, before anything was learned"
    return FINDERS.get(source, f"found by {source}")


NOT_CONFIRMED = "not confirmed"


def confirmed(summary: Mapping[str, Any]) -> bool:
    """Whether the speedup of a summary holds: a model's does, a measured one if the best was measured again."""
    table = summary.get("evaluator")
    return not table or bool(table.get("confirmed", table.get("speedup_interval") is not None))


def sureness(summary: Mapping[str, Any]) -> str:
    """The 95% interval of a measured speedup, or that it is not confirmed; "" where costs are exact."""
    if summary["best"] is not None and not confirmed(summary):
        return NOT_CONFIRMED
    interval = (summary.get("evaluator") or {}).get("speedup_interval")
    own = summary["best"] is None or summary["best"].get("is_baseline")
    return "" if interval is None or own else f"95% interval {interval[0]:.4f}x to {interval[1]:.4f}x"


def unconfirmed_text(summary: Mapping[str, Any], run: str = "RUN") -> str:
    """Why a measured speedup is not confirmed, and what confirms it; "" where it is."""
    if summary["best"] is None or confirmed(summary):
        return ""
    return f"{NOT_CONFIRMED}: one measurement, which may be luck; egrl run --resume {run} measures it again"


def board_remarks(summary: Mapping[str, Any]) -> list[str]:
    """What a board's run has to say of its end: mappings that are not told apart, and a board that has changed."""
    table, found = summary.get("evaluator") or {}, list[str]()
    if level := table.get("level"):
        found.append(
            f"not told apart from {counted(level, 'other mapping')}; of those within 0.5 % it has the fewest changes"
        )
    if drift := table.get("drift"):
        longer = f"{abs(drift):.1%} {'longer' if drift > 0 else 'shorter'}"
        found.append(f"the board has changed: the baseline took {longer} at the end than at the start")
    return found


def advice(summary: Mapping[str, Any], layout: str = "") -> str:
    """What to do if the best that was found is no significant gain over the baseline; "" if it is, or nothing ran.

    `layout` is the file with the baseline's own layout, if there is one.
    """
    best = summary["best"]
    if best is None:
        return ""
    low, high = (summary.get("evaluator") or {}).get("speedup_interval") or (best["speedup"], best["speedup"])
    low = low if confirmed(summary) else 0.0
    if low > 1:
        return ""
    name = short_baseline_text(about_of(summary))
    if best.get("is_baseline"):
        return f"the best mapping found is {name}'s own"
    gain = "no significant gain over" if high > 1 else "no gain over"
    return f"{gain} {name}: keep {name}'s mapping{f' ({layout})' if layout else ''}"


def start_word(baseline_name: str, start: str) -> str:
    """The start of a run in words: `--start compiler` has the name of the run's baseline."""
    return baseline_name.removeprefix("the ") if start == "compiler" else start


# ---- costs and counts


def scaled(cost: float, unit: str) -> float:
    """A cost in the unit that `shown` names."""
    return cost * 1e6 if unit == SECONDS else cost


def shown(unit: str) -> str:
    """The unit in which costs are shown."""
    return "us" if unit == SECONDS else unit


def better(unit: str) -> str:
    """The comparative for a lower cost: "faster" or "cheaper"."""
    return "faster" if unit == SECONDS else "cheaper"


def cost_text(cost: float, unit: str, digits: int = 2) -> str:
    """A cost with its unit. Seconds below 1 are microseconds with `digits` digits; other costs have two digits more, or
    none if they are whole numbers in another unit."""
    if unit == SECONDS and cost >= 1.0:
        return f"{cost:.{digits + 2}f} s"
    places = digits if unit == SECONDS else 0 if cost.is_integer() else digits + 2
    return f"{scaled(cost, unit):.{places}f} {shown(unit)}"


def counted(number: int, what: str) -> str:
    """1 node, 2 nodes."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def clock_text(seconds: float) -> str:
    """A time for people, whole seconds, minutes or tenths of hours: "90 s", "5 min", "2.5 h"."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 120 else f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"


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
    if not problem.about.stands_for or not isinstance(problem, HasModel):
        return None
    costs = {name: problem.model_cost(mapping) for name, mapping in problem.baseline.rules().items()}
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
    """The baseline's rule, and the speedup of the best rule over it, in words; "" if that is not known."""
    best = baseline.get("best_rule")
    if best is None:
        return ""
    named = f"baseline: {baseline['rule']}; "
    if best["cost"] >= baseline["cost"]:
        return f"{named}none of the {best['of']} heuristics is {better('s')} here"
    over = compared(baseline["cost"] / best["cost"], "it").removesuffix(" than it")
    return f"{named}best of {best['of']} heuristics here: {best['name']}, {over}"


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
    """The verdict of a summary, and on a second line what takes the time.

    "" if nothing ran, a board measured, or there is neither a proof nor a doubt.

    `document` has `best` (speedup and, if known, `bound_by`), `baseline` (cost), `bound`, `gap` and a problem's words.
    """
    if document["best"] is None or document.get("evaluator"):
        return ""
    lines = ("; ".join(filter(None, (_gain(document), _doubt(document)))), time_text(document["best"]))
    return "\n".join(filter(None, lines)) if lines[0] else ""


def _gain(document: Mapping[str, Any]) -> str:
    """What can be gained at most, and what of it is found; "" if nothing is proved."""
    best, bound, gap = document["best"], document.get("bound"), document.get("gap")
    if bound is None or gap is None:
        return ""
    about = about_of(document)
    baseline_name = short_baseline_text(about)
    most, found = document["baseline"]["cost"] / bound - 1.0, best["speedup"] - 1.0
    if abs(gap) <= OPTIMAL and found <= 0:
        return f"proven limit: no mapping is {better(best.get('unit', 's'))} than {baseline_name}"
    if most <= 0:
        return ""
    limit = f"proven limit {1.0 + math.ceil(most * 1e4 - 1e-6) / 1e4:.4f}x"
    if abs(gap) <= OPTIMAL:
        limit = f"proven limit {ratio_text(best['speedup'])}"
        return f"{limit}, which the best mapping reaches"
    # Rounded as the speedup is, so that "1.0100x" and "1.00%" stand together; a limit is rounded up.
    part, over = (
        "nothing" if found <= 0 else f"{found:.2%}",
        "" if about.stands_for else f" over {baseline_name}",
    )
    if most < LITTLE:
        what = "placement" if about.place == "memory" else "another mapping"
        limit = f"{limit}: {what} can gain at most {percent_up(most)}{over} here"
    else:
        limit = f"{limit}: at most {percent_up(most)} can be gained{over}"
    return f"{limit}; found: {part}"


def _doubt(document: Mapping[str, Any]) -> str:
    """That a fitted model is off by more than what it says is gained, or can be; "" where it is not."""
    bound = document.get("bound")
    most = None if bound is None else document["baseline"]["cost"] / bound - 1.0
    said = doubt(about_of(document).model_error, document["best"]["speedup"] - 1.0, most)
    return f"but {said}" if said else ""


def doubt(error: float, found: float, most: float | None = None) -> str:
    """That a model with this relative error is off by more than it says is gained, or can be at `most`; "" if not."""
    if most is not None and 0 < most < error:
        than = "can be gained"
    elif 0 < found < error:
        than = "is gained"
    else:
        return ""
    return f"the fitted chip file is off by {error:.2%} on mappings it was not fitted to, more than {than}"


def time_text(best: Mapping[str, Any]) -> str:
    """What takes the time of the best mapping; "" if that is not known."""
    shares = best.get("bound_by") or {}
    named = [(cause_text(name), share) for name, share in shares.items() if share >= LEAST_NAMED]
    if not named:
        return ""
    return f"where the time goes: {', '.join(f'{share:.0%} {name}' for name, share in named[:MOST_NAMED])}"


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


PROVED = 1e-6
"""A gap up to this share of the bound is what proofs and rounding may give away."""


def reward_up(reward: float) -> str:
    """A reward rounded up to four digits, so that "at most" holds; what proofs give away for rounding is left out."""
    return f"{math.ceil(reward * 1e4 - 1e4 * PROVED) / 1e4:.4f}"
