"""How far the best mapping known is from a proven bound on the reward, for problems that have one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from egrl.runs.text import compared
from hwsim.capabilities import HasBestKnown
from hwsim.mappings import sample_uniformly
from hwsim.problem import About, Bound, Mapping16, Problem

PLAYS = 200
"""Random mappings that are tried where none better is known."""

AT_ONCE = 20
"""Of these, evaluated together."""

PROVED = 1e-6
"""A gap up to this share of the bound is what proofs and rounding may give away."""


def certificate(
    problem: Problem, bound: Bound, seed: int, given: dict[str, Mapping16]
) -> tuple[dict[str, Any], Mapping16]:
    """The certificate of a bound on a problem's rewards, and the best mapping [N, H] known.

    What is known: the baseline, each choice taken everywhere, random mappings, what the problem itself knows, and the
    mappings that are given.
    """
    known, remarks = {problem.baseline.name: problem.baseline.mapping, **_everywhere(problem)}, []
    known[f"the best of {PLAYS} random mappings"] = _best_of_random(problem, seed)
    known |= given
    if isinstance(problem, HasBestKnown):
        best_known, remark = problem.best_known()
        remarks += [remark] if remark else []
        if best_known is not None:
            known["package"] = best_known
    found = problem.evaluate(np.stack(list(known.values())), np.zeros(len(known), np.uint64))
    best = int(np.argmax(np.where(np.isfinite(found.cost), found.reward, -np.inf)))
    source, reward = list(known)[best], float(found.reward[best])
    return {
        "kind": "reward-bound",
        "version": 1,
        "problem": problem.about.name,
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "unit": problem.about.unit,
        "reward_bound": bound.reward,
        "proof": bound.proof,
        "seconds": round(bound.seconds, 3),
        "best_known": {
            "reward": reward,
            "source": source,
            "cost": float(found.cost[best]),
            "speedup": float(found.speedup[best]),
        },
        "reward_gap": bound.reward - reward,
        "baseline": {"cost": problem.baseline.cost, "rule": problem.baseline.name},
        "remarks": remarks,
    }, known[source]


def _everywhere(problem: Problem) -> dict[str, Mapping16]:
    """A mapping for each choice that every decision has, where there is one head."""
    if len(problem.space.heads) != 1:
        return {}
    fewest = int(problem.space.num_choices.min())
    return {
        f"{label} everywhere": problem.space.canonical(np.full(problem.space.shape, choice, np.int16))
        for choice, label in enumerate(problem.space.labels[0][:fewest])
    }


def _best_of_random(problem: Problem, seed: int) -> Mapping16:
    """The mapping [N, H] with the highest reward of `PLAYS`, every decision drawn evenly."""
    best, highest = problem.baseline.mapping, -np.inf
    for first in range(0, PLAYS, AT_ONCE):
        keys = np.random.default_rng([seed, first]).integers(0, 2**63, AT_ONCE).astype(np.uint64)
        drawn = sample_uniformly(problem, keys)
        found = problem.evaluate(drawn, keys)
        row = int(np.argmax(np.where(np.isfinite(found.cost), found.reward, -np.inf)))
        if np.isfinite(found.cost[row]) and found.reward[row] > highest:
            best, highest = drawn[row], float(found.reward[row])
    return best


def text_of(report: dict[str, Any], about: About) -> str:
    """The certificate for people; `about` has the problem's words."""
    best, bound = report["best_known"], report["reward_bound"]
    took = f", {report['seconds']:.1f} s" if report["seconds"] > 0 else ""
    if report["reward_gap"] <= PROVED * abs(bound):
        gap = "none: the best known is proven to be the best possible"
    else:
        gap = (
            f"{reward_up(report['reward_gap'])}: the best known has {best['reward'] / bound:.1%} of the bound"
        )
    lines = [
        f"{report['workload']} on {report['chip']}: no mapping has a reward above {reward_up(bound)}",
        f"  proof       {report['proof']}{took}",
        f"  best known  {best['reward']:.4f} ({best['source']}),"
        f" {compared(best['speedup'], about.baseline_name, about.unit)}",
        f"  gap         {gap}",
    ]
    if "written" in report:
        lines.append(f"  written     {report['written']}: the best mapping known")
    return "\n".join([*lines, *(f"  note        {remark}" for remark in report["remarks"])])


def reward_up(reward: float) -> str:
    """A reward rounded up to four digits, so that "at most" holds; what proofs give away for rounding is left out."""
    return f"{math.ceil(reward * 1e4 - 1e4 * PROVED) / 1e4:.4f}"
