"""egrl bound: how far is the best mapping known from the best possible?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from hwsim.problem import HasBestKnown, HasModel, Mapping16, Problem
from workloads.errors import InputError


@click.command(name="bound", short_help="prove a lower bound, and show the best mapping known and the gap")
@click.option(
    "--workload", required=True, help="a workload of `egrl list workloads`, or a workload file (.json)"
)
@click.option("--problem", default="nnpi", help="what a mapping costs; see `egrl list problems` [nnpi]")
@click.option("--chip", default="", help="a chip of `egrl list chips`, or a chip file (.toml)")
@click.option("--seconds", type=float, default=60.0, help="time limit; the bound reached by then counts [60]")
@click.option("--seed", type=int, default=0, help="of the search for a good mapping [0]")
@click.option("--mapping", "mappings", multiple=True, help="also consider this mapping file")
@click.option("-o", "--output", help="write the best mapping known to this file")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="problem.KEY=VALUE")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document on stdout")
def command(
    workload: str,
    problem: str,
    chip: str,
    seconds: float,
    seed: int,
    mappings: tuple[str, ...],
    output: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Prove a lower bound on the cost of every mapping, and show the best mapping known and the gap between them.

    \b
    egrl bound --workload bert --seconds 60
    """
    from egrl import atomic, config, mapping_file, problems

    if not (seconds > 0 and math.isfinite(seconds)) or seed < 0:
        raise InputError(
            f"--seconds, --seed: expected a positive number and a seed >= 0, found {seconds}, {seed}"
        )
    definition = problems.find(problem).load()
    tables = config.parse_set(settings)
    settled: Any = config.build(definition.config, tables["problem"], "--set problem")
    subject = definition.build(workload, chip or definition.chips()[0], settled)
    given = {name: mapping_file.read(name, subject) for name in mappings}
    report, best = bound_report(subject, seconds, seed, given)
    if output is not None:
        atomic.write(Path(output), mapping_file.dumps(subject, best))
    click.echo(json.dumps(report, allow_nan=False) if as_json else text_of(report))
    return 0


def bound_report(
    problem: Problem, seconds: float, seed: int, given: dict[str, Mapping16]
) -> tuple[dict[str, Any], Mapping16]:
    """The certificate of a problem, and the best mapping [N, H] known. InputError where it has no model."""
    if not isinstance(problem, HasModel):
        raise InputError(f"--problem {problem.name}: expected a problem with a model that can be solved")
    solution = problem.solve(seconds, seed)
    known: dict[str, Mapping16] = {
        "compiler": problem.baseline.mapping,
        "model and polish": solution.mapping,
        **given,
    }
    remarks: list[str] = []
    if isinstance(problem, HasBestKnown):
        best_known, remark = problem.best_known()
        remarks += [remark] if remark else []
        if best_known is not None:
            known["package"] = best_known
    costs = {name: _cost(problem, mapping) for name, mapping in known.items()}
    source = min(costs, key=costs.__getitem__)
    bound = solution.bound
    report = {
        "kind": "bound",
        "version": 1,
        "problem": problem.name,
        "workload": problem.workload,
        "chip": problem.chip,
        "unit": problem.unit,
        "bound": bound.cost,
        "proof": bound.proof,
        "seconds": round(bound.seconds, 3),
        "best_known": {
            "cost": costs[source],
            "source": source,
            "speedup": problem.baseline.cost / costs[source],
        },
        "gap": costs[source] / bound.cost - 1.0,
        "baseline": {"cost": problem.baseline.cost, "rule": problem.baseline.name},
        "baseline_gap": problem.baseline.cost / bound.cost - 1.0,
        "remarks": remarks,
    }
    return report, known[source]


def _cost(problem: Problem, mapping: Mapping16) -> float:
    """The noise-free cost of what runs for a mapping [N, H]."""
    if isinstance(problem, HasModel):
        return problem.model_cost(mapping)
    return float(problem.evaluate(mapping[None], np.zeros(1, np.uint64)).cost[0])


def text_of(report: dict[str, Any]) -> str:
    """The certificate for people."""
    best, baseline = report["best_known"], report["baseline"]
    above = f"{report['baseline_gap']:.2%} above the bound"
    lines = [
        f"{report['workload']} on {report['chip']}: no mapping is faster than {report['bound'] * 1e6:.2f} us",
        f"  proof       {report['proof']}, {report['seconds']:.1f} s",
        f"  best known  {best['cost'] * 1e6:.2f} us ({best['source']}), {best['speedup']:.4f}x the compiler",
        f"  compiler    {baseline['cost'] * 1e6:.2f} us, {above} ({baseline['rule']})",
        f"  gap         {report['gap']:.2%}: the best known is at most this far above the best possible",
    ]
    return "\n".join([*lines, *(f"  note        {remark}" for remark in report["remarks"])])
