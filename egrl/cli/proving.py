"""egrl bound and simplify: what a model proves of a mapping, and which of its changes matter."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from egrl.cli import flags
from egrl.cli.output import output_file, remark
from egrl.runs.text import (
    OPTIMAL,
    PROVED,
    baseline_table,
    better,
    compared,
    cost_text,
    percent_up,
    reward_up,
    rule_text,
    shares_of,
    short_baseline_text,
    table_of,
    verdict,
)
from hwsim.baseline import noise_free_cost
from hwsim.capabilities import HasBestKnown, HasBound, HasModel
from hwsim.mappings import sample_uniformly
from hwsim.problem import About, Bound, Mapping16, Problem
from workloads.errors import InputError

DEFAULT_SECONDS = 60.0
LONGEST_LABEL = 11
"""Characters of a baseline's name that fit where a line has its label."""


@click.command(name="bound", short_help="prove a bound, and show the best mapping known and the gap")
@click.option(
    "--workload", required=True, help="a workload of `egrl list workloads`, or a file (.json, .onnx, .pt2)"
)
@flags.use("problem", "chip")
@click.option(
    "--seconds", type=float, help="prove anew within this time; the bound reached by then counts [60]"
)
@click.option("--seed", type=int, help="prove anew with this seed of the search for a good mapping [0]")
@click.option(
    "--prove", is_flag=True, help="prove anew, even if bound and best mapping ship with the package"
)
@click.option("--mapping", "mappings", multiple=True, help="also consider this mapping file")
@click.option("--run", "runs", multiple=True, help="also consider the best mapping of this run folder")
@flags.use("baseline")
@click.option("-o", "--output", help="write the best mapping known to this file")
@flags.use("settings", "json")
def bound(
    workload: str,
    problem: str,
    chip: str,
    seconds: float | None,
    seed: int | None,
    prove: bool,
    mappings: tuple[str, ...],
    runs: tuple[str, ...],
    baseline: str,
    output: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Prove a lower bound on the cost of every mapping, and show the best mapping known and the gap between them.

    What ships with the package is shown at once; --seconds, --seed or --prove solve the problem's model anew. Of a
    problem whose rewards are bounded instead (mmap), the upper bound on the reward is shown, the best reward known and
    the gap; --seed is that of random mappings then.

    \b
    egrl bound --workload bert
    egrl bound --workload bert --seconds 60
    egrl bound --workload bert --run runs/bert-egrl-s0-1
    egrl bound --problem mmap --workload alexnet_train_batch_32
    """
    from egrl.core import atomic, mapping_file
    from egrl.problems import build_problem
    from egrl.runs.folder import BEST

    written = None if output is None else output_file(output)
    limit_s = DEFAULT_SECONDS if seconds is None else seconds
    if not (limit_s > 0 and math.isfinite(limit_s)) or (seed or 0) < 0:
        raise InputError(
            f"--seconds, --seed: expected a positive number and a seed >= 0, found {limit_s}, {seed or 0}"
        )
    subject = build_problem(problem, workload, chip, settings, baseline)
    given = {name: mapping_file.read(name, subject) for name in mappings}
    given |= {name: mapping_file.read(str(Path(name) / BEST), subject) for name in runs}
    anew = prove or seconds is not None or seed is not None
    shipped = None if anew else shipped_bound(subject)
    proved = shipped or _proved(subject, limit_s)
    if proved is not None and math.isfinite(proved.reward):
        report, best = certificate(subject, proved, seed or 0, given)
        text = certificate_text
    else:
        report, best = bound_report(subject, limit_s, seed or 0, given, proved)
        text = text_of
    if shipped is not None:
        report["remarks"].insert(0, "bound and best mapping ship with egrl; --prove solves the model again")
    try:
        if written is not None:
            atomic.write_named(written, mapping_file.dumps(subject, best))
            report["written"] = output
    finally:  # a disk that refuses takes the file and not the bound
        click.echo(json.dumps(report, allow_nan=False) if as_json else text(report, subject.about))
    return 0


def shipped_bound(problem: Problem) -> Bound | None:
    """The bound that the package holds, where it holds a best mapping, too: then there is nothing to solve."""
    if not isinstance(problem, HasBound) or not isinstance(problem, HasBestKnown):
        return None
    bound = problem.bound(0)
    return bound if bound.cost > 0 and problem.best_known()[0] is not None else None


def _proved(problem: Problem, seconds: float) -> Bound | None:
    """The bound that a problem without a model proves within the limit; None if there is a model, to be solved later.

    A line on stderr says that a proof begins. InputError if there is neither model nor bound, or nothing is proved.
    """
    if isinstance(problem, HasModel | HasBound):
        remark(
            "bound",
            f"proving a bound for {problem.about.workload} on {problem.about.chip}, about {seconds:g} s at most",
        )
    if isinstance(problem, HasModel):
        return None
    if not isinstance(problem, HasBound):
        raise InputError(
            f"--problem {problem.about.name}: expected one with a model that can be solved or with a bound of its own"
        )
    found = problem.bound(seconds)
    if found.cost <= 0 and not math.isfinite(found.reward):
        raise InputError(f"--problem {problem.about.name}: expected more time, since nothing could be proved")
    return found


def bound_report(
    problem: Problem, seconds: float, seed: int, given: dict[str, Mapping16], proved: Bound | None = None
) -> tuple[dict[str, Any], Mapping16]:
    """The certificate of a problem, and the best mapping [N, H] known.

    It solves the problem's model within `seconds`, unless what is `proved` makes that needless.
    """
    known: dict[str, Mapping16] = {problem.about.baseline_name.removeprefix("the "): problem.baseline.mapping}
    if proved is None:
        assert isinstance(problem, HasModel)
        solution = problem.solve(seconds, seed)
        proved = solution.bound
        known["solver"] = solution.mapping
    known |= given
    remarks = _add_shipped(problem, known)
    costs = {name: noise_free_cost(problem, mapping) for name, mapping in known.items()}
    source = min(costs, key=lambda name: math.inf if math.isnan(costs[name]) else costs[name])
    if not math.isfinite(costs[source]) or proved.cost <= 0:
        what = "no valid mapping was found" if proved.cost > 0 else "nothing could be proved"
        raise InputError(f"--problem {problem.about.name}: expected more time, since {what}")
    report = {
        **_head("bound", problem),
        "bound": proved.cost,
        "proof": proved.proof,
        "seconds": round(proved.seconds, 3),
        "best_known": {
            "cost": costs[source],
            "source": source,
            "speedup": problem.baseline.cost / costs[source],
            "bound_by": shares_of(problem, known[source]),
        },
        "gap": costs[source] / proved.cost - 1.0,
        "baseline": baseline_table(problem),
        "baseline_gap": problem.baseline.cost / proved.cost - 1.0,
        "remarks": remarks,
    }
    return report, known[source]


def _add_shipped(problem: Problem, known: dict[str, Mapping16]) -> list[str]:
    """Add the best mapping that the package has to what is known; a remark about it, if there is one."""
    if not isinstance(problem, HasBestKnown):
        return []
    found, remark = problem.best_known()
    if found is not None:
        known["package"] = found
    return [remark] if remark else []


def _head(kind: str, problem: Problem) -> dict[str, Any]:
    return {"kind": kind, "version": 1, **problem.about.names, "unit": problem.about.unit}


NO_GAP = "none: the best known is proven to be the best possible"


def text_of(report: dict[str, Any], about: About) -> str:
    """The certificate for people; `about` has the problem's words."""
    best, baseline, unit = report["best_known"], report["baseline"], report["unit"]
    baseline_name = short_baseline_text(about)
    label, detail = baseline_name.removeprefix("the "), baseline["rule"]
    if len(label) > LONGEST_LABEL:
        label, detail = "baseline", baseline_name
    named = "" if detail == label else f" ({detail})"
    above = f"{report['baseline_gap']:.2%} above the bound"
    gap = NO_GAP
    if abs(report["gap"]) > OPTIMAL:
        gap = f"{percent_up(report['gap'])}: the best known is within that of the best possible"
    said = verdict({**report, "best": best, "about": table_of(about)})
    rules = rule_text(baseline)
    limit = f"no mapping is {better(unit)} than {cost_text(report['bound'], unit)}"
    reached = f"{cost_text(best['cost'], unit)} ({best['source']}), {compared(best['speedup'], baseline_name, unit)}"
    lines = [
        f"  {label:<12}{cost_text(baseline['cost'], unit)}, {above}{named}",
        *([f"  heuristics  {rules.partition('; ')[2]}"] if rules else []),
        f"  gap         {gap}",
        *(f"  {name:<12}{line}" for name, line in zip(("limit", "time"), said.splitlines(), strict=False)),
    ]
    return _lines(report, limit, reached, lines)


def _lines(report: dict[str, Any], limit: str, reached: str, lines: list[str]) -> str:
    """A certificate: what no mapping can reach, what the best known reaches, and further lines."""
    took = f", {report['seconds']:.1f} s" if report["seconds"] > 0 else ""
    if "written" in report:
        lines.append(f"  written     {report['written']}: the best mapping known")
    return "\n".join(
        [
            f"{report['workload']} on {report['chip']}: {limit}",
            f"  proof       {report['proof']}{took}",
            f"  best known  {reached}",
            *lines,
            *(f"  note        {remark}" for remark in report["remarks"]),
        ]
    )


PLAYS = 200
"""Random mappings that are tried where none better is known."""

AT_ONCE = 20
"""Random mappings that are evaluated together."""


def certificate(
    problem: Problem, bound: Bound, seed: int, given: dict[str, Mapping16]
) -> tuple[dict[str, Any], Mapping16]:
    """The certificate of a bound on a problem's rewards, and the best mapping [N, H] known.

    What is known: the baseline, each choice taken everywhere, random mappings, what the problem itself knows, and the
    mappings that are given.
    """
    known = {problem.baseline.name: problem.baseline.mapping, **_everywhere(problem)}
    known[f"the best of {PLAYS} random mappings"] = _best_of_random(problem, seed)
    known |= given
    remarks = _add_shipped(problem, known)
    found = problem.evaluate(np.stack(list(known.values())), np.zeros(len(known), np.uint64))
    best = int(np.argmax(np.where(np.isfinite(found.cost), found.reward, -np.inf)))
    source, reward = list(known)[best], float(found.reward[best])
    return {
        **_head("reward-bound", problem),
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


def certificate_text(report: dict[str, Any], about: About) -> str:
    """The certificate of a bound on rewards for people; `about` has the problem's words."""
    best, bound, gap = report["best_known"], report["reward_bound"], NO_GAP
    if report["reward_gap"] > PROVED * abs(bound):
        gap = (
            f"{reward_up(report['reward_gap'])}: the best known has {best['reward'] / bound:.1%} of the bound"
        )
    speedup = compared(best["speedup"], short_baseline_text(about), about.unit)
    reached = f"{best['reward']:.4f} ({best['source']}), {speedup}"
    return _lines(
        report, f"no mapping has a reward above {reward_up(bound)}", reached, [f"  gap         {gap}"]
    )
