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

from egrl.cli.explanations import lines_of
from hwsim.capabilities import HasBestKnown, HasBound, HasBreakdown, HasExplanation, HasPartition
from hwsim.explanation import Breakdown, Explanation, Partition
from hwsim.problem import Mapping16, Problem, Status
from workloads.errors import InputError
from workloads.nearest import hint

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
@click.option("--json", "as_json", is_flag=True, help="print one JSON document on stdout")
def command(
    run: str | None,
    workload: str | None,
    mapping: str | None,
    problem: str | None,
    chip: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Score a run's best mapping, or another one, and say where its cost goes: op by op (nnpi), chip by chip (mcm), or
    to the nodes that cost the most and fill the memory (shard).

    \b
    egrl evaluate runs/bert-egrl-s0-1
    egrl evaluate --workload bert --mapping runs/bert-egrl-s0-1/best_mapping.json
    """
    flags = {"--workload": workload, "--mapping": mapping, "--problem": problem, "--chip": chip}
    subject, chosen, name = run_or_flags("evaluate", run, flags, settings)
    report = evaluation_report(subject, chosen, name)
    if run is not None and (measured := measured_best(Path(run))):
        report["measured"] = measured
    rewarded = isinstance(subject, HasBound) and math.isfinite(subject.bound(0).reward)
    click.echo(
        json.dumps(report, allow_nan=False) if as_json else text_of(report, subject.about.rival, rewarded)
    )
    return 0


def run_or_flags(
    command_name: str, run: str | None, flags: Mapping[str, str | None], settings: Sequence[str]
) -> tuple[Problem, Mapping16, str]:
    """The problem, the mapping [N, H] and where it is from: a run's best, or what the flags --workload, --mapping,
    --problem and --chip (None: not given) name. InputError where both or neither are given, or one is wrong.

    Beside a run --problem may name its problem, which it must where that is MODULE:NAME.
    """
    given = [flag for flag, value in flags.items() if value is not None and flag != "--problem"]
    given += ["--set"] * bool(settings)
    if run is not None and given:
        raise InputError(
            f"{command_name}: expected a run folder or --workload, found {run} and {', '.join(given)}"
        )
    if run is not None:
        from egrl.runs import folder as run_folder
        from egrl.runs.past import PastRun

        past = PastRun.read(Path(run), flags["--problem"] or "")
        return past.problem, past.best_mapping(), str(Path(run) / run_folder.BEST)
    if flags["--workload"] is None:
        raise InputError(f"{command_name}: expected a run folder or --workload, found neither")
    subject = subject_of(flags["--workload"], flags["--problem"] or "nnpi", flags["--chip"] or "", settings)
    mapping = flags["--mapping"] or "compiler"
    return subject, mapping_of(mapping, subject), mapping


def measured_best(run: Path) -> dict[str, Any] | None:
    """Cost and speedup of a run's best as it was measured, and by what; None where the model gave the run's costs."""
    from egrl.runs.summary import read_summary

    summary = read_summary(run)
    best, evaluator = summary["best"], summary.get("evaluator")
    if best is None or not isinstance(evaluator, Mapping):
        return None
    return {"cost": best["cost"], "speedup": best["speedup"], "by": evaluator["command"]}


def subject_of(workload: str, problem: str, chip: str, settings: Sequence[str]) -> Problem:
    """The problem that flags name; the default chip where `chip` is empty. InputError where they are wrong."""
    from egrl.core import typed_tables
    from egrl.problems import find_problem

    definition = find_problem(problem).load()
    tables = typed_tables.parse_set(settings, "problem")
    settled: Any = typed_tables.build(definition.config, tables["problem"], "--set problem")
    return definition.build(workload, chip or definition.chips()[0], settled)


def mapping_of(mapping: str, problem: Problem) -> Mapping16:
    """The mapping [N, H] that --mapping names. InputError where there is none, or its file is not of the problem."""
    from egrl.runs import mapping_file

    if mapping == "compiler":
        return problem.baseline.mapping
    if mapping == "best-known":
        found, remark = problem.best_known() if isinstance(problem, HasBestKnown) else (None, "")
        if found is None:
            why = remark or f"none ships for {problem.about.workload} on {problem.about.chip}"
            raise InputError(
                f"--mapping best-known: expected a best mapping that ships with the package or is wisdom: {why}"
            )
        return found
    if not Path(mapping).exists():
        raise InputError(
            f"--mapping {mapping}: expected compiler, best-known or a mapping file (best_mapping.json of a run),"
            f" found no such file{hint(mapping, ('compiler', 'best-known'))}"
        )
    return mapping_file.read(mapping, problem)


def evaluation_report(problem: Problem, mapping: Mapping16, name: str) -> dict[str, Any]:
    """What one mapping [N, H] costs, what it breaks as given, and where the cost of what runs comes from."""
    found = problem.evaluate(mapping[None], np.zeros(1, np.uint64))
    ran = found.status[0] == Status.OK
    explanation: Explanation | Partition | Breakdown | None = None
    if isinstance(problem, HasExplanation):
        explanation = problem.explain(mapping)
    elif isinstance(problem, HasPartition):
        explanation = problem.partition(mapping)
    elif isinstance(problem, HasBreakdown):
        explanation = problem.breakdown(mapping)
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


def text_of(report: Mapping[str, Any], rival: str, rewarded: bool = False) -> str:
    """The report for people: the explanation as a table, then the score over the `rival` ("the compiler"); with the
    reward where that is no matter of the cost alone."""
    from egrl.runs.units import cost_text

    unit = report["unit"]
    lines = [] if report["explanation"] is None else lines_of(report["explanation"], unit)
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
    )
    if measured := report.get("measured"):
        lines.append(
            f"that is the model's word; the run measured {cost_text(measured['cost'], 's')},"
            f" {measured['speedup']:.4f}x, by {measured['by']}"
        )
    return "\n".join(lines)
