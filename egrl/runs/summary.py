"""summary.json: the results of a run, its baseline and its bound."""

from __future__ import annotations

import math
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
from annotated_types import Len
from typing_extensions import TypedDict

from egrl import core
from egrl.core.archive import Archive
from egrl.core.contracts import GENERATION, Budget
from egrl.core.loop import Champion, SearchState
from egrl.core.method import Composition
from egrl.core.typed_tables import Count, Number, Positive, Printable, check_document
from egrl.runs.agreement import check_agreement
from egrl.runs.config import RunConfig
from egrl.runs.folder import BASELINE_LAYOUT, SUMMARY
from egrl.runs.text import (
    OPTIMAL,
    PROVED,
    TABLE,
    about_of,
    advice,
    baseline_table,
    baseline_text,
    board_remarks,
    compared,
    confirmed,
    cost_text,
    counted,
    distance,
    found_by,
    percent_up,
    reward_up,
    rule_text,
    shares_of,
    sureness,
    table_of,
    unconfirmed_text,
    verdict,
)
from hwsim.capabilities import HasBound, HasPlacement
from hwsim.problem import UNPROVED, Bound, Mapping16, Problem, Status
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import check_characters, judge, parse_document, parse_object

KIND = "summary"
VERSION = 1
COUNTED = ("numpy", "numba", "scipy", "torch")
"""Packages whose versions may change a run's numbers."""


class _Rule(TypedDict):
    name: Printable
    cost: Positive
    of: Count


class _Baseline(TypedDict):
    cost: Positive
    rule: NotRequired[Printable]
    best_rule: NotRequired[_Rule | None]


class _Best(TypedDict):
    reward: Number
    speedup: Number
    cost: Number
    source: Printable
    evaluation: NotRequired[int]
    unit: NotRequired[Printable]
    bound_by: NotRequired[dict[str, Number] | None]
    is_baseline: NotRequired[bool]
    untaught: NotRequired[bool]


class _Sooner(TypedDict):
    until_gap: Printable
    evaluations: Count
    rest: Number
    known: bool


class _Member(TypedDict):
    name: Printable
    kind: Printable
    evaluations: Count
    best_speedup: Number | None
    first_near_best: Count | None


class _Migration(TypedDict):
    offered: Count
    accepted: Count
    alive: Count


class _Evaluator(TypedDict):
    confirmed: NotRequired[bool]
    level: NotRequired[Count]
    drift: NotRequired[Number]
    speedup_interval: NotRequired[Annotated[list[Number], Len(2, 2)] | None]


class _Summary(TypedDict):
    """What commands read of a summary."""

    problem: Printable
    workload: Printable
    chip: Printable
    method: Printable
    start: Printable
    fingerprint: Printable
    seed: Count
    generations: Count
    evaluations: Count
    seconds: Number
    complete: bool
    baseline: _Baseline
    bound: Positive | None
    gap: Number | None
    best: _Best | None
    budget: NotRequired[dict[str, Any]]
    evaluator: NotRequired[_Evaluator]
    generation_evals: NotRequired[Count]
    members: NotRequired[list[_Member] | dict[str, Number]]  # before 0.3: shares
    migration: NotRequired[_Migration]
    temperatures: NotRequired[Annotated[list[Number], Len(2, 2)]]
    model_calls: NotRequired[Number]
    model_seconds: NotRequired[Number]
    reward_bound: NotRequired[Number]
    reward_gap: NotRequired[Number | None]
    sooner: NotRequired[_Sooner]
    stopped: NotRequired[Printable]
    versions: NotRequired[dict[str, str]]


ALONE = Composition()
NEAR_BEST = 2e-4
"""A reward that is less than the best by a smaller share is near it: of speedups, whose squares they are, 0.01%."""
GAP, METHOD, BUDGET, USER = "gap", "method", "budget", "user"
"""Why a search ended: near enough to the bound, nothing more to propose, its budget spent, or the user wanted it to."""


def end_of(state: SearchState, budget: Budget, evaluations: int, near: bool, stopped: bool) -> str:
    """Why the search ended; a budget in seconds is spent if nobody has stopped the run.

    `near`: its best is within the gap. `stopped`: the user, or who watches it, wanted it to stop.
    """
    if near:
        return GAP
    if state.finished:
        return METHOD
    spent = not stopped if budget.evaluations is None else evaluations >= budget.evaluations
    return BUDGET if spent else USER


def versions() -> dict[str, str]:
    """Versions of egrl, Python and those of `COUNTED` that this process has loaded, by name."""
    found = {"egrl": core.VERSION, "python": platform.python_version()}
    for name in COUNTED:
        if name in sys.modules:
            try:
                found[name] = version(name)
            except PackageNotFoundError:  # loaded from a folder that was not installed
                found[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    return found


def summarise(
    config: RunConfig,
    problem: Problem,
    state: SearchState,
    archive: Archive,
    end: str,
    baseline_cost: float | None = None,
    evaluator: Mapping[str, Any] | None = None,
    proved: Bound = UNPROVED,
    bounded: bool = True,
    composition: Composition = ALONE,
) -> dict[str, Any]:
    """The summary of a run on one problem, which ended for the reason `end`.

    `gap` is best cost / bound - 1; null where either is unknown.

    Where rewards are bounded there are `reward_bound` and `reward_gap`, bound - best reward, null if nothing was found.
    `baseline_cost` is what the baseline was measured to take beside the best; None: what the problem says. `evaluator`
    is the table of that name, where one measured: bounds are the model's and say nothing of its costs, nor of costs
    with noise, which are not `bounded`. What is `proved` already is not proved again. `composition` says who proposed,
    and how learners' weights have migrated.
    """
    champion = state.champions[0]
    begun = time.monotonic()
    certified: dict[str, Any] = {"bound": None, "gap": None}
    known = proved.cost > 0 or math.isfinite(proved.reward)
    if evaluator is None and bounded and (known or config.run.bound_seconds > 0):
        certified = _certified(problem, champion, config.run.bound_seconds, proved if known else None)
    bound_seconds = time.monotonic() - begun
    kept = min(len(archive), archive.window)
    measured = evaluator is not None or problem.about.measured
    return {
        "kind": KIND,
        "version": VERSION,
        "schema": VERSION,
        **problem.about.names,
        TABLE: table_of(replace(problem.about, measured=measured)),
        "method": config.run.method,
        "start": config.run.start,
        "seed": config.run.seed,
        "budget": config.run.budget(),
        "generations": state.generation,
        "generation_evals": config.run.generation_evals,
        "evaluations": len(archive),
        **_account(composition, archive, 0.0 if champion is None else champion.reward),
        "seconds": round(state.seconds, 3),
        "model_calls": round(state.model_calls, 3),
        "model_seconds": round(state.model_seconds, 3),
        "complete": end != USER,
        "stopped": end,
        "best": None if champion is None else _best(problem, champion, measured),
        "baseline": baseline_table(problem, baseline_cost, measured),
        **({} if evaluator is None else {"evaluator": {"command": config.run.evaluator, **evaluator}}),
        "bound": certified.pop("bound"),
        "bound_seconds": round(bound_seconds, 3),
        **certified,
        "mappings": {"kept": kept, "dropped": len(archive) - kept},
        "fingerprint": problem.fingerprint(),
        "versions": versions(),
    }


def _account(composition: Composition, archive: Archive, best: float) -> dict[str, Any]:
    """Who did what: evaluations and best speedup of each member, its first evaluation near the `best` reward."""
    if not composition.kinds:
        return {}
    known = slice(0, len(archive))
    sources, speedup, reward = (
        archive.sources(known),
        *(archive.column(name)[known] for name in ("speedup", "reward")),
    )
    ran = (archive.column("status")[known] == Status.OK) & np.isfinite(reward)
    members = []
    for name, kind in composition.kinds.items():
        own = np.flatnonzero((sources == name) & ran)
        near = own[reward[own] >= best - NEAR_BEST * abs(best)]
        members.append(
            {
                "name": name,
                "kind": kind,
                "evaluations": int((sources == name).sum()),
                "best_speedup": float(speedup[own[np.argmax(reward[own])]]) if len(own) else None,
                "first_near_best": int(near[0]) if len(near) else None,
            }
        )
    found: dict[str, Any] = {"members": members}
    if composition.migration is not None:
        found["migration"] = dict(composition.migration)
    if composition.temperatures is not None:
        found["temperatures"] = [round(value, 4) for value in composition.temperatures]
    return found


def _best(problem: Problem, champion: Champion, measured: bool) -> dict[str, Any]:
    """The champion as the summary has it; `valid` is the judge's word, `bound_by` what its modelled time goes to,
    `is_baseline` True where it is the baseline's own mapping."""
    shares = None if measured else shares_of(problem, champion.mapping)
    return {
        "reward": champion.reward,
        "speedup": champion.speedup,
        "cost": champion.cost,
        "unit": problem.about.unit,
        "valid": not problem.judge(champion.mapping),
        "source": champion.source,
        "evaluation": champion.ticket,
        **({} if shares is None else {"bound_by": shares}),
        **({"untaught": True} if champion.untaught else {}),
        **({"is_baseline": True} if _is_baseline(problem, champion.mapping) else {}),
    }


def _is_baseline(problem: Problem, mapping: Mapping16) -> bool:
    """Whether a mapping [N, H] is the baseline's, all of which a mapping can express."""
    beyond = isinstance(problem, HasPlacement) and problem.baseline_placement() is not None
    return not beyond and bool(np.array_equal(mapping, problem.baseline.mapping))


def _certified(
    problem: Problem, champion: Champion | None, seconds: float, bound: Bound | None
) -> dict[str, Any]:
    """The bound on the cost and the gap to it; where rewards are bounded, that bound and its gap, too."""
    if bound is None:
        bound = problem.bound(seconds) if isinstance(problem, HasBound) else UNPROVED
    found: dict[str, Any] = {"bound": None, "gap": None}
    if bound.cost > 0:
        found = {"bound": bound.cost, "gap": None if champion is None else champion.cost / bound.cost - 1.0}
    if math.isfinite(bound.reward):
        found["reward_bound"] = bound.reward
        found["reward_gap"] = None if champion is None else bound.reward - champion.reward
    return found


def read_summary(run: Path) -> dict[str, Any]:
    """summary.json of a run folder; InputError where there is none, it is damaged, or its numbers are not the run's."""
    path = run / SUMMARY
    summary = parse_document(read_text(path, "the summary of a run"), str(path), KIND, VERSION)
    check_document(_Summary, summary, str(path))
    check_characters(summary, str(path))
    check_agreement(run, str(path), summary)
    return summary


def check_version(run: Path) -> None:
    """InputError if the summary of a run folder is of another version of egrl: a run that goes on would replace it.

    What else may be wrong with it does not matter: it is written anew.
    """
    path = run / SUMMARY
    try:
        document = (
            parse_object(read_text(path, "the summary of a run"), str(path), KIND) if path.exists() else {}
        )
    except InputError:
        return
    if document.get("version", VERSION) != VERSION:
        judge({**document, "kind": KIND}, str(path), KIND, VERSION)


def named_before(run: Path, evaluations: int, budget: Mapping[str, Any]) -> dict[str, Any] | None:
    """The summary of a run folder whose boards have named the best of all its evaluations within this budget, or None.

    To name it again would cost requests that the budget does not have.
    """
    if not (run / SUMMARY).exists():
        return None
    found = read_summary(run)
    named = found.get("complete") is True and "evaluator" in found
    named = named and (found["best"] is None or confirmed(found))
    return found if named and (found["evaluations"], found.get("budget")) == (evaluations, budget) else None


def sentence(summary: Mapping[str, Any], folder: str) -> str:
    """The summary as short lines of text."""
    best, baseline, about = summary["best"], summary["baseline"], about_of(summary)
    head, count = f"{summary['workload']} on {summary['chip']}, {summary['method']}:", _spent(summary)
    if best is None:
        return f"{head} no valid mapping found in {count}\nrun folder: {folder}"
    unit = best.get("unit", "s")
    kept = BASELINE_LAYOUT if (Path(folder) / BASELINE_LAYOUT).is_file() else ""
    costs = f"{cost_text(best['cost'], unit, 1)} instead of {cost_text(baseline['cost'], unit, 1)}"
    rules = rule_text(baseline)
    said = compared(best["speedup"], baseline_text(about, "" if rules else baseline.get("rule", "")), unit)
    lines = [
        ", ".join(filter(None, (f"{head} {said}", sureness(summary)))),
        f"{costs}, {found_by(best)}",
        unconfirmed_text(summary, folder),
        *board_remarks(summary),
        verdict(summary),
        distance(summary["gap"]),
        _reward(summary),
        rules,
        advice(summary, kept),
        count,
        members_text(summary),
        _sooner(summary),
        f"run folder: {folder}",
    ]
    return "\n".join(line for line in lines if line)


def _spent(summary: Mapping[str, Any]) -> str:
    """Generations, evaluations and seconds; if the method ended within a generation, that it has no more to propose."""
    generations, evaluations = summary["generations"], summary["evaluations"]
    spent = f"{counted(evaluations, 'evaluation')}, {summary['seconds']:.0f} s"
    if summary.get("stopped") == GAP:
        return f"{counted(generations, 'generation')}, {spent}; {_near(summary)}"
    if evaluations < generations * summary.get("generation_evals", GENERATION):
        return f"{spent}; the method has nothing more to propose"
    return f"{counted(generations, 'generation')}, {spent}"


MEMBERS = {"network": "networks", "boltzmann": "chromosomes", "sac": "SAC"}
"""What texts call the sources of members."""


def members_text(summary: Mapping[str, Any]) -> str:
    """Who made the evaluations, who was near the best first, how migration went; "" of a method that is one thing."""
    members = summary.get("members", [])
    if not members or not isinstance(members, list):
        return ""
    total = max(1, summary["evaluations"])
    shares = ", ".join(f"{_member(member)} {member['evaluations'] / total:.0%}" for member in members)
    near = [member for member in members if member["first_near_best"] is not None]
    first = min(near, key=lambda member: int(member["first_near_best"]), default=None)
    parts = [f"evaluations: {shares}"]
    if first is not None:
        parts.append(
            f"within 0.01% of the best first: {_member(first)}, evaluation {first['first_near_best'] + 1:,}"
        )
    if (migration := summary.get("migration")) is not None:
        parts.append(
            "{} of SAC's networks migrated: {accepted} accepted, {alive} alive".format(
                migration["offered"], **migration
            )
        )
    if (temperatures := summary.get("temperatures")) is not None:
        parts.append("temperatures {:.2f} to {:.2f}".format(*temperatures))
    return "\n".join(parts)


def _member(member: Mapping[str, Any]) -> str:
    name = str(member["name"])
    return MEMBERS.get(name, name.replace("_", " "))


def _sooner(summary: Mapping[str, Any]) -> str:
    """What `--until-gap` would have saved; "" if that is little, or not known."""
    found = summary.get("sooner")
    if found is None:
        return ""
    gained = "nothing" if found["rest"] <= 0 else f"at most {percent_up(found['rest'])}"
    stops = "would have stopped there" if found["known"] else "stops there as soon as the gap is proved"
    first = counted(found["evaluations"], "evaluation")
    return f"after the first {first} the search gained {gained}; --until-gap {found['until_gap']} {stops}"


def _near(summary: Mapping[str, Any]) -> str:
    """Why a run stopped before its budget was spent."""
    gap, reward = summary["gap"], summary.get("reward_gap")
    if reward is None and gap is not None and abs(gap) <= OPTIMAL:
        return "stopped: nothing better is possible"
    return "stopped: the best is within --until-gap of the proven limit"


def _reward(summary: Mapping[str, Any]) -> str:
    """The reward beside its bound; "" where there is none."""
    bound = summary.get("reward_bound")
    if bound is None:
        return ""
    best = summary["best"]
    text = f"reward {best['reward']:.4f}"
    if summary["reward_gap"] > PROVED:
        text += f" of {reward_up(bound)} at most"
    if best["speedup"] < 1:
        text += " (the reward chose it; --set problem.reward=latency chooses by latency)"
    return text
