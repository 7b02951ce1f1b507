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
from egrl.cli.flags import run_or_flags
from egrl.report.explaining import by_the_file
from egrl.runs import gap, text
from egrl.runs.summary import read_summary
from egrl.runs.text import baseline_table, cost_text, distance, rule_text, scaled, shares_of, shown, verdict
from hwsim.capabilities import HasBound, HasExplanation
from hwsim.problem import About, Mapping16, Problem, Status
from workloads.text import aligned

MOST_VIOLATIONS = 20
"""Shown to people."""


@click.command(name="evaluate", short_help="score and explain one mapping, op by op")
@click.argument("run", required=False)
@flags.use("own_workload")
@click.option(
    "--mapping",
    help="a mapping file (best_mapping.json), compiler, or best-known: the best that ships, or wisdom's [RUN's best, or"
    " compiler]",
)
@flags.use("own_problem", "own_chip", "own_settings", "baseline", "json")
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
    to the nodes that cost the most and fill the memory.

    \b
    egrl evaluate runs/bert-egrl-s0-1
    egrl evaluate --workload bert --mapping runs/bert-egrl-s0-1/best_mapping.json
    """
    named = {"--workload": workload, "--mapping": mapping, "--problem": problem, "--chip": chip}
    subject, chosen, name = run_or_flags("evaluate", run, named, settings, baseline)
    summary = None if run is None else read_summary(Path(run))
    report = evaluation_report(subject, chosen, name, summary)
    shown, missed = list[str](), ""
    if run is not None and summary is not None and mapping is None and (measured := measured_best(summary)):
        report["measured"] = measured
        missed = "" if report["cost"] is None else by_the_file(subject, chosen, measured["speedup"])
        shown = add_profile(measured, Path(run), problem or "")
    rewarded = isinstance(subject, HasBound) and math.isfinite(subject.bound(0).reward)
    text = json.dumps(report, allow_nan=False) if as_json else text_of(report, rewarded, shown, missed)
    click.echo(text)
    return 0


def add_profile(measured: dict[str, Any], run: Path, problem: str) -> list[str]:
    """Add what the board's profile says of a run's best mapping, if there is one; the lines for people about it."""
    from egrl.report.explaining import lines, profiled
    from egrl.runs.past_run import PastRun

    past = PastRun.read(run, problem)
    found = profiled(past, past.best_mapping())
    if found is None:
        return []
    measured["profile"] = found.document()
    return lines(found)


def measured_best(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Cost and speedup of a run's best as it was measured, and by what; None where the model gave the run's costs."""
    best, evaluator = summary["best"], summary.get("evaluator")
    if best is None or not isinstance(evaluator, Mapping):
        return None
    sure = {"confirmed": text.confirmed(summary), "sure": text.sureness(summary)}
    return {"cost": best["cost"], "speedup": best["speedup"], "by": evaluator["command"], **sure}


def evaluation_report(
    problem: Problem, mapping: Mapping16, name: str, summary: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What one mapping [N, H] costs, what it breaks as given, where the cost of what runs comes from, and what is known
    of the best possible: by the `summary` of a run, if there is one.
    """
    found = problem.evaluate(mapping[None], np.zeros(1, np.uint64))
    ran = found.status[0] == Status.OK
    failed = found.status[0] == Status.FAILED  # whoever explains what failed may fail, too
    explanation = problem.explain(mapping) if isinstance(problem, HasExplanation) and not failed else None
    cost = float(found.cost[0]) if ran else None
    bound = _known_bound(problem, summary)
    return {
        "kind": "evaluation",
        "version": 1,
        **problem.about.names,
        text.TABLE: text.table_of(problem.about),
        "mapping": name,
        "status": Status(int(found.status[0])).name.lower(),
        "cost": cost,
        "unit": problem.about.unit,
        "speedup": float(found.speedup[0]),
        "reward": None if failed else float(found.reward[0]),
        "epsilon": float(found.epsilon[0]),
        "baseline": baseline_table(problem),
        "bound": bound,
        "gap": None if bound is None or cost is None else cost / bound - 1.0,
        "bound_by": shares_of(problem, mapping) if ran else None,
        "violations": [str(violation) for violation in problem.judge(mapping)],
        "explanation": None if explanation is None else dataclasses.asdict(explanation),
    }


def _known_bound(problem: Problem, summary: Mapping[str, Any] | None) -> float | None:
    """No mapping costs less: what a run proved, or what is known at once; None where nothing is."""
    if gap.unbounded(problem):
        return None
    found = None if summary is None else summary.get("bound")
    known = problem.bound(0).cost if isinstance(problem, HasBound) else 0.0
    return max(found or 0.0, known) or None


def text_of(
    report: Mapping[str, Any], rewarded: bool = False, profile: Sequence[str] = (), missed: str = ""
) -> str:
    """The report for people: the explanation as a table, then the score, a short line for each thing; with the reward
    where that is no matter of the cost alone. The lines of a `profile` stand between them; `missed` says how far the
    chip file is off where a board measured.
    """
    unit, lines = report["unit"], list[str]()
    measured = report.get("measured")
    about, baseline = text.about_of(report), report["baseline"]
    if measured:
        score = (
            f"measured: {text.compared(measured['speedup'], text.baseline_text(about, baseline['rule']))},"
            f" {cost_text(measured['cost'], 's')}, by {measured['by']}"
            + (f", {measured['sure']}" if measured["sure"] else "")
        )
        lines.append(f"{score}\nthe table below is computed from the chip file, not measured\n")
    if report["explanation"] is not None:
        lines += lines_of(report["explanation"], unit)
    lines += [*profile, *_broken(report["violations"])]
    what = f"{report['workload']} on {report['chip']}, {report['mapping']}"
    if report["cost"] is None:
        return "\n".join([*lines, f"{what}: it did not run ({report['status']})", _moved(report)])
    costs = f"{cost_text(report['cost'], unit)} instead of {cost_text(baseline['cost'], unit)}"
    best = {"speedup": report["speedup"], "bound_by": report["bound_by"]}
    rules = "" if measured else rule_text(baseline)
    named = text.baseline_text(about, "" if rules else baseline["rule"])
    said = [
        f"{what}: {text.compared(report['speedup'], named, unit)}"
        + (", by the chip file" if measured else ""),
        costs + ("" if rules else _rule(about, baseline["rule"])),
        f"reward {report['reward']:.4f}" if rewarded else "",
        *(() if measured else (distance(report["gap"]), verdict({**report, "best": best}))),
        rules,
        _moved(report),
        f"{score}\n{missed}" if measured else "",
    ]
    return "\n".join([*lines, *(line for line in said if line)])


def _rule(about: About, rule: str) -> str:
    """The rule that made the baseline, in brackets; "" where the headline names it."""
    return "" if about.stands_for or rule == about.baseline_name else f" ({rule})"


def _broken(violations: Sequence[str]) -> list[str]:
    lines = [f"not valid as given: {violation}" for violation in violations[:MOST_VIOLATIONS]]
    if len(violations) > MOST_VIOLATIONS:
        lines.append(
            f"not valid as given: {len(violations) - MOST_VIOLATIONS} violations more (--json has all)"
        )
    return lines


def _moved(report: Mapping[str, Any]) -> str:
    """How much of the mapping had to change to be valid; "" if nothing."""
    share = report["epsilon"]
    return f"{share:.2%} of it had to change to be valid (epsilon)" if share else ""


def lines_of(explanation: Mapping[str, Any], unit: str) -> list[str]:
    """An explanation of `hwsim.explanation`, as a table has it, for people; `unit` is that of costs."""
    if "chips" in explanation:
        return _chips(explanation, unit)
    if "payers" in explanation:
        return _breakdown(explanation, unit)
    parts = sorted(explanation["seconds_bound_by"].items(), key=lambda part: (-part[1], part[0]))
    total = sum(seconds for _, seconds in parts)
    bound_by = [
        {"bound by": name, "us": f"{s * 1e6:.2f}", "share": f"{s / total:.1%}" if total else "-"}
        for name, s in parts
    ]
    return [*_table([_op_row(op) for op in explanation["ops"]]), "", *_table(bound_by), ""]


def _breakdown(breakdown: Mapping[str, Any], unit: str) -> list[str]:
    """The nodes that cost the most, and those in memory at the fullest time."""
    edges = any(payer["edge_cost"] for payer in breakdown["payers"])
    payers = [
        {
            "node": payer["node"],
            "choice": payer["choice"],
            "its cost": _cost(payer["own_cost"], unit),
            **({"its edges": f"{payer['edge_cost']:.0f}"} if edges else {}),
        }
        for payer in breakdown["payers"]
    ]
    holders = [
        {
            "node": holder["node"],
            "choice": holder["choice"],
            "uses": f"{holder['used']}",
            "share": f"{holder['used'] / max(1, breakdown['peak']):.1%}",
            "from": f"{holder['start']}",
            "until": f"{holder['end']}",
        }
        for holder in breakdown["holders"]
    ]
    parts = ", ".join(f"{name} {_cost(cost, unit)}" for name, cost in breakdown["parts"].items())
    share = f", {breakdown['peak'] / breakdown['limit']:.2%}" if breakdown["limit"] else ""
    return [
        f"the nodes that cost the most{', an edge shared by its two' if edges else ''}:",
        *(_table(payers) if payers else ["none"]),
        "",
        f"memory is fullest at time {breakdown['peak_time']}: {breakdown['peak']} of {breakdown['limit']}{share}",
        *(_table(holders) if holders else []),
        "",
        f"cost {_cost(breakdown['cost'], unit)} {shown(unit)}: {parts}",
        "",
    ]


def _cost(cost: float, unit: str) -> str:
    """A whole number as it is, seconds in what `shown` names."""
    return f"{cost}" if isinstance(cost, int) else f"{scaled(cost, unit):.2f}"


def _chips(partition: Mapping[str, Any], unit: str) -> list[str]:
    """The chips in use, and what takes the time."""
    rows = [
        {
            "chip": chip["name"],
            "nodes": f"{chip['nodes']}",
            f"busy {shown(unit)}": f"{scaled(chip['busy_s'], unit):.2f}",
            "weights KiB": f"{chip['weight_bytes'] / 1024:.1f}",
            "peak KiB": f"{chip['peak_bytes'] / 1024:.1f}",
            f"link {shown(unit)}": f"{scaled(chip['link_s'], unit):.2f}",
            "link KiB": f"{chip['link_bytes'] / 1024:.1f}",
        }
        for chip in partition["chips"]
        if chip["nodes"] or chip["link_bytes"]
    ]
    unused = len(partition["chips"]) - sum(chip["nodes"] > 0 for chip in partition["chips"])
    return [
        *_table(rows),
        "",
        f"slowest: {partition['bottleneck']}; {partition['stages']} stages, {unused} chips unused,"
        f" {partition['capacity_bytes'] / 1024:.0f} KiB a chip; a link leads to the next chip",
        "",
    ]


def _op_row(op: Mapping[str, Any]) -> dict[str, str]:
    row = {
        "op": op["name"],
        "weight": op["weight"] or "-",
        "activation": op["activation"] or "-",
        "start us": f"{op['start_s'] * 1e6:.2f}",
        "us": f"{op['duration_s'] * 1e6:.2f}",
        "bound by": op["bound_by"],
    }
    row |= {f"{memory} KiB": f"{size / 1024:.1f}" for memory, size in op["traffic_bytes"].items()}
    return row | {"prefetched KiB": f"{op['prefetched_bytes'] / 1024:.1f}"}


def _table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Lines of aligned columns; numbers to the right."""
    names = list(rows[0])
    words = [names.index(name) for name in ("op", "weight", "activation", "bound by") if name in names]
    return aligned([names, *([row[name] for name in names] for row in rows)], words)
