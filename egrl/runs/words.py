"""How the problem of a run speaks of itself, for whoever has only what the run left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from hwsim.problem import About

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
