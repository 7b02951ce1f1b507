"""Words for the baseline, the start, the costs and the counts of a run.

The names come from the table that a run keeps of its problem (`About`), so no problem needs to be built for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from hwsim.problem import About

SECONDS = "s"
TABLE = "about"
"""Key of a problem's words in summary.json and comparison.json."""
KEYS = {"baseline_name": "rival"}
"""Keys of that table that are called otherwise than the field of `About`."""


def table_of(about: About) -> dict[str, Any]:
    """The words as a table, without names and unit, which documents have as keys of their own."""
    words = asdict(about).items()
    return {KEYS.get(k, k): v for k, v in words if k not in ("name", "workload", "chip", "unit")}


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


def baseline_text(about: About, rule: str) -> str:
    """The baseline in a headline; a built-in heuristic with its name."""
    return f"the built-in baseline heuristic ({rule})" if about.stands_for else about.baseline_name


def short_baseline_text(about: About) -> str:
    """The baseline after a headline has named it."""
    return "the baseline" if about.stands_for else about.baseline_name


def ratio_text(speedup: float, up: bool = False) -> str:
    """A speedup: "1.08x"; near 1 with four digits, "1.0099x". `up` rounds up, for limits."""
    digits = 4 if abs(speedup - 1.0) < 0.02 else 2
    shown = math.ceil(speedup * 10**digits - 1e-6) / 10**digits if up else speedup
    return f"{shown:.{digits}f}x"


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
    "network": "found by the population",
    "boltzmann": "found by the population",
    "learner": "found by the learner",
    "profile_model": "found by the profile model",
    "twin": "found by the twin",
    "start": "the start mapping itself",
}
"""What texts say of the source of a mapping; of others, that they found it."""


def advice(summary: Mapping[str, Any], layout: str = "") -> str:
    """What to do if the best that was found is not surely better than the baseline; "" if it is, or nothing ran.

    `layout` is the file with the baseline's own layout, if there is one.
    """
    best = summary["best"]
    if best is None:
        return ""
    low, high = (summary.get("evaluator") or {}).get("speedup_interval") or (best["speedup"], best["speedup"])
    if low > 1:
        return ""
    name, surely = short_baseline_text(about_of(summary)), "surely " if high > 1 else ""
    if best.get("is_baseline"):
        return f"the best mapping found is {name}'s own"
    return f"not {surely}better than {name}: keep {name}'s mapping{f' ({layout})' if layout else ''}"


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
