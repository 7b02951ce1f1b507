"""What a run is called in texts: its baseline, its start, its costs and counts.

The names come from the table that a run keeps of its problem (`About`), so no problem needs to be built for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from hwsim.problem import About

SECONDS = "s"
TABLE = "about"
"""Key of a problem's words in summary.json and comparison.json."""


def table_of(about: About) -> dict[str, Any]:
    """The words as a table; names and unit stand beside it."""
    return {k: v for k, v in asdict(about).items() if k not in ("name", "workload", "chip", "unit")}


def about_of(document: Mapping[str, Any]) -> About:
    """The words in a summary, or in a workload's part of comparison.json; where it is older, those of any problem."""
    found = About(document["problem"], document["workload"], document["chip"])
    kept = document.get(TABLE)
    given = kept if isinstance(kept, Mapping) else {}
    words: dict[str, Any] = {field.name: given.get(field.name) for field in fields(About)}
    fitting = {name: word for name, word in words.items() if type(word) is type(getattr(found, name))}
    return replace(found, **fitting)


def rival_named(about: About, rule: str) -> str:
    """The rival in a headline: a rule of egrl's is named as one, and as what it stands in for."""
    return f"the rule '{rule}', our stand-in for {about.stands_for}" if about.stands_for else about.rival


def short_rival(about: About) -> str:
    """The rival where a headline has named it before."""
    return "the rule" if about.stands_for else about.rival


def advice(summary: Mapping[str, Any], layout: str = "") -> str:
    """What to do where the best that was found is not surely better than the rival; "" where it is, or nothing ran.

    `layout` is the file that has the rival's own, where there is one.
    """
    best = summary["best"]
    if best is None:
        return ""
    low, high = (summary.get("evaluator") or {}).get("speedup_interval") or (best["speedup"], best["speedup"])
    if low > 1:
        return ""
    rival = short_rival(about_of(summary))
    return f"not {'surely ' if high > 1 else ''}better than {rival}: keep {rival}'s{f' ({layout})' if layout else ''}"


def start_word(rival: str, start: str) -> str:
    """What a run began with, for people: `--start compiler` is the run's rival, by the rival's own name."""
    return rival.removeprefix("the ") if start == "compiler" else start


# ---- costs and counts


def scaled(cost: float, unit: str) -> float:
    """A cost in the unit that `shown` names."""
    return cost * 1e6 if unit == SECONDS else cost


def shown(unit: str) -> str:
    """What costs of a problem are told in."""
    return "us" if unit == SECONDS else unit


def better(unit: str) -> str:
    """What a mapping of a lower cost is called."""
    return "faster" if unit == SECONDS else "cheaper"


def cost_text(cost: float, unit: str, digits: int = 2) -> str:
    """A cost with its unit; seconds from one on, and costs that are none, with two digits more; whole costs that are no
    seconds as whole numbers."""
    if unit == SECONDS and cost >= 1.0:
        return f"{cost:.{digits + 2}f} s"
    places = digits if unit == SECONDS else 0 if cost.is_integer() else digits + 2
    return f"{scaled(cost, unit):.{places}f} {shown(unit)}"


def counted(number: int, what: str) -> str:
    """1 node, 2 nodes."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
