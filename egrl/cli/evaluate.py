"""egrl evaluate: score and explain one mapping."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from egrl.cli import flags
from egrl.cli.explanations import lines_of
from egrl.cli.subject import run_or_flags
from hwsim.capabilities import HasBound, HasExplanation
from hwsim.problem import Mapping16, Problem, Status

MOST_VIOLATIONS = 20
"""Shown to people."""


@click.command(name="evaluate", short_help="score and explain one mapping, op by op")
@click.argument("run", required=False)
@click.option(
    "--workload",
    help="without RUN: a workload of `egrl list workloads`, or a file (.json, .onnx, .pt2)",
)
@click.option(
    "--mapping",
    help="without RUN: a mapping file (best_mapping.json), compiler, or best-known: the best that ships, or wisdom's"
    " [compiler]",
)
@click.option("--problem", help="without RUN: what a mapping costs; see `egrl list problems` [nnpi]")
@click.option("--chip", help="without RUN: a chip of `egrl list chips`, or a chip file (.toml)")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="without RUN: problem.KEY=VALUE")
@flags.baseline()
@click.option("--json", "as_json", is_flag=True, help="print one JSON document on stdout")
def command(
    run: str | None,
    workload: str | None,
    mapping: str | None,
    problem: str | None,
    chip: str | None,
    settings: tuple[str, ...],
    baseline: str,
    as_json: bool,
) -> int:
    """Score a run's best mapping, or another one, and say where its cost goes: op by op (nnpi), chip by chip (mcm), or
    to the nodes that cost the most and fill the memory (shard).

    \b
    egrl evaluate runs/bert-egrl-s0-1
    egrl evaluate --workload bert --mapping runs/bert-egrl-s0-1/best_mapping.json
    """
    named = {"--workload": workload, "--mapping": mapping, "--problem": problem, "--chip": chip}
    subject, chosen, name = run_or_flags("evaluate", run, named, settings, baseline)
    report = evaluation_report(subject, chosen, name)
    shown: list[str] = []
    if run is not None and (measured := measured_best(Path(run))):
        report["measured"] = measured
        shown = add_profile(measured, Path(run), problem or "")
    rewarded = isinstance(subject, HasBound) and math.isfinite(subject.bound(0).reward)
    text = (
        json.dumps(report, allow_nan=False)
        if as_json
        else text_of(report, subject.about.rival, rewarded, shown)
    )
    click.echo(text)
    return 0


def add_profile(measured: dict[str, Any], run: Path, problem: str) -> list[str]:
    """Add what the board's profile says of a run's best mapping, if there is one; the lines for people about it."""
    from egrl.report.profiled import lines, profiled
    from egrl.runs.past import PastRun

    past = PastRun.read(run, problem)
    found = profiled(past, past.best_mapping())
    if found is None:
        return []
    measured["profile"] = found.document()
    return lines(found)


def measured_best(run: Path) -> dict[str, Any] | None:
    """Cost and speedup of a run's best as it was measured, and by what; None where the model gave the run's costs."""
    from egrl.runs.summary import read_summary

    summary = read_summary(run)
    best, evaluator = summary["best"], summary.get("evaluator")
    if best is None or not isinstance(evaluator, Mapping):
        return None
    return {"cost": best["cost"], "speedup": best["speedup"], "by": evaluator["command"]}


def evaluation_report(problem: Problem, mapping: Mapping16, name: str) -> dict[str, Any]:
    """What one mapping [N, H] costs, what it breaks as given, and where the cost of what runs comes from."""
    found = problem.evaluate(mapping[None], np.zeros(1, np.uint64))
    ran = found.status[0] == Status.OK
    explanation = problem.explain(mapping) if isinstance(problem, HasExplanation) else None
    return {
        "kind": "evaluation",
        "version": 1,
        "problem": problem.about.name,
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "mapping": name,
        "status": Status(int(found.status[0])).name.lower(),
        "cost": float(found.cost[0]) if ran else None,
        "unit": problem.about.unit,
        "speedup": float(found.speedup[0]),
        "reward": float(found.reward[0]),
        "epsilon": float(found.epsilon[0]),
        "baseline": {"cost": problem.baseline.cost, "rule": problem.baseline.name},
        "violations": [str(violation) for violation in problem.judge(mapping)],
        "explanation": None if explanation is None else dataclasses.asdict(explanation),
    }


def text_of(
    report: Mapping[str, Any], rival: str, rewarded: bool = False, profile: Sequence[str] = ()
) -> str:
    """The report for people: the explanation as a table, then the score over the `rival` ("the compiler"); with the
    reward where that is no matter of the cost alone. The lines of a `profile` stand between them.
    """
    from egrl.runs.units import cost_text

    unit = report["unit"]
    lines = []
    if measured := report.get("measured"):
        score = f"{cost_text(measured['cost'], 's')}, {measured['speedup']:.4f}x {rival}, by {measured['by']}"
        lines.append(f"measured: {score}; the table below is computed from the chip file, not measured\n")
    if report["explanation"] is not None:
        lines += lines_of(report["explanation"], unit)
    lines += profile
    broken = report["violations"]
    lines += [f"not valid as given: {violation}" for violation in broken[:MOST_VIOLATIONS]]
    if len(broken) > MOST_VIOLATIONS:
        lines.append(f"not valid as given: {len(broken) - MOST_VIOLATIONS} violations more (--json has all)")
    cost = "did not run" if report["cost"] is None else cost_text(report["cost"], unit)
    lines.append(
        f"{report['workload']} on {report['chip']}, {report['mapping']}: {cost}, {report['speedup']:.4f}x"
        f" {rival} ({report['baseline']['rule']}, {cost_text(report['baseline']['cost'], unit)}),"
        + (f" reward {report['reward']:.4f}," if rewarded else "")
        + f" status {report['status']}, epsilon {report['epsilon']:.4f}"
        + (", by the chip file" if measured else "")
    )
    if measured:
        lines.append(f"measured: {score}")
    return "\n".join(lines)
